// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Kind is the pods of one owner: by what they are recognised, and which of
// their containers are wrapped.
type Kind struct {
	Owner Owner
	// Label is on each of these pods. Its value doesn't count.
	Label string
	// Controller is the kind of the object that controls them, such as "TaskRun".
	// Anybody can add labels to a pod, so where those of several Kinds are present,
	// the controller decides.
	Controller string
	// Wraps reports whether a container is the user's.
	Wraps func(corev1.Container) bool
}

// Kinds returns those that an [Injector] knows by itself: Tekton's and Knative's.
func Kinds() []Kind { return slices.Clone(kinds) }

var kinds = []Kind{
	// Steps only: Tekton stops a sidecar by patching its image to one in which
	// our binary would keep it alive, and reads its log sidecar by protocol.
	{Tekton, "tekton.dev/taskRun", "TaskRun", isStep},
	{Knative, "serving.knative.dev/revision", "ReplicaSet", func(c corev1.Container) bool { return c.Name != "queue-proxy" }},
}

func isStep(c corev1.Container) bool { return strings.HasPrefix(c.Name, "step-") }

// owner is whose pod it is.
type owner struct {
	name  Owner
	wraps func(corev1.Container) bool
	// byName says that the pod's author named the containers one by one.
	byName bool
}

// classify answers whose pod it is and which containers are wrapped, as
// indexes into spec.containers. An outcome other than "" ends the matter.
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

// asks reports whether the pod, which doesn't opt out, asks to be wrapped, or its
// namespace for it.
func (i *Injector) asks(pod *corev1.Pod) bool {
	return pod.Annotations[InjectAnnotation] == "true" || i.AllPods && !i.runsCopiers(pod)
}

// runsCopiers reports whether the pod runs nothing but copiers, without a command that
// a volume may have brought.
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
	// It asks, and a label that anybody can set is no reason to leave it alone.
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

// markedBy is the owner whose label the pod carries, and whether one of its
// objects controls the pod.
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
			return nil, noContainer(pod, ContainersAnnotation, name)
		}
		chosen[name] = true
	}
	return chosen, nil
}

// isWindows reports whether the pod can only run on Windows: by its own word, its
// node selector, or each of the node affinities that it requires one of. (A
// RuntimeClass's node selector is merged into the pod's before webhooks are asked.)
// That it tolerates Windows, or has settings for it, doesn't count: neither keeps
// it from running on Linux.
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

// requiresWindows reports whether a requirement holds for no node but Windows', by
// the labels that kubelets set.
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
