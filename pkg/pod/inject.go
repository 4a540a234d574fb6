// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/pkg/lookup"
	"github.com/entrypointer/entrypointer/pkg/pod/internal/between"
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
	w.warn(w.pod.labelsWithoutEffect()...)
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
	if err := w.keepSidecars(containers); err != nil {
		return Result{}, err
	}
	return w.write(containers)
}

// A wrapping is the state of the work on one pod.
type wrapping struct {
	*Injector
	namespace string
	pod       *parsedPod // as it was sent
	kind      *Kind
	plan      *between.Plan
	delivery  Delivery
	added     int // bytes, see maxAdded
	// signalsTook is the time that lookups of stop signals have taken so far.
	signalsTook time.Duration
	additions   []string // see Result
	warnings    []Warning
	toolboxes   map[string]*toolbox // by the sources of the settings
	stepDirs    *[]string           // see startFlags; nil before the first look
}

// warn adds warnings.
func (w *wrapping) warn(warnings ...Warning) { w.warnings = slices.Concat(w.warnings, warnings) }

// A container is one that is to be wrapped, with what each stage has learnt of it.
type container struct {
	*corev1.Container     // as it was sent
	index             int // in spec.containers
	settings          []setting
	toolbox           *toolbox
	unsent            string // why the output can't be sent that is to be sent, "" if it can
	// words are what the container runs, and isWrapped reports whether it has come with
	// them behind a supervisor.
	words     words
	isWrapped bool
	flags     []string // of its supervisor
	added     int      // bytes of the flags and their values, see maxAdded
	// What a registry has said: the image, pinned, and the stop signal, both "" if they
	// are the usual ones, and the failed lookup for which the container runs unwrapped.
	image, signal string
	waived        *lookup.Error
}
