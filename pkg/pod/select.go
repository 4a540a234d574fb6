// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/pkg/pod/internal/annotation"
)

// A Kind describes the pods of one owner: how they are recognised, and which of their
// containers are wrapped.
type Kind struct {
	Owner Owner
	// Label is the label that each of these pods has, with any value.
	Label string
	// Controller is the kind of the object that controls them, such as "TaskRun". Labels
	// can be forged, so if the labels of several Kinds are present, the controller
	// decides.
	Controller string
	// Wraps reports whether a container is the user's.
	Wraps func(corev1.Container) bool
}

// Kinds returns the default Kinds of an [Injector]: Tekton's and Knative's.
func Kinds() []Kind { return slices.Clone(kinds) }

var kinds = []Kind{
	// Steps only: Tekton stops a sidecar by replacing its image by one in which the
	// supervisor would keep the container alive, and reads its log sidecar by protocol.
	{Tekton, "tekton.dev/taskRun", "TaskRun", isStep},
	{Knative, "serving.knative.dev/revision", "ReplicaSet", func(c corev1.Container) bool { return c.Name != "queue-proxy" }},
}

// owner is the owner of a pod.
type owner struct {
	name  Owner
	wraps func(corev1.Container) bool
	// byName reports whether the pod's author named the containers one by one.
	byName bool
}

// classify determines the owner of a pod and the containers to wrap, as indexes into
// spec.containers. An outcome other than "" is the final decision.
func (i *Injector) classify(pod *corev1.Pod) (selected []int, _ Owner, _ Outcome, _ error) {
	optsOut, err := optsOut(pod)
	if err != nil {
		return nil, "", "", err
	}
	own, ok, err := i.ownerOf(pod)
	switch {
	case err != nil:
		return nil, "", "", err
	case optsOut && !i.Policy.ForbidOptOut:
		return nil, own.name, OptedOut, nil
	case !ok:
		return nil, "", NotOurs, nil
	case !i.Policy.selects(own.name):
		return nil, own.name, NotSelected, nil
	case isWindows(pod):
		return nil, own.name, Windows, nil
	case isMirror(pod):
		return nil, own.name, MirrorPod, nil
	}
	for index, c := range pod.Spec.Containers {
		if own.wraps(c) && (own.byName || !i.Policy.isProxy(c.Name)) {
			selected = append(selected, index)
		}
	}
	if len(selected) == 0 {
		return nil, own.name, NothingToWrap, nil
	}
	return selected, own.name, "", nil
}

func optsOut(pod *corev1.Pod) (bool, error) {
	value, set := pod.Annotations[InjectAnnotation]
	if set && value != "true" && value != "false" {
		return false, refuse(InvalidAnnotation, "reading annotation %s: %q is neither \"true\" nor \"false\", which are the values for a pod", InjectAnnotation, value)
	}
	return value == "false", nil
}

// asks reports whether the pod, which doesn't opt out, or its namespace asks for
// wrapping.
func (i *Injector) asks(pod *corev1.Pod) bool {
	return pod.Annotations[InjectAnnotation] == "true" || i.AllPods && !i.runsCopiers(pod)
}

// runsCopiers reports whether all containers of the pod are copiers, without a command
// that a volume may have brought.
func (i *Injector) runsCopiers(pod *corev1.Pod) bool {
	return !slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool {
		return !slices.Contains(i.Copiers, c.Image) || len(c.Command) > 0 ||
			c.Lifecycle != nil || c.LivenessProbe != nil || c.ReadinessProbe != nil || c.StartupProbe != nil
	})
}

func (i *Injector) ownerOf(pod *corev1.Pod) (owner, bool, error) {
	asks := i.asks(pod)
	marked, controlled, ok := i.markedBy(pod)
	switch {
	case ok && (controlled || !asks || !i.AllPods && slices.ContainsFunc(pod.Spec.Containers, marked.wraps)):
		return marked, true, nil
	case !asks:
		return owner{}, false, nil
	}
	// The pod asks, and a label, which every tenant can set, doesn't exempt it.
	names, narrowed := pod.Annotations[ContainersAnnotation]
	if !narrowed {
		return owner{name: Annotation, wraps: func(corev1.Container) bool { return true }}, true, nil
	}
	chosen, err := chosenContainers(pod, names)
	if err != nil {
		return owner{}, false, err
	}
	return owner{name: Annotation, byName: true, wraps: func(c corev1.Container) bool { return chosen[c.Name] }}, true, nil
}

// markedBy returns the owner whose label the pod carries, and whether an object of that
// owner controls the pod.
func (i *Injector) markedBy(pod *corev1.Pod) (marked owner, controlled, ok bool) {
	known := i.Kinds
	if known == nil {
		known = kinds
	}
	controller := metav1.GetControllerOf(pod)
	for _, kind := range known {
		if _, labelled := pod.Labels[kind.Label]; !labelled {
			continue
		}
		by := owner{name: kind.Owner, wraps: kind.Wraps}
		if controller != nil && controller.Kind == kind.Controller {
			return by, true, true
		}
		if !ok {
			marked, ok = by, true
		}
	}
	return marked, false, ok
}

func chosenContainers(pod *corev1.Pod, names string) (map[string]bool, error) {
	present, chosen := containerNames(pod), map[string]bool{}
	for name := range strings.SplitSeq(names, ",") {
		name = strings.TrimSpace(name)
		if !present[name] {
			return nil, &Refusal{InvalidAnnotation, annotation.Absent(pod, ContainersAnnotation, name)}
		}
		chosen[name] = true
	}
	return chosen, nil
}

// isWindows reports whether the pod can only run on Windows: by spec.os, by its node
// selector, or by every term of its required node affinity. (A RuntimeClass's node
// selector is merged into the pod's before webhooks are called.) Tolerations and settings
// for Windows don't count: a pod with them can still run on Linux.
func isWindows(pod *corev1.Pod) bool {
	if pod.Spec.OS != nil {
		return pod.Spec.OS.Name == corev1.Windows
	}
	for key, value := range pod.Spec.NodeSelector {
		if requiresWindows(corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value}}) {
			return true
		}
	}
	affinity := pod.Spec.Affinity
	if affinity == nil || affinity.NodeAffinity == nil || affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return false
	}
	terms := affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	linux := func(term corev1.NodeSelectorTerm) bool {
		return !slices.ContainsFunc(term.MatchExpressions, requiresWindows)
	}
	return len(terms) > 0 && !slices.ContainsFunc(terms, linux)
}

// requiresWindows reports whether only Windows nodes fulfil a requirement, by the labels
// that kubelets set.
func requiresWindows(r corev1.NodeSelectorRequirement) bool {
	another := func(value string) bool { return value != string(corev1.Windows) }
	switch r.Key {
	case corev1.LabelOSStable, "beta." + corev1.LabelOSStable:
		return r.Operator == corev1.NodeSelectorOpIn && len(r.Values) > 0 && !slices.ContainsFunc(r.Values, another) ||
			r.Operator == corev1.NodeSelectorOpNotIn && slices.Contains(r.Values, string(corev1.Linux))
	case corev1.LabelWindowsBuild:
		return r.Operator != corev1.NodeSelectorOpNotIn && r.Operator != corev1.NodeSelectorOpDoesNotExist
	default:
		return false
	}
}

func isMirror(pod *corev1.Pod) bool {
	_, ok := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return ok
}
