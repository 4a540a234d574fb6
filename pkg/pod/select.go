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

// classify determines the owner of a pod and the containers to wrap, as indexes into
// spec.containers. An outcome other than "" is the final decision.
func (i *Injector) classify(pod *parsedPod) (selected []int, _ *Kind, _ Outcome, _ error) {
	optsOut, err := optsOut(pod)
	if err != nil {
		return nil, &nobodys, "", err
	}
	kind, err := i.kindOf(pod)
	switch {
	case err != nil:
		return nil, &nobodys, "", err
	case optsOut && !i.Policy.ForbidOptOut:
		return nil, kind, OptedOut, nil
	case kind == &nobodys:
		return nil, kind, NotOurs, nil
	case !i.Policy.selects(kind.Owner):
		return nil, kind, NotSelected, nil
	case isWindows(pod):
		return nil, kind, Windows, nil
	case isMirror(pod):
		return nil, kind, MirrorPod, nil
	}
	for index, c := range pod.Spec.Containers {
		if kind.wraps(c) && (kind.byName || !i.Policy.isProxy(c.Name)) {
			selected = append(selected, index)
		}
	}
	if len(selected) == 0 {
		return nil, kind, NothingToWrap, nil
	}
	return selected, kind, "", nil
}

// wraps reports whether a container is wrapped.
func (k *Kind) wraps(c corev1.Container) bool {
	return !slices.Contains(k.Own, c.Name) && (k.Wraps == nil || k.Wraps(c))
}

func optsOut(pod *parsedPod) (bool, error) {
	value, set := pod.Annotations[InjectAnnotation]
	if set && value != "true" && value != "false" {
		return false, refuse(InvalidAnnotation, "reading annotation %s: %q is neither \"true\" nor \"false\", which are the values for a pod", InjectAnnotation, value)
	}
	return value == "false", nil
}

// asks reports whether the pod, which doesn't opt out, or its namespace asks for
// wrapping.
func (i *Injector) asks(pod *parsedPod) bool {
	return pod.Annotations[InjectAnnotation] == "true" || i.AllPods && !i.runsCopiers(pod)
}

// runsCopiers reports whether all containers of the pod are copiers, without a command
// that a volume may have brought.
func (i *Injector) runsCopiers(pod *parsedPod) bool {
	return !slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool {
		return !slices.Contains(i.Copiers, c.Image) || len(c.Command) > 0 ||
			c.Lifecycle != nil || c.LivenessProbe != nil || c.ReadinessProbe != nil || c.StartupProbe != nil
	})
}

// kindOf returns the kind of a pod, &nobodys if the pod is nobody's and doesn't ask.
func (i *Injector) kindOf(pod *parsedPod) (*Kind, error) {
	asks := i.asks(pod)
	marked, controlled := i.markedBy(pod)
	switch {
	case marked != nil && (controlled || !asks || !i.AllPods && slices.ContainsFunc(pod.Spec.Containers, marked.wraps)):
		return marked, nil
	case !asks:
		return &nobodys, nil
	}
	// The pod asks, and a label, which every tenant can set, doesn't exempt it.
	names, narrowed := pod.Annotations[ContainersAnnotation]
	if !narrowed {
		return &asking, nil
	}
	chosen, err := chosenContainers(pod, names)
	if err != nil {
		return nil, err
	}
	return &Kind{Owner: Asking, byName: true, Wraps: func(c corev1.Container) bool { return chosen[c.Name] }}, nil
}

// markedBy returns the kind whose label the pod carries, nil if there is none, and whether
// an object of its owner controls the pod.
func (i *Injector) markedBy(pod *parsedPod) (marked *Kind, controlled bool) {
	known := i.Kinds
	if known == nil {
		known = kinds
	}
	controller := metav1.GetControllerOf(pod)
	for at := range known {
		kind := &known[at]
		if _, labelled := pod.Labels[kind.Label]; !labelled || kind.Optional && !i.Policy.names(kind.Owner) {
			continue
		}
		if controller != nil && controller.Kind == kind.Controller {
			return kind, true
		}
		if marked == nil {
			marked = kind
		}
	}
	return marked, false
}

func chosenContainers(pod *parsedPod, names string) (map[string]bool, error) {
	chosen := map[string]bool{}
	for name := range strings.SplitSeq(names, ",") {
		name = strings.TrimSpace(name)
		if !pod.containers[name] {
			return nil, &Refusal{InvalidAnnotation, annotation.Absent(pod.Pod, ContainersAnnotation, name)}
		}
		chosen[name] = true
	}
	return chosen, nil
}

// isWindows reports whether the pod can only run on Windows: by spec.os, by its node
// selector, or by every term of its required node affinity. (A RuntimeClass's node
// selector is merged into the pod's before webhooks are called.) Tolerations and settings
// for Windows don't count: a pod with them can still run on Linux.
func isWindows(pod *parsedPod) bool {
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

func isMirror(pod *parsedPod) bool {
	_, ok := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return ok
}

// names reports whether the operator has chosen an owner.
func (p Policy) names(owner Owner) bool { return slices.Contains(p.Owners, owner) }

func (p Policy) selects(owner Owner) bool { return p.Owners == nil || p.names(owner) }

func (p Policy) isProxy(name string) bool {
	if p.Proxies == nil {
		return slices.Contains(defaultProxies, name)
	}
	return slices.Contains(p.Proxies, name)
}
