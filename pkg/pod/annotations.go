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

	"github.com/entrypointer/entrypointer/pkg/pod/internal/annotation"
	"github.com/entrypointer/entrypointer/pkg/pod/internal/text"
	"github.com/entrypointer/entrypointer/pkg/spelling"
)

// checkAnnotations finds annotations in our domain that have no effect on a pod with this
// outcome, "" if it is to be wrapped.
func (p *parsedPod) checkAnnotations(kind *Kind, outcome Outcome) ([]Warning, error) {
	switch outcome {
	case NotOurs:
		return p.ignoredUnasked(), nil
	case NothingToWrap:
		return p.nothingToWrapWarnings(kind), nil
	case "":
		warnings, err := p.checkOptions(kind)
		return append(warnings, p.ignoredByOwner(kind)...), err
	default:
		return nil, nil
	}
}

// checkOptions checks the options of a pod that is to be wrapped. An annotation for a
// container that the pod doesn't have is an error. An unknown key causes only a warning,
// because another release may know it.
func (p *parsedPod) checkOptions(kind *Kind) (warnings []Warning, _ error) {
	known := []string{InjectAnnotation, ContainersAnnotation, StatusAnnotation, MayWaitAnnotation, ExplainAnnotation, ExplanationAnnotation}
	for _, key := range p.annotations {
		switch {
		case slices.Contains(known, key.text):
			continue
		case key.text == DeliveryAnnotation:
			warnings = append(warnings, warning(ReasonAnnotationHasNoEffect, "annotation %s has no effect on a pod: it is for namespaces", key.text))
			continue
		case key.option == nil:
			warnings = append(warnings, unknownKey(key, len(warnings), false))
			continue
		}
		if err := key.misplaced(); err != nil {
			return nil, err
		}
		if key.container != "" && !p.containers[key.container] {
			absent, err := p.checkAbsent(kind, key, len(warnings))
			if err != nil {
				return nil, err
			}
			if len(absent) > 0 {
				warnings = append(warnings, absent...)
				continue
			}
		}
		switch why := kind.Unsuited[key.name]; {
		case why != "":
			return nil, refuse(InvalidAnnotation, "reading annotation %s: %w; remove the annotation", key.text, errors.New(why))
		case !kind.takes(key.option):
			warnings = append(warnings, noEffect(key.text, kind))
		}
	}
	return warnings, nil
}

// checkAbsent judges an annotation for a container of a name that the pod doesn't have. It
// returns nothing if the name is a step's own.
func (p *parsedPod) checkAbsent(kind *Kind, key parsedKey, before int) ([]Warning, error) {
	switch {
	case !kind.Steps:
		return nil, &Refusal{InvalidAnnotation, annotation.Absent(p.Pod, key.text, key.container)}
	case !p.containers[stepPrefix+key.container]:
		return []Warning{p.noStep(key, before)}, nil
	}
	other := annotation.For(key.name, stepPrefix+key.container)
	if value, set := p.Annotations[other]; set && value != key.value {
		return nil, refuse(InvalidAnnotation, "reading annotations %s and %s: both are for container %q, with different values; remove one of them", key.text, other, stepPrefix+key.container)
	}
	return nil, nil
}

// noStep warns of an annotation for a step that the TaskRun doesn't have. A PipelineRun
// passes its annotations to all of its TaskRuns, whose steps differ. The warning suggests
// a name, in the form that the annotation uses, only if the warning will be shown.
func (p *parsedPod) noStep(key parsedKey, before int) Warning {
	lacks, prefix := "neither a container nor a step", stepPrefix
	if strings.HasPrefix(key.container, stepPrefix) {
		lacks, prefix = "no container", ""
	}
	var known []string
	if before < maxWarnings {
		for _, c := range p.Spec.Containers[:min(len(p.Spec.Containers), text.MaxListed)] {
			known = append(known, strings.TrimPrefix(c.Name, prefix))
		}
	}
	return warning(ReasonAnnotationHasNoEffect, "annotation %s has no effect: the pod has %s %q%s", key.text, lacks, key.container, spelling.DidYouMean(key.container, known))
}

