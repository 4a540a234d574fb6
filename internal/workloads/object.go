// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package workloads

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

// maxSpec is the longest spec of a pod template that is decoded, in bytes: decoded, it
// takes many times as much memory.
const maxSpec = 128 << 10

// An object is a workload, as far as its annotations are concerned.
type object struct {
	kind string
	// metadata are the object's own metadata, and those of its templates.
	metadata []metadata
	// pod has what is known of the object's pods, nil if that can't be checked.
	pod *corev1.Pod
	// asks reports that the pods are certain to be wrapped.
	asks bool
}

type metadata struct {
	Annotations boundedMap `json:"annotations"`
	Labels      boundedMap `json:"labels"`
}

// maxKeys is the largest number of annotations, and of labels, that are looked at. API
// servers call for no object with more (config/webhook/600-webhooks.yaml).
const maxKeys = 300

// A boundedMap has annotations or labels, none if there are more than maxKeys.
type boundedMap map[string]string

// UnmarshalJSON implements json.Unmarshaler.
func (m *boundedMap) UnmarshalJSON(document []byte) error {
	var all map[string]string
	if err := json.Unmarshal(document, &all); err != nil {
		return err
	}
	if *m = nil; len(all) <= maxKeys {
		*m = all
	}
	return nil
}

type template struct {
	Metadata metadata        `json:"metadata"`
	Spec     json.RawMessage `json:"spec"`
}

// document has the fields of all kinds that are read.
type document struct {
	Metadata metadata `json:"metadata"`
	Spec     struct {
		Template    template `json:"template"`
		JobTemplate struct {
			Metadata metadata `json:"metadata"`
			Spec     struct {
				Template template `json:"template"`
			} `json:"spec"`
		} `json:"jobTemplate"`
	} `json:"spec"`
}

func decode(request *admissionv1.AdmissionRequest) (*object, error) {
	var d document
	if err := json.Unmarshal(request.Object.Raw, &d); err != nil {
		return nil, fmt.Errorf("decoding the object under review: %w", err)
	}
	o := &object{kind: request.Kind.Kind, metadata: []metadata{d.Metadata}}
	from := d.Spec.Template
	switch o.kind {
	case "Pod": // another webhook checks the annotations that pods have
		return o, nil
	case "TaskRun", "PipelineRun":
		o.pod, o.asks = podOfTaskRun(d.Metadata), true
		return o, nil
	case "CronJob":
		from = d.Spec.JobTemplate.Spec.Template
		o.metadata = append(o.metadata, d.Spec.JobTemplate.Metadata)
	}
	o.metadata = append(o.metadata, from.Metadata)
	o.pod = podOf(from)
	o.asks = from.Metadata.Annotations[pod.InjectAnnotation] == "true"
	if o.pod != nil && (o.kind == "Service" || o.kind == "Configuration") {
		o.pod, o.asks = podOfRevision(o.pod), true
	}
	return o, nil
}

// refused says in a warning when pods are refused: whether the namespace asks for all of
// its pods isn't known.
func (o *object) refused() string {
	if value, set := o.pod.Annotations[pod.InjectAnnotation]; o.asks || set && value != "true" && value != "false" {
		return " are refused"
	}
	return " are refused, if they are wrapped"
}

// podOf returns a pod of the template, nil if the template can't be decoded.
func podOf(t template) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: t.Metadata.Annotations, Labels: t.Metadata.Labels}}
	if len(t.Spec) > maxSpec || !pod.Mentions(p.Annotations) || json.Unmarshal(t.Spec, &p.Spec) != nil {
		return nil
	}
	return p
}

// podOfRevision returns a pod of a Knative Revision, with the container that Knative
// adds. Before Knative has named its containers, nil.
func podOfRevision(p *corev1.Pod) *corev1.Pod {
	if slices.ContainsFunc(p.Spec.Containers, func(c corev1.Container) bool { return c.Name == "" }) {
		return nil
	}
	own(p, "serving.knative.dev/revision", "ReplicaSet")
	p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "queue-proxy"})
	return p
}

// podOfTaskRun returns a pod with every container that the annotations name, because the
// containers are the Task's, and with one step more, for the annotations of all steps.
func podOfTaskRun(m metadata) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: m.Annotations, Labels: m.Labels}}
	own(p, "tekton.dev/taskRun", "TaskRun")
	containers := []string{"step-unnamed"}
	for key := range m.Annotations {
		_, name, _ := strings.Cut(key, ".entrypointer.dev/")
		switch {
		case name == "":
		case strings.HasPrefix(name, "sidecar-"):
			containers = append(containers, name)
		default:
			containers = append(containers, "step-"+strings.TrimPrefix(name, "step-"))
		}
	}
	slices.Sort(containers)
	for _, name := range slices.Compact(containers) {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: name})
	}
	return p
}

// own makes an owner recognise a pod as its own: by a label, and by the kind of the pod's
// controller.
func own(p *corev1.Pod, label, controller string) {
	p.Labels = maps.Clone(p.Labels)
	if p.Labels == nil {
		p.Labels = map[string]string{}
	}
	p.Labels[label] = "unknown"
	p.OwnerReferences = []metav1.OwnerReference{{Kind: controller, Controller: new(true)}}
}
