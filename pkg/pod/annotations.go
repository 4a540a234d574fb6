// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/pkg/pod/internal/annotation"
	"github.com/entrypointer/entrypointer/pkg/pod/internal/text"
	"github.com/entrypointer/entrypointer/pkg/spelling"
)

// tooManyAnnotations warns of an annotation in our domain for which there is no room.
func tooManyAnnotations(key string) Warning {
	return warning(ReasonNoRoomForAnnotation, "annotation %s is left out: with it, the pod's annotations would have more than %d bytes", key, annotation.MaxTotal)
}

// checkAnnotations finds annotations in our domain that have no effect on a pod with this
// outcome, "" if it is to be wrapped.
func checkAnnotations(pod *corev1.Pod, kind *Kind, outcome Outcome) ([]Warning, error) {
	switch outcome {
	case NotOurs:
		return ignoredUnasked(pod), nil
	case NothingToWrap:
		return nothingToWrapWarnings(pod, kind), nil
	case "":
		warnings, err := checkOptions(pod, kind)
		return append(warnings, ignoredByOwner(pod, kind)...), err
	default:
		return nil, nil
	}
}

// checkOptions checks the options of a pod that is to be wrapped. An annotation for a
// container that the pod doesn't have is an error. An unknown key causes only a warning,
// because another release may know it.
func checkOptions(pod *corev1.Pod, kind *Kind) (warnings []Warning, _ error) {
	known := []string{InjectAnnotation, ContainersAnnotation, StatusAnnotation, ExplainAnnotation, ExplanationAnnotation}
	present := annotation.ContainerNames(pod)
	for _, key := range annotation.Ours(pod.Annotations) {
		if slices.Contains(known, key) {
			continue
		}
		option, container, _ := annotation.Split(key)
		o, found := optionNamed(option)
		if err := o.misplaced(key, container); found && err != nil {
			return nil, err
		}
		switch {
		case key == DeliveryAnnotation:
			warnings = append(warnings, warning(ReasonAnnotationHasNoEffect, "annotation %s has no effect on a pod: it is for namespaces", key))
			continue
		case !found:
			warnings = append(warnings, unknownKey(key, len(warnings), false))
			continue
		case container != "" && !present[container]:
			absent, err := checkAbsent(pod, kind, present, key, len(warnings))
			warnings = append(warnings, absent...)
			if err != nil {
				return nil, err
			}
			if len(absent) > 0 {
				continue
			}
		}
		switch why := kind.Unsuited[o.Name]; {
		case why != "":
			return nil, refuse(InvalidAnnotation, "reading annotation %s: %w; remove the annotation", key, errors.New(why))
		case !kind.takes(o):
			warnings = append(warnings, noEffect(key, kind))
		}
	}
	return warnings, nil
}

// checkAbsent judges an annotation for a container of a name that the pod doesn't have. It
// returns nothing if the name is a step's own.
func checkAbsent(pod *corev1.Pod, kind *Kind, present map[string]bool, key string, before int) ([]Warning, error) {
	option, name, _ := annotation.Split(key)
	switch {
	case !kind.Steps:
		return nil, &Refusal{InvalidAnnotation, annotation.Absent(pod, key, name)}
	case !present[stepPrefix+name]:
		return []Warning{noStep(pod, key, name, before)}, nil
	}
	other := annotation.For(option, stepPrefix+name)
	if value, set := pod.Annotations[other]; set && value != pod.Annotations[key] {
		return nil, refuse(InvalidAnnotation, "reading annotations %s and %s: both are for container %q, with different values; remove one of them", key, other, stepPrefix+name)
	}
	return nil, nil
}

// noStep warns of an annotation for a step that the TaskRun doesn't have. A PipelineRun
// passes its annotations to all of its TaskRuns, whose steps differ. The warning suggests
// a name, in the form that the annotation uses, only if the warning will be shown.
func noStep(pod *corev1.Pod, key, name string, before int) Warning {
	lacks, prefix := "neither a container nor a step", stepPrefix
	if strings.HasPrefix(name, stepPrefix) {
		lacks, prefix = "no container", ""
	}
	var known []string
	if before < maxWarnings {
		for _, c := range pod.Spec.Containers[:min(len(pod.Spec.Containers), text.MaxListed)] {
			known = append(known, strings.TrimPrefix(c.Name, prefix))
		}
	}
	return warning(ReasonAnnotationHasNoEffect, "annotation %s has no effect: the pod has %s %q%s", key, lacks, name, spelling.DidYouMean(name, known))
}

// misplaced returns an error if an annotation sets, for a whole pod, an option of single
// containers, or the reverse. The container "" stands for the whole pod.
func (o Option) misplaced(key, container string) error {
	switch {
	case container == "" && o.perContainer:
		return refuse(InvalidAnnotation, "reading annotation %s: the option is for single containers; write %sCONTAINER", key, o.forContainer())
	case container != "" && o.wholePod:
		return refuse(InvalidAnnotation, "reading annotation %s: the option is for whole pods; write %s", key, o.key())
	}
	return nil
}

