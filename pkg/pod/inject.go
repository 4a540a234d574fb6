// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/pkg/lookup"
)

// Inject decides on a pod that is about to be created in namespace, and wraps it. It
// doesn't change the pod itself. An error that is a *Refusal is meant for the pod's
// author.
func (i *Injector) Inject(ctx context.Context, namespace string, pod *corev1.Pod) (Result, error) {
	selected, kind, outcome, err := i.classify(pod)
	if err != nil {
		return Result{}, err
	}
	warnings, err := checkAnnotations(pod, kind, outcome)
	if err != nil {
		return Result{}, err
	}
	result := Result{Outcome: outcome, Pod: pod}
	if outcome == "" {
		w := i.newWrapping(namespace, pod, kind)
		if result, err = w.wrapSelected(ctx, selected); err != nil {
			return Result{}, err
		}
		warnings = append(warnings, w.warnings...)
	}
	result.Owner, result.Warnings = kind.Owner, slices.Concat(warnings, labelsWithoutEffect(pod))
	result = result.withStatus(i.Version)
	result.Warnings = bounded(result.Warnings)
	return result, nil
}

// wrapSelected wraps the selected containers of a copy of the pod.
func (w *wrapping) wrapSelected(ctx context.Context, selected []int) (Result, error) {
	if err := w.compile(selected, true); err != nil {
		return Result{}, err
	}
	result := Result{Pod: w.pod.DeepCopy(), Order: w.plan.String()}
	var wrapped []int
	for _, index := range selected {
		c := &result.Pod.Spec.Containers[index]
		now, err := w.wrap(ctx, c)
		if failed := w.waived(c.Name, err); failed != nil {
			w.warnings = append(w.warnings, warning(ReasonLookupFailed, "container %q runs without its supervisor: %v", c.Name, failed))
			result.Unwrapped = append(result.Unwrapped, c.Name)
			continue
		}
		if err != nil {
			return Result{}, err
		}
		wrapped = append(wrapped, index)
		unsent, err := w.unsent(*c)
		if err != nil {
			return Result{}, err
		}
		if now {
			result.Wrapped = append(result.Wrapped, c.Name)
			w.warnings = slices.Concat(w.warnings, afterAll(w.pod, c.Name), unsent)
			w.warnOfTools(c.Name)
		}
	}
	w.warnOfUnmetRequirements()
	if len(wrapped) == 0 {
		result.Outcome = LookupWaived
		return result, nil
	}
	if err := w.keepSidecars(ctx, result.Pod, selected, wrapped, result.Unwrapped); err != nil {
		return Result{}, err
	}
	if err := w.install(result.Pod, wrapped); err != nil {
		return Result{}, err
	}
	result.Delivery, result.Additions = w.delivery, w.additions
	switch {
	case len(result.Unwrapped) > 0:
		result.Outcome = PartlyInjected
	case len(Patch(w.pod, result.Pod)) == 0:
		result.Outcome = AlreadyInjected
	default:
		result.Outcome = Injected
	}
	return result, nil
}

// waived returns the failed lookup for which the container runs unwrapped. It returns nil
// for containers that can't run unwrapped, because others need them.
func (w *wrapping) waived(container string, err error) *lookup.Error {
	failed, ok := errors.AsType[*lookup.Error](err)
	if !ok || !w.Policy.WaiveFailedLookups || w.plan.Needs(container) {
		return nil
	}
	return failed
}
