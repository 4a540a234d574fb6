// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/pkg/pod/internal/annotation"
	"github.com/entrypointer/entrypointer/pkg/pod/internal/between"
)

// compile makes the plan of what the pod's containers have to do with each other.
func (w *wrapping) compile(selected []int, endsSidecars bool) error {
	of := between.Pod{
		Object: w.pod, Wrapped: selected, Owner: between.Owner{Name: string(w.kind.Owner), Containers: w.kind.Own, RestartsAll: w.kind.RestartsAll},
		Ordered: !w.kind.Steps, OwnKernels: w.Policy.hasDoubtfulKernel(&w.pod.Spec),
		Supervisor: EntrypointPath, Former: formerFlags,
		IsProxy: w.Policy.isProxy, Replaced: w.replaced, Annotated: w.annotated,
	}
	if endsSidecars {
		of.EndSidecars = w.endSidecars()
	}
	plan, notes, err := between.Compile(of)
	if err != nil {
		return &Refusal{InvalidAnnotation, err}
	}
	w.plan = plan
	for _, note := range notes {
		w.warnings = append(w.warnings, Warning{noteReasons[note.Kind], note.Text})
	}
	return nil
}

// noteReasons are the reasons of the warnings that notes become.
var noteReasons = map[between.Kind]Reason{
	between.NoEffect:           ReasonAnnotationHasNoEffect,
	between.HookBeforeProxy:    ReasonHookBeforeProxy,
	between.CountsAsSidecar:    ReasonContainerCountsAsSidecar,
	between.DirectoryNotShared: ReasonDirectoryNotShared,
}

// annotated returns the annotation that sets an option for a container, and its value.
func (w *wrapping) annotated(option, container string) (key, value string, set bool) {
	named, value, set := annotationFor(w.pod, w.kind, annotation.For(option, ""), container)
	if !set {
		return "", "", false
	}
	return annotation.For(option, named), value, true
}

// replaced returns the source of the setting by which the command replaces the supervisor
// of a container, "" without one.
func (w *wrapping) replaced(container string) (source string, _ error) {
	settings, err := w.settings(container)
	if err != nil {
		return "", err
	}
	if at := slices.IndexFunc(settings, setting.isModeExec); at >= 0 {
		source = settings[at].source
	}
	return source, nil
}

// endSidecars returns the setting of the option for the pod, nil without one.
func (w *wrapping) endSidecars() *between.Setting {
	s, set := w.settingOf(slices.IndexFunc(options, func(o Option) bool { return o.Name == between.EndSidecars }), "")
	if !set || !w.kind.takes(s.Option) {
		return nil
	}
	return &between.Setting{Value: s.value, Source: s.source, Own: s.isPods()}
}

// keepSidecars cancels the end of sidecars if one of the containers for whose ends they
// are needed runs unwrapped, because an unwrapped container doesn't report its end.
func (w *wrapping) keepSidecars(ctx context.Context, pod *corev1.Pod, selected, wrapped []int, unwrapped []string) (err error) {
	if !slices.ContainsFunc(unwrapped, w.plan.EndsSidecars) {
		return nil
	}
	w.warnings = append(w.warnings, warning(ReasonAnnotationHasNoEffect, "annotation %s/%s of the namespace has no effect: a container that runs unwrapped doesn't report the end of its work", annotation.Domain, between.EndSidecars))
	said := w.warnings
	if err = w.compile(selected, false); err != nil {
		return err
	}
	w.warnings = said
	for _, index := range wrapped { // make the flags anew
		if _, err = w.wrap(ctx, &pod.Spec.Containers[index]); err != nil {
			return err
		}
	}
	return nil
}
