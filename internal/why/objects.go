// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/pkg/loglabels"
	"github.com/entrypointer/entrypointer/pkg/spelling"
)

// A kind is a kind of objects that have pods.
type kind struct {
	name    string
	object  string // the kind in manifests, of those with a template for pods
	aliases []string
	path    string // of the API
	plural  string
	// label is the label by which the pods name the object, "" for kinds with a selector.
	label string
	// controller is the kind of the object that controls the pods, "" for the object itself.
	controller string
	// restart is the command that has pods created anew, with a verb for the name.
	restart string
}

var kinds = []kind{
	{name: "pod", aliases: []string{"pods", "po"}, path: "/api/v1", plural: "pods"},
	{name: "deployment", object: "Deployment", aliases: []string{"deployments", "deploy"}, path: "/apis/apps/v1", plural: "deployments", controller: "ReplicaSet", restart: "kubectl -n %s rollout restart deployment/%s"},
	{name: "replicaset", object: "ReplicaSet", aliases: []string{"replicasets", "rs"}, path: "/apis/apps/v1", plural: "replicasets"},
	{name: "statefulset", object: "StatefulSet", aliases: []string{"statefulsets", "sts"}, path: "/apis/apps/v1", plural: "statefulsets", restart: "kubectl -n %s rollout restart statefulset/%s"},
	{name: "daemonset", object: "DaemonSet", aliases: []string{"daemonsets", "ds"}, path: "/apis/apps/v1", plural: "daemonsets", restart: "kubectl -n %s rollout restart daemonset/%s"},
	{name: "job", object: "Job", aliases: []string{"jobs"}, path: "/apis/batch/v1", plural: "jobs"},
	{name: "cronjob", object: "CronJob", aliases: []string{"cronjobs", "cj"}, path: "/apis/batch/v1", plural: "cronjobs", controller: "Job"},
	{name: "taskrun", aliases: []string{"taskruns", "tr"}, path: "/apis/tekton.dev/v1", plural: "taskruns", label: loglabels.TaskRun},
	{name: "pipelinerun", aliases: []string{"pipelineruns", "pr"}, path: "/apis/tekton.dev/v1", plural: "pipelineruns", label: loglabels.PipelineRun},
	{name: "ksvc", aliases: []string{"kservice", "kservices", "services.serving.knative.dev"}, path: "/apis/serving.knative.dev/v1", plural: "services", label: loglabels.Service},
	{name: "revision", aliases: []string{"revisions", "rev"}, path: "/apis/serving.knative.dev/v1", plural: "revisions", label: loglabels.Revision},
}

// templates lists the kinds that have a template for pods: "Pod, Deployment or Job".
func templates() string {
	all := []string{"Pod"}
	for _, k := range kinds {
		if k.object != "" {
			all = append(all, k.object)
		}
	}
	return spelling.Alternatives(all)
}

// A Target is the object that is asked about.
type Target struct {
	kind
	of string // the object's name
}

// ParseTarget parses TYPE/NAME, or the NAME of a pod.
func ParseTarget(s string) (Target, error) {
	typed, name, both := strings.Cut(s, "/")
	if !both {
		typed, name = "pod", s
	}
	typed = strings.ToLower(typed)
	at := slices.IndexFunc(kinds, func(k kind) bool { return k.name == typed || slices.Contains(k.aliases, typed) })
	if at < 0 || name == "" || strings.Contains(name, "/") {
		return Target{}, fmt.Errorf("reading %q: use TYPE/NAME with the type %s", s, TargetTypes())
	}
	return Target{kinds[at], name}, nil
}

// TargetTypes lists the types of targets: "pod, deployment or job".
func TargetTypes() string {
	var all []string
	for _, k := range kinds {
		all = append(all, k.name)
	}
	return spelling.Alternatives(all)
}

// String returns TYPE/NAME.
func (t Target) String() string { return t.name + "/" + t.of }

// An object is what is read of a workload, whatever its kind.
type object struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Selector    *metav1.LabelSelector   `json:"selector"`
		Template    *corev1.PodTemplateSpec `json:"template"`
		JobTemplate *struct {
			Spec struct {
				Template *corev1.PodTemplateSpec `json:"template"`
			} `json:"spec"`
		} `json:"jobTemplate"`
	} `json:"spec"`
	Status struct {
		LatestCreatedRevisionName string `json:"latestCreatedRevisionName"`
	} `json:"status"`
}

// template returns the template of the object's pods, nil if another object has it, or
// none.
func (o *object) template() *corev1.PodTemplateSpec {
	if o.Spec.JobTemplate != nil {
		return o.Spec.JobTemplate.Spec.Template
	}
	return o.Spec.Template
}

// selector returns the labels of the object's pods, "" if it has none of its own.
func (t Target) selector(o *object) (string, error) {
	if t.label != "" {
		return t.label + "=" + t.of, nil
	}
	if t.name == "cronjob" || o.Spec.Selector == nil {
		return "", nil
	}
	selector, err := metav1.LabelSelectorAsSelector(o.Spec.Selector)
	if err != nil {
		return "", fmt.Errorf("reading the selector of %s: %w", t, err)
	}
	return selector.String(), nil
}
