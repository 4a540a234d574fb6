// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/pkg/pod/internal/annotation"
	"github.com/entrypointer/entrypointer/pkg/pod/internal/text"
	"github.com/entrypointer/entrypointer/pkg/spelling"
)

// maxAnnotations is the limit that an API server sets for the annotations of an object,
// in bytes of keys and values (TotalAnnotationSizeLimitB in
// https://github.com/kubernetes/apimachinery/blob/v0.36.3/pkg/api/validation/objectmeta.go).
const maxAnnotations = 256 << 10

// annotate sets an annotation of the pod, if there is room. Otherwise it removes the
// present annotation of that key, whose value is outdated.
func annotate(pod *corev1.Pod, key, value string) bool {
	delete(pod.Annotations, key)
	size := len(key) + len(value)
	for other, its := range pod.Annotations {
		size += len(other) + len(its)
	}
	if size > maxAnnotations {
		return false
	}
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[key] = value
	return true
}

// tooManyAnnotations warns of an annotation in our domain for which there is no room.
func tooManyAnnotations(key string) Warning {
	return warning(ReasonNoRoomForAnnotation, "annotation %s is left out: with it, the pod's annotations would have more than %d bytes", key, maxAnnotations)
}

// checkAnnotations finds annotations in our domain that have no effect. An annotation for
// a container that the pod doesn't have is an error. An unknown key causes only a
// warning, because another release may know it.
func checkAnnotations(pod *corev1.Pod, kind *Kind) (warnings []Warning, _ error) {
	known := []string{InjectAnnotation, ContainersAnnotation, StatusAnnotation}
	present := containerNames(pod)
	for _, key := range ourKeys(pod.Annotations) {
		if slices.Contains(known, key) {
			continue
		}
		option, container, _ := annotation.Parse(key)
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
	for _, key := range ourKeys(pod.Annotations) {
		option, _, _ := annotation.Parse(key)
		_, found := optionNamed(option)
		switch {
		case slices.Contains([]string{InjectAnnotation, StatusAnnotation}, key):
		case !found && key != ContainersAnnotation && key != DeliveryAnnotation:
			warnings = append(warnings, unknownKey(key, len(warnings), false))
		default:
			warnings = append(warnings, warning(ReasonAnnotationHasNoEffect, "annotation %s has no effect on a pod that doesn't ask by %s: \"true\"", key, InjectAnnotation))
		}
	}
	return warnings
}

// Mentions reports whether there are annotations in our domain.
func Mentions(annotations map[string]string) bool {
	for key := range annotations {
		if _, _, ours := annotation.Parse(key); ours {
			return true
		}
	}
	return false
}

// mentionsUs reports whether the pod has annotations or labels in our domain.
func mentionsUs(pod *corev1.Pod) bool {
	return Mentions(pod.Annotations) || Mentions(pod.Labels)
}

// labelsWithoutEffect warns of labels in our domain: a pod sets options by annotations
// only.
func labelsWithoutEffect(pod *corev1.Pod) (warnings []Warning) {
	for _, key := range ourKeys(pod.Labels) {
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
	for _, key := range ourKeys(annotations) {
		if key == InjectAnnotation || key == DeliveryAnnotation {
			continue
		}
		option, container, _ := annotation.Parse(key)
		switch o, found := optionNamed(option); {
		case key == ContainersAnnotation || key == StatusAnnotation || found && (container != "" || o.perContainer):
			warnings = append(warnings, warning(ReasonAnnotationHasNoEffect, "annotation %s has no effect on a namespace: it is for pods", key))
		case !found:
			warnings = append(warnings, unknownKey(key, len(warnings), true))
		}
	}
	return bounded(warnings)
}

// ourKeys returns the keys of annotations in our domain, sorted.
func ourKeys(annotations map[string]string) (keys []string) {
	for key := range annotations {
		if _, _, ours := annotation.Parse(key); ours {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
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
	mistake, container, _ := annotation.Parse(key)
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

// containerNames returns the names of the pod's containers.
func containerNames(pod *corev1.Pod) map[string]bool {
	names := make(map[string]bool, len(pod.Spec.Containers))
	for _, c := range pod.Spec.Containers {
		names[c.Name] = true
	}
	return names
}
