// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package logreader

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/entrypointer/entrypointer/internal/logs/loglist"
	"github.com/entrypointer/entrypointer/internal/objects"
	"github.com/entrypointer/entrypointer/internal/printable"
	"github.com/entrypointer/entrypointer/internal/target"
)

// The comments on the types of the document, and on their fields, are the descriptions in
// docs/cli.schema.json, which go test ./cmd/kubectl-entrypointer -run Schema -update writes.

// Pods is the document of kubectl entrypointer logs --list.
type Pods struct {
	// The namespace of the pods.
	Namespace string `json:"namespace"`
	// The pods that have logs: the one of which a container has begun to print last comes first.
	// Pods of the same name count as one.
	Pods []PodLogs `json:"pods"`
	// How many pods come after these.
	Remaining int64 `json:"remaining"`
	// Whether the namespace has more streams of output than the log service searches, so that
	// pods may be missing.
	Incomplete bool `json:"incomplete"`
}

// PodLogs says what logs there are of the pods of one name.
type PodLogs struct {
	// The name of the pods.
	Name string `json:"name"`
	// The object to which the newest pod belongs, as TYPE/NAME. It is absent if it isn't known.
	Owner string `json:"owner,omitempty"`
	// The labels by which the logs of the newest pod are found.
	Labels map[string]string `json:"labels,omitempty"`
	// How many pods had this name.
	Pods int `json:"pods"`
	// The names of the containers.
	Containers []string `json:"containers"`
	// How often the containers have started.
	Runs int `json:"runs"`
	// The number of streams: stdout, stderr and events of each run.
	Streams int `json:"streams"`
	// When the first container has begun to print.
	First time.Time `json:"first"`
	// When the last one has.
	Last time.Time `json:"last"`
	// How many bytes the containers have printed, of those whose end is known: of all if complete is
	// true and partial is false. It is absent if the log service is older than the plugin.
	Bytes *int64 `json:"bytes,omitempty"`
	// Whether all containers have ended, and everything has reached the log service.
	Complete bool `json:"complete"`
	// Whether the logs are kept until they are released, beyond retention and quota.
	Held bool `json:"held"`
	// Whether there are older streams, which pods, containers, runs, bytes and complete don't
	// count.
	Partial bool `json:"partial"`
}

// PodsOptions say which pods to list. Without a target and a selector, all are listed.
type PodsOptions struct {
	Target   target.Target
	Selector labels.Selector
	// Span selects pods of which a container has begun to print in it.
	Span
	// Limit bounds the pods.
	Limit int
}

// ListPods lists pods that have logs, also those that are gone.
func (c *Client) ListPods(ctx context.Context, o PodsOptions) (pods Pods, err error) {
	pods = Pods{Namespace: c.Namespace, Pods: []PodLogs{}}
	if o.Target.Name == target.Pod {
		return pods, c.getPod(ctx, o, &pods)
	}
	for after := ""; len(pods.Pods) < o.Limit; {
		request := c.get().Param("limit", strconv.Itoa(o.Limit-len(pods.Pods)))
		switch {
		case o.Selector != nil:
			request = request.Param("labelSelector", o.Selector.String())
		case o.Target.Of != "":
			request = request.Param("labelSelector", o.Target.LogLabel()+"="+o.Target.Of)
		}
		request = o.Span.parameters(request, "since", "until")
		if after != "" {
			request = request.Param("continue", after)
		}
		var page loglist.List
		if err := objects.Read(request.SetHeader("Accept", "application/json").Do(ctx), &page); err != nil {
			return pods, c.explainList(err, fmt.Sprintf("listing the pods with logs in namespace %q", c.Namespace), false)
		}
		for _, item := range page.Items {
			pods.Pods = append(pods.Pods, podLogs(item))
		}
		pods.Remaining, pods.Incomplete = 0, page.Incomplete
		if page.RemainingItemCount != nil {
			pods.Remaining = *page.RemainingItemCount
		}
		if after = page.Continue; after == "" {
			break
		}
	}
	return pods, nil
}

// getPod lists the pod of a name, if it has logs.
func (c *Client) getPod(ctx context.Context, o PodsOptions, pods *Pods) error {
	var found loglist.Log
	err := objects.Read(c.get(o.Target.Of).SetHeader("Accept", "application/json").Do(ctx), &found)
	// Without a log service, the API server itself answers, and not with a Status.
	if apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) {
		return c.noLogsError(ctx, Options{Target: o.Target})
	}
	if err != nil {
		return c.explainList(err, fmt.Sprintf("looking for logs of %s in namespace %q", o.Target, c.Namespace), true)
	}
	if o.overlaps(found.Status.FirstStreamTime.Time, found.Status.LastStreamTime.Time) {
		pods.Pods = append(pods.Pods, podLogs(found))
	}
	return nil
}

func podLogs(item loglist.Log) PodLogs {
	s := item.Status
	return PodLogs{
		Name: item.Name, Owner: s.Owner, Labels: item.Labels, Pods: s.Pods, Containers: s.Containers, Runs: s.Runs, Streams: s.Streams,
		First: s.FirstStreamTime.UTC(), Last: s.LastStreamTime.UTC(), Bytes: s.Bytes, Complete: s.Complete, Held: s.Held, Partial: s.Partial,
	}
}

// Print prints a table.
func (p Pods) Print(out io.Writer, wide bool) error {
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	header := "POD\tOWNER\tCONTAINERS\tRUNS\tFIRST\tLAST"
	if wide {
		header += "\tCOMPLETE\tHELD\tPODS\tSTREAMS"
	}
	_, _ = fmt.Fprintln(table, header) // Flush returns the error
	for _, pod := range p.Pods {
		runs := strconv.Itoa(pod.Runs)
		if pod.Partial {
			runs += "+"
		}
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s", printable.Line(pod.Name), cmp.Or(printable.Line(pod.Owner), "-"), printable.Line(strings.Join(pod.Containers, ",")),
			runs, pod.First.Format(time.RFC3339), pod.Last.Format(time.RFC3339))
		if wide {
			_, _ = fmt.Fprintf(table, "\t%t\t%t\t%d\t%d", pod.Complete, pod.Held, pod.Pods, pod.Streams)
		}
		_, _ = fmt.Fprintln(table)
	}
	return table.Flush()
}
