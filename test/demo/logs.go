// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/entrypointer/entrypointer/test/framework"
)

const (
	// logsExample is a TaskRun and a Knative Service that send their logs.
	logsExample = "options/logs.yaml"
	// secret is what the TaskRun prints.
	secret = "correct-horse"
	// patience is what pods may take to go.
	patience = 3 * time.Minute
)

// A reading is what somebody reads of a log after the pods are gone.
type reading struct {
	args      []string // of kubectl entrypointer logs
	pods      string   // labels that they have
	expected  []string // lines, or what they begin with
	elsewhere string   // what the cluster's own logs had
	left      int      // pods
	text      string
}

// newReadings are those of the example under a name. The Service's last lines are
// those that it prints when it has been told to stop.
func newReadings(name string) []*reading {
	step := func(step, line string) string { return fmt.Sprintf("[pod/%s-pod/step-%s] %s", name, step, line) }
	return []*reading{
		{args: []string{"taskrun/" + name}, pods: "tekton.dev/taskRun=" + name, expected: []string{
			step("login", "logging in as admin with the password "+strings.Repeat("*", len(secret))),
			step("upload", "Authorization: Basic YWRtaW46****"),
			step("upload", "uploaded"),
		}},
		{args: []string{"ksvc/" + name, "--tail", "2"}, pods: "serving.knative.dev/service=" + name, expected: []string{
			"told to stop, finishing requests",
			"stopped in order",
		}},
	}
}

// readLogs runs the example, deletes its objects, and reads when their pods are gone.
func readLogs(ctx context.Context, cluster *framework.Cluster) ([]*reading, error) {
	directory, err := os.MkdirTemp("", "demo-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(directory) }()
	plugin, err := framework.BuildPlugin(ctx, directory)
	if err != nil {
		return nil, err
	}
	name := "logs-" + rand.String(5) // an earlier demo's are there, too
	objects, err := logsObjects(ctx, name)
	if err != nil {
		return nil, err
	}
	if err := cluster.Create(ctx, optedIn, objects...); err != nil {
		return nil, err
	}
	if _, err := cluster.WaitForTaskRun(ctx, optedIn, name); err != nil {
		return nil, err
	}
	if _, err := cluster.WaitForService(ctx, optedIn, name); err != nil {
		return nil, err
	}
	all := newReadings(name)
	for _, r := range all {
		if r.elsewhere, err = clusterLogs(ctx, cluster, r.pods); err != nil {
			return nil, err
		}
	}
	for _, object := range objects {
		if err := cluster.Remove(ctx, optedIn, object); err != nil {
			return nil, err
		}
	}
	for _, r := range all {
		if err := r.read(ctx, cluster, plugin); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// logsObjects are those of the example, under a name that no other demo has.
func logsObjects(ctx context.Context, name string) ([]*unstructured.Unstructured, error) {
	objects, err := framework.Example(ctx, logsExample)
	if err != nil {
		return nil, err
	}
	for _, object := range objects {
		if object.GetKind() != "Secret" {
			object.SetName(name)
		}
	}
	return objects, framework.KeepRunning(objects)
}

// clusterLogs are those of the pods' wrapped containers, as the cluster itself has them.
func clusterLogs(ctx context.Context, cluster *framework.Cluster, selector string) (text string, _ error) {
	p, err := cluster.PodOf(ctx, optedIn, selector)
	if err != nil {
		return "", err
	}
	for _, c := range p.Spec.Containers {
		if c.Name == "queue-proxy" {
			continue
		}
		log, err := cluster.Logs(ctx, optedIn, p.Name, c.Name)
		if err != nil {
			return "", err
		}
		text += log
	}
	return text, nil
}

func (r *reading) read(ctx context.Context, cluster *framework.Cluster, plugin framework.Plugin) error {
	err := framework.Eventually(ctx, patience, "the pods with "+r.pods+" to be gone", func(ctx context.Context) error {
		pods, err := cluster.Kube.CoreV1().Pods(optedIn).List(ctx, metav1.ListOptions{LabelSelector: r.pods})
		if err != nil {
			return err
		}
		if r.left = len(pods.Items); r.left > 0 {
			return fmt.Errorf("there are %d", r.left)
		}
		return nil
	})
	if err != nil {
		return err
	}
	r.text, err = plugin.ReadLogs(ctx, append([]string{"-n", optedIn}, r.args...)...)
	return err
}

// claims are that all of it was there, and nothing that is secret.
func (r *reading) claims() []claim {
	lines := strings.Split(strings.TrimRight(r.text, "\n"), "\n")
	return []claim{{
		holds: r.left == 0,
		text:  "the pods are gone",
		but:   fmt.Sprintf("there are %d", r.left),
	}, {
		holds: pointsOnly(r.elsewhere),
		text:  "the cluster's logs had the command that reads the output, and nothing else",
		but:   fmt.Sprintf("they had %q", r.elsewhere),
	}, {
		holds: slices.EqualFunc(lines, r.expected, strings.HasPrefix),
		text:  "each line is there",
		but:   fmt.Sprintf("there is %q instead of %q", lines, r.expected),
	}, {
		holds: !strings.Contains(r.text, secret) && !strings.Contains(r.text, encoded),
		text:  "the secret isn't",
		but:   fmt.Sprintf("it is in %q", r.text),
	}}
}

// pointsOnly reports whether a container's log in the cluster, or several joined, is lines
// with the command that reads its output at the log service.
func pointsOnly(log string) bool {
	for line := range strings.Lines(log) {
		if !strings.HasPrefix(line, pointer) {
			return false
		}
	}
	return log != ""
}

// pointer begins the only line that a container that sends its output leaves in the
// cluster's log.
const pointer = "entrypointer: the output is at the log service: kubectl entrypointer logs -n " + optedIn + " pod/"

// encoded is what no text has in which the whole secret is in base64 behind "admin:".
var encoded = base64.RawStdEncoding.EncodeToString([]byte(secret))[:16]

func (r *reading) command() string {
	return "kubectl entrypointer logs -n " + optedIn + " " + strings.Join(r.args, " ")
}

// showLogs prints the readings, and returns how many claims there were and how many
// don't hold.
func showLogs(out *terminal, readings []*reading) (claimed, failed int) {
	out.heading("Logs of pods that are gone", "examples/"+logsExample)
	for _, r := range readings {
		claims := r.claims()
		failed += out.answer(r.command(), r.text, claims)
		claimed += len(claims)
	}
	return claimed, failed
}

// console is the block that docs/logs.md shows.
func console(readings []*reading) string {
	var b strings.Builder
	fmt.Fprintln(&b, "```console")
	for _, r := range readings {
		fmt.Fprintf(&b, "$ %s\n%s", r.command(), r.text)
	}
	fmt.Fprintln(&b, "```")
	return b.String()
}
