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
)

// A kind is what logs can belong to.
type kind struct {
	name    string
	aliases []string
	// label is that of its pods, "" of pods themselves.
	label string
	// path is where the API server has those that come to an end: they are
	// <path>/namespaces/<namespace>/<plural>/<name>.
	path, plural string
}

var kinds = []kind{
	{"pod", []string{"pods", "po"}, "", "/api/v1", "pods"},
	{"taskrun", []string{"taskruns", "tr", "taskrun.tekton.dev", "taskruns.tekton.dev"}, "tekton.dev/taskRun", "/apis/tekton.dev/v1", "taskruns"},
	{"pipelinerun", []string{"pipelineruns", "pr", "pipelinerun.tekton.dev", "pipelineruns.tekton.dev"}, "tekton.dev/pipelineRun", "/apis/tekton.dev/v1", "pipelineruns"},
	{"ksvc", []string{"kservice", "kservices", "service.serving.knative.dev", "services.serving.knative.dev"}, "serving.knative.dev/service", "", ""},
	{"revision", []string{"revisions", "rev", "revision.serving.knative.dev", "revisions.serving.knative.dev"}, "serving.knative.dev/revision", "", ""},
}

// A Target is whose logs are wanted.
type Target struct {
	kind kind
	name string
}

// ParseTarget reads TYPE/NAME, or the NAME of a pod.
func ParseTarget(s string) (Target, error) {
	typed, name, both := strings.Cut(s, "/")
	if !both {
		typed, name = "pod", s
	}
	at := slices.IndexFunc(kinds, func(k kind) bool {
		return k.name == strings.ToLower(typed) || slices.Contains(k.aliases, strings.ToLower(typed))
	})
	if at < 0 || name == "" || strings.Contains(name, "/") {
		return Target{}, fmt.Errorf("reading %q: use pod/NAME, taskrun/NAME, pipelinerun/NAME, ksvc/NAME or revision/NAME", s)
	}
	return Target{kinds[at], name}, nil
}

// String is how people write it.
func (t Target) String() string { return t.kind.name + "/" + t.name }

// query is the parameter by which its streams are listed.
func (t Target) query() (key, value string) {
	if t.kind.label == "" {
		return "pod", t.name
	}
	return "label", t.kind.label + "=" + t.name
}

// finished says whether nothing more is to be expected of a target: it is gone, or
// has come to its end. Whoever may not look isn't made to wait.
func (c *Client) finished(ctx context.Context, t Target) (bool, error) {
	if t.kind.path == "" {
		return false, nil
	}
	answer, err := c.REST.Get().AbsPath(t.kind.path, "namespaces", c.Namespace, t.kind.plural, t.name).SetHeader("Accept", "application/json").DoRaw(ctx)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("asking whether %s has come to its end: %w", t, err)
	}
	var object struct {
		Status struct{ Phase, CompletionTime string }
	}
	if err := json.Unmarshal(answer, &object); err != nil {
		return false, fmt.Errorf("asking whether %s has come to its end: reading the answer: %w", t, err)
	}
	return object.Status.CompletionTime != "" || object.Status.Phase == "Succeeded" || object.Status.Phase == "Failed", nil
}

// explain says what to do about an error of a listing.
func (c *Client) explain(err error, t Target) error {
	what := fmt.Sprintf("listing the logs of %s in namespace %q", t, c.Namespace)
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%s: the cluster has no log service (no API %s/%s): the operator installs it with ko apply -f config/logs", what, endpoint.Group, endpoint.Version)
	case apierrors.IsServiceUnavailable(err):
		return fmt.Errorf("%s: %w: the log service doesn't answer; see kubectl get apiservice %s.%s", what, err, endpoint.Version, endpoint.Group)
	case apierrors.IsForbidden(err) && t.kind.label == "":
		return fmt.Errorf("%s: forbidden: you need the right to get pods/log of this pod, such as by the ClusterRole view", what)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%s: forbidden: you need the right to get pods/log of all pods of the namespace, such as by the ClusterRole view", what)
	default:
		return fmt.Errorf("%s: %w", what, err)
	}
}
