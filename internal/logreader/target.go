// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package logreader

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/entrypointer/entrypointer/internal/logs/endpoint"
	"github.com/entrypointer/entrypointer/pkg/loglabels"
	"github.com/entrypointer/entrypointer/pkg/spelling"
)

// A targetKind is a kind of object that has logs.
type targetKind struct {
	name    string
	aliases []string
	// label is the label of its pods, "" for pods themselves.
	label string
	// path is where the API server has objects that come to an end:
	// <path>/namespaces/<namespace>/<plural>/<name>. "" stands for objects that don't.
	path, plural string
}

var targetKinds = []targetKind{
	{"pod", []string{"pods", "po"}, "", "/api/v1", "pods"},
	{"taskrun", []string{"taskruns", "tr", "taskrun.tekton.dev", "taskruns.tekton.dev"}, loglabels.TaskRun, "/apis/tekton.dev/v1", "taskruns"},
	{"pipelinerun", []string{"pipelineruns", "pr", "pipelinerun.tekton.dev", "pipelineruns.tekton.dev"}, loglabels.PipelineRun, "/apis/tekton.dev/v1", "pipelineruns"},
	{"ksvc", []string{"kservice", "kservices", "service.serving.knative.dev", "services.serving.knative.dev"}, loglabels.Service, "", ""},
	{"revision", []string{"revisions", "rev", "revision.serving.knative.dev", "revisions.serving.knative.dev"}, loglabels.Revision, "", ""},
	{"workflow", []string{"workflows", "wf", "workflow.argoproj.io", "workflows.argoproj.io"}, loglabels.Workflow, "/apis/argoproj.io/v1alpha1", "workflows"},
}

// A Target is the object whose logs are wanted.
type Target struct {
	kind targetKind
	name string
}

// ParseTarget parses TYPE/NAME, or the NAME of a pod.
func ParseTarget(s string) (Target, error) {
	typed, name, both := strings.Cut(s, "/")
	if !both {
		typed, name = "pod", s
	}
	at := slices.IndexFunc(targetKinds, func(k targetKind) bool {
		return k.name == strings.ToLower(typed) || slices.Contains(k.aliases, strings.ToLower(typed))
	})
	if at < 0 || name == "" || strings.Contains(name, "/") {
		return Target{}, fmt.Errorf("reading %q: use TYPE/NAME with the type %s", s, TargetTypes())
	}
	return Target{targetKinds[at], name}, nil
}

// TargetTypes lists the types of targets: "pod, taskrun or ksvc".
func TargetTypes() string {
	var all []string
	for _, k := range targetKinds {
		all = append(all, k.name)
	}
	return spelling.Alternatives(all)
}

// String returns TYPE/NAME.
func (t Target) String() string { return t.kind.name + "/" + t.name }

// query returns the parameter to list the streams of the target.
func (t Target) query() (key, value string) {
	if t.kind.label == "" {
		return "pod", t.name
	}
	return "label", t.kind.label + "=" + t.name
}

// targetState reports whether more is to be expected of a target.
func (c *Client) targetState(ctx context.Context, t Target) (containerState, error) {
	if t.kind.path == "" {
		return stateRuns, nil
	}
	answer, err := c.REST.Get().AbsPath(t.kind.path, "namespaces", c.Namespace, t.kind.plural, t.name).SetHeader("Accept", "application/json").DoRaw(ctx)
	switch {
	case apierrors.IsNotFound(err):
		return stateEnded, nil
	case apierrors.IsForbidden(err):
		return stateUnknown, nil
	case err != nil:
		return stateUnknown, fmt.Errorf("asking whether %s has ended: %w", t, err)
	}
	var object struct {
		Status struct{ Phase, CompletionTime string }
	}
	if err := json.Unmarshal(answer, &object); err != nil {
		return stateUnknown, fmt.Errorf("asking whether %s has ended: reading the response: %w", t, err)
	}
	if object.Status.CompletionTime != "" || slices.Contains([]string{"Succeeded", "Failed", "Error"}, object.Status.Phase) {
		return stateEnded, nil
	}
	return stateRuns, nil
}

// explain adds to an error of a listing what to do about it.
func (c *Client) explain(err error, t Target) error {
	what := fmt.Sprintf("listing the logs of %s in namespace %q", t, c.Namespace)
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%s: the cluster has no log service (no API %s/%s): the operator installs it with ko apply -f config/logs", what, endpoint.Group, endpoint.Version)
	case apierrors.IsServiceUnavailable(err):
		return fmt.Errorf("%s: %w: the log service doesn't respond; see kubectl get apiservice %s.%s", what, err, endpoint.Version, endpoint.Group)
	case apierrors.IsForbidden(err) && t.kind.label == "":
		return fmt.Errorf("%s: forbidden: you need the right to get pods/log of this pod, such as by the ClusterRole view", what)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%s: forbidden: you need the right to get pods/log of all pods of the namespace, such as by the ClusterRole view", what)
	default:
		return fmt.Errorf("%s: %w", what, err)
	}
}