// misplaced returns an error if an annotation sets, for a whole pod, an option of single
// containers, or the reverse.
func (k parsedKey) misplaced() error {
	switch {
	case k.container == "" && k.option.perContainer:
		return refuse(InvalidAnnotation, "reading annotation %s: the option is for single containers; write %sCONTAINER", k.text, k.option.forContainer())
	case k.container != "" && k.option.wholePod:
		return refuse(InvalidAnnotation, "reading annotation %s: the option is for whole pods; write %s", k.text, k.option.key())
	}
	return nil
}

// ignoredByOwner warns of annotations that select pods or containers, but have no effect
// on pods of this owner.
func (p *parsedPod) ignoredByOwner(kind *Kind) (warnings []Warning) {
	if _, set := p.Annotations[ContainersAnnotation]; set && kind.Owner != Asking {
		warnings = append(warnings, noEffect(ContainersAnnotation, kind))
	}
	if p.Annotations[InjectAnnotation] == "false" {
		warnings = append(warnings, warning(ReasonOptOutForbidden, "annotation %s: \"false\" has no effect, because the operator forbids opting out", InjectAnnotation))
	}
	return warnings
}

// nothingToWrapWarnings warns if a pod that asks to be wrapped has no container to wrap.
func (p *parsedPod) nothingToWrapWarnings(kind *Kind) []Warning {
	if p.Annotations[InjectAnnotation] != "true" {
		return nil
	}
	return []Warning{warning(ReasonAnnotationHasNoEffect, "annotation %s: \"true\" has no effect: the pod counts as a pod %s, and has none of the containers that are wrapped in such pods", InjectAnnotation, whose(kind))}
}

// ignoredUnasked warns of annotations in our domain on a pod that has no owner and
// doesn't ask to be wrapped.
func (p *parsedPod) ignoredUnasked() (warnings []Warning) {
	for _, key := range p.annotations {
		switch {
		case slices.Contains([]string{InjectAnnotation, StatusAnnotation, MayWaitAnnotation, ExplainAnnotation, ExplanationAnnotation}, key.text):
		case key.option == nil && key.text != ContainersAnnotation && key.text != DeliveryAnnotation:
			warnings = append(warnings, unknownKey(key, len(warnings), false))
		default:
			warnings = append(warnings, warning(ReasonAnnotationHasNoEffect, "annotation %s has no effect on a pod that doesn't ask by %s: \"true\"", key.text, InjectAnnotation))
		}
	}
	return warnings
}

// IgnoredOnNamespace warns of annotations in our domain that have no effect on a
// namespace.
func IgnoredOnNamespace(annotations map[string]string) (warnings []Warning) {
	for _, key := range parseKeys(annotations) {
		switch {
		case key.text == InjectAnnotation || key.text == DeliveryAnnotation:
		case key.text == ContainersAnnotation || key.text == StatusAnnotation || key.text == MayWaitAnnotation || key.option != nil && (key.container != "" || key.option.perContainer):
			warnings = append(warnings, warning(ReasonAnnotationHasNoEffect, "annotation %s has no effect on a namespace: it is for pods", key.text))
		case key.option == nil:
			warnings = append(warnings, unknownKey(key, len(warnings), true))
		}
	}
	return bounded(warnings)
}

// unknownKey warns of a key. It looks for a suggestion only if the warning will be shown,
// because a request may have a hundred thousand keys.
func unknownKey(key parsedKey, before int, onNamespace bool) Warning {
	meant := ""
	if before < maxWarnings {
		meant = meantKey(key, onNamespace)
	}
	return warning(ReasonUnknownAnnotation, "annotation %s is unknown and has no effect%s", key.text, meant)
}

// meantKey suggests a known key for an unknown one.
func meantKey(key parsedKey, onNamespace bool) string {
	keys := map[string]string{"inject": InjectAnnotation}
	if onNamespace {
		keys["delivery"] = DeliveryAnnotation
	} else {
		keys["containers"] = ContainersAnnotation
	}
	for _, o := range options {
		switch {
		case onNamespace && !o.perContainer, key.container == "" && !o.perContainer, o.wholePod:
			keys[o.Name] = o.key()
		case !onNamespace:
			keys[o.Name] = o.forContainer() + cmp.Or(key.container, "CONTAINER")
		}
	}
	if nearest := spelling.Nearest(key.name, slices.Sorted(maps.Keys(keys))); nearest != "" {
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
