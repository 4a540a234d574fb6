// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package target has the objects that the commands of the kubectl plugin are asked about:
// pods, and what has pods.
package target

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/pkg/loglabels"
	"github.com/entrypointer/entrypointer/pkg/spelling"
)

// A Kind is a kind of objects that have pods.
type Kind struct {
	Name    string
	Aliases []string
	// Object is the kind in manifests, of those that have a template for pods.
	Object string
	// Path and Plural are those of the API:
	// <path>/namespaces/<namespace>/<plural>/<name>.
	Path, Plural string
	// Label is the label by which pods name the object, "" for kinds with a selector, and
	// for pods themselves.
	Label string
	// OwnerLabel is the label of logs that admission makes of the pod's controller, for kinds
	// with a selector.
	OwnerLabel string
	// Controller is the kind of the object in between that controls the pods, "" if it is
	// the object itself.
	Controller string
	// Ends reports whether the status of the object says that it has come to an end.
	Ends bool
	// Restarts reports whether kubectl rollout restart has the pods created anew.
	Restarts bool
}

const (
	core    = "/api/v1"
	apps    = "/apis/apps/v1"
	batch   = "/apis/batch/v1"
	tekton  = "/apis/tekton.dev/v1"
	serving = "/apis/serving.knative.dev/v1"
)

// Pod is the kind of pods themselves.
const Pod = "pod"

var kinds = []Kind{
	{Name: Pod, Aliases: []string{"pods", "po"}, Path: core, Plural: "pods", Ends: true},
	{Name: "deployment", Aliases: []string{"deployments", "deploy"}, Object: "Deployment", Path: apps, Plural: "deployments", OwnerLabel: loglabels.Deployment, Controller: "ReplicaSet", Restarts: true},
	{Name: "replicaset", Aliases: []string{"replicasets", "rs"}, Object: "ReplicaSet", Path: apps, Plural: "replicasets", OwnerLabel: loglabels.ReplicaSet},
	{Name: "statefulset", Aliases: []string{"statefulsets", "sts"}, Object: "StatefulSet", Path: apps, Plural: "statefulsets", OwnerLabel: loglabels.StatefulSet, Restarts: true},
	{Name: "daemonset", Aliases: []string{"daemonsets", "ds"}, Object: "DaemonSet", Path: apps, Plural: "daemonsets", OwnerLabel: loglabels.DaemonSet, Restarts: true},
	{Name: "job", Aliases: []string{"jobs"}, Object: "Job", Path: batch, Plural: "jobs", OwnerLabel: loglabels.Job, Ends: true},
	{Name: "cronjob", Aliases: []string{"cronjobs", "cj"}, Object: "CronJob", Path: batch, Plural: "cronjobs", OwnerLabel: loglabels.CronJob, Controller: "Job"},
	{Name: "taskrun", Aliases: []string{"taskruns", "tr", "taskrun.tekton.dev", "taskruns.tekton.dev"}, Path: tekton, Plural: "taskruns", Label: loglabels.TaskRun, Ends: true},
	{Name: "pipelinerun", Aliases: []string{"pipelineruns", "pr", "pipelinerun.tekton.dev", "pipelineruns.tekton.dev"}, Path: tekton, Plural: "pipelineruns", Label: loglabels.PipelineRun, Ends: true},
	{Name: "ksvc", Aliases: []string{"kservice", "kservices", "service.serving.knative.dev", "services.serving.knative.dev"}, Path: serving, Plural: "services", Label: loglabels.Service},
	{Name: "revision", Aliases: []string{"revisions", "rev", "revision.serving.knative.dev", "revisions.serving.knative.dev"}, Path: serving, Plural: "revisions", Label: loglabels.Revision},
	{Name: "workflow", Aliases: []string{"workflows", "wf", "workflow.argoproj.io", "workflows.argoproj.io"}, Path: "/apis/argoproj.io/v1alpha1", Plural: "workflows", Label: loglabels.Workflow, Ends: true},
}

// All returns all kinds.
func All() []Kind { return slices.Clone(kinds) }

// LogLabel returns the label by which logs are found, "" for pods, whose name finds them.
func (k Kind) LogLabel() string { return cmp.Or(k.Label, k.OwnerLabel) }

// Is reports whether a user names the kind so, in small letters.
func (k Kind) Is(typed string) bool { return k.Name == typed || slices.Contains(k.Aliases, typed) }

// A Target is an object that a user names.
type Target struct {
	Kind
	Of string // the object's name
}

// Parse parses TYPE/NAME, or the NAME of a pod.
func Parse(s string, kinds []Kind) (Target, error) {
	typed, name, both := strings.Cut(s, "/")
	if typed = strings.ToLower(typed); !both {
		name = s
	}
	isTyped := func(k Kind) bool { return k.Is(typed) }
	if !both {
		if slices.ContainsFunc(kinds, isTyped) { // as kubectl has it
			return Target{}, fmt.Errorf("reading %q: it is a type: use %s/NAME, or pod/%s for a pod of this name", s, s, s)
		}
		typed = Pod
	}
	at := slices.IndexFunc(kinds, isTyped)
	if at < 0 || name == "" || len(content.IsPathSegmentName(name)) > 0 {
		return Target{}, fmt.Errorf("reading %q: use TYPE/NAME with the type %s%s", s, Types(kinds), meant(typed, name, kinds))
	}
	return Target{kinds[at], name}, nil
}

// meant ends an error about an object of an unknown type: "; did you mean deployment/web?".
// It is "" if no type is near.
func meant(typed, name string, kinds []Kind) string {
	var known []string
	for _, k := range kinds {
		known = append(append(known, k.Name), k.Aliases...)
	}
	nearest := spelling.Nearest(typed, known)
	if nearest == "" || nearest == typed {
		return ""
	}
	return fmt.Sprintf("; did you mean %s/%s?", nearest, name)
}

// Types lists the names of kinds: "pod, deployment or job".
func Types(kinds []Kind) string {
	var all []string
	for _, k := range kinds {
		all = append(all, k.Name)
	}
	return spelling.Alternatives(all)
}

// Controls reports whether a pod with these owners can be the object's: pods of others can
// have the labels of its selector. Of a Deployment, the name of the ReplicaSet begins with
// its own. A pod without a controller is about to be adopted.
func (t Target) Controls(owners []metav1.OwnerReference) bool {
	if t.Object == "" {
		return true // found by name, or by a label of its own
	}
	for _, owner := range owners {
		switch {
		case owner.Controller == nil || !*owner.Controller:
		case t.Controller != "":
			return owner.Kind == t.Controller && strings.HasPrefix(owner.Name, t.Of+"-")
		default:
			return owner.Kind == t.Object && owner.Name == t.Of
		}
	}
	return true
}

// String returns TYPE/NAME.
func (t Target) String() string { return t.Name + "/" + t.Of }
