// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"context"

	corev1 "k8s.io/api/core/v1"
)

// Inject decides on a pod that is about to be created in namespace, and wraps it. It
// doesn't change the pod itself. An error that is a *Refusal is meant for the pod's
// author.
func (i *Injector) Inject(ctx context.Context, namespace string, pod *corev1.Pod) (Result, error) {
	w, selected, outcome, err := i.decide(namespace, pod)
	if err != nil {
		return Result{}, err
	}
	result := Result{Outcome: outcome, Pod: pod}
	if outcome == "" {
		if result, err = w.wrap(ctx, selected); err != nil {
			return Result{}, err
		}
	}
	return w.finished(result), nil
}

// decide determines whose pod this is, and which of its containers are to be wrapped. An
// outcome other than "" is the final decision.
func (i *Injector) decide(namespace string, pod *corev1.Pod) (_ *wrapping, selected []int, _ Outcome, _ error) {
	parsed := parse(pod)
	selected, kind, outcome, err := i.classify(parsed)
	if err != nil {
		return nil, nil, "", err
	}
	warnings, err := parsed.checkAnnotations(kind, outcome)
	if err != nil {
		return nil, nil, "", err
	}
	return &wrapping{Injector: i, namespace: namespace, pod: parsed, kind: kind, warnings: warnings}, selected, outcome, nil
}

// wrap wraps the selected containers of a copy of the pod. A mistake is found before a
// registry is asked.
func (w *wrapping) wrap(ctx context.Context, selected []int) (Result, error) {
	containers, err := w.read(selected)
	if err != nil {
		return Result{}, err
	}
	if err := w.check(containers); err != nil {
		return Result{}, err
	}
	w.warn(unmetRequirements(containers)...)
	if err := w.lookUpAll(ctx, containers); err != nil {
		return Result{}, err
	}
	return w.write(containers)
}

// Check checks the annotations of a pod that somebody will create later, for instance
// from a pod template, by the code that decides on the pod then. It looks no image up,
// and doesn't change the pod. It doesn't warn of an option that lacks another one, which
// the pod's namespace may set. A *[Refusal] is the error with which Inject will refuse the
// pod.
func (i *Injector) Check(namespace string, pod *corev1.Pod) ([]Warning, error) {
	w, selected, outcome, err := i.decide(namespace, pod)
	if err != nil {
		return nil, err
	}
	if outcome != "" {
		return bounded(w.warnings), nil
	}
	containers, err := w.read(selected)
	if err != nil {
		return nil, err
	}
	if err := w.check(containers); err != nil {
		return nil, err
	}
	for _, c := range containers {
		if !c.isWrapped {
			w.warnOfTools(c.toolbox)
		}
	}
	return bounded(w.warnings), nil
}