// ignoredByOwner warns of annotations that select pods or containers, but have no effect
// on pods of this owner.
func ignoredByOwner(pod *corev1.Pod, kind *Kind) (warnings []Warning) {
	if _, set := pod.Annotations[ContainersAnnotation]; set && kind.Owner != Asking {
		warnings = append(warnings, noEffect(ContainersAnnotation, kind))
	}
	if pod.Annotations[InjectAnnotation] == "false" {
		warnings = append(warnings, warning(ReasonOptOutForbidden, "annotation %s: \"false\" has no effect, because the operator forbids opting out", InjectAnnotation))
	}
	return warnings
}

// nothingToWrapWarnings warns if a pod that asks to be wrapped has no container to wrap.
func nothingToWrapWarnings(pod *corev1.Pod, kind *Kind) []Warning {
	if pod.Annotations[InjectAnnotation] != "true" {
		return nil
	}
	return []Warning{warning(ReasonAnnotationHasNoEffect, "annotation %s: \"true\" has no effect: the pod counts as a pod %s, and has none of the containers that are wrapped in such pods", InjectAnnotation, whose(kind))}
}

// ignoredUnasked warns of annotations in our domain on a pod that has no owner and
// doesn't ask to be wrapped.
func ignoredUnasked(pod *corev1.Pod) (warnings []Warning) {
	for _, key := range annotation.Ours(pod.Annotations) {
		option, _, _ := annotation.Split(key)
		_, found := optionNamed(option)
		switch {
		case slices.Contains([]string{InjectAnnotation, StatusAnnotation, ExplainAnnotation, ExplanationAnnotation}, key):
		case !found && key != ContainersAnnotation && key != DeliveryAnnotation:
			warnings = append(warnings, unknownKey(key, len(warnings), false))
		default:
			warnings = append(warnings, warning(ReasonAnnotationHasNoEffect, "annotation %s has no effect on a pod that doesn't ask by %s: \"true\"", key, InjectAnnotation))
		}
	}
	return warnings
}

// labelsWithoutEffect warns of labels in our domain: a pod sets options by annotations
// only.
func labelsWithoutEffect(pod *corev1.Pod) (warnings []Warning) {
	for _, key := range annotation.Ours(pod.Labels) {
		if _, annotated := pod.Annotations[key]; annotated {
			continue
		}
		warnings = append(warnings, warning(ReasonLabelHasNoEffect, "label %s has no effect on a pod: set the annotation %s", key, key))
	}
	return warnings
}

// IgnoredOnNamespace warns of annotations in our domain that have no effect on a
// namespace.
func IgnoredOnNamespace(annotations map[string]string) (warnings []Warning) {
	for _, key := range annotation.Ours(annotations) {
		if key == InjectAnnotation || key == DeliveryAnnotation {
			continue
		}
		option, container, _ := annotation.Split(key)
		switch o, found := optionNamed(option); {
		case key == ContainersAnnotation || key == StatusAnnotation || found && (container != "" || o.perContainer):
			warnings = append(warnings, warning(ReasonAnnotationHasNoEffect, "annotation %s has no effect on a namespace: it is for pods", key))
		case !found:
			warnings = append(warnings, unknownKey(key, len(warnings), true))
		}
	}
	return bounded(warnings)
}

// unknownKey warns of a key. It looks for a suggestion only if the warning will be shown,
// because a request may have a hundred thousand keys.
func unknownKey(key string, before int, onNamespace bool) Warning {
	meant := ""
	if before < maxWarnings {
		meant = meantKey(key, onNamespace)
	}
	return warning(ReasonUnknownAnnotation, "annotation %s is unknown and has no effect%s", key, meant)
}

// meantKey suggests a known key for an unknown one.
func meantKey(key string, onNamespace bool) string {
	mistake, container, _ := annotation.Split(key)
	keys := map[string]string{"inject": InjectAnnotation}
	if onNamespace {
		keys["delivery"] = DeliveryAnnotation
	} else {
		keys["containers"] = ContainersAnnotation
	}
	for _, o := range options {
		switch {
		case onNamespace && !o.perContainer, container == "" && !o.perContainer, o.wholePod:
			keys[o.Name] = o.key()
		case !onNamespace:
			keys[o.Name] = o.forContainer() + cmp.Or(container, "CONTAINER")
		}
	}
	if nearest := spelling.Nearest(mistake, slices.Sorted(maps.Keys(keys))); nearest != "" {
		return fmt.Sprintf("; did you mean %q?", text.Shortened(keys[nearest]))
	}
	return ""
}

func noEffect(key string, kind *Kind) Warning {
	return warning(ReasonAnnotationHasNoEffect, "annotation %s has no effect on a pod %s", key, whose(kind))
}

func whose(kind *Kind) string {
	if kind.Owner == Asking {
		return "that asks by annotation"
	}
	return "of " + string(kind.Owner) + "'s"
}
