// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"slices"

	"github.com/entrypointer/entrypointer/pkg/pod/internal/annotation"
	"github.com/entrypointer/entrypointer/pkg/pod/internal/between"
)

// compile makes the plan of what the pod's containers have to do with each other.
func (w *wrapping) compile(containers []container, endSidecars *between.Setting) error {
	of := between.Pod{
		Object: w.pod.Pod, Owner: between.Owner{Name: string(w.kind.Owner), Containers: w.kind.Own, RestartsAll: w.kind.RestartsAll},
		Ordered: !w.kind.Steps, OwnKernels: w.Policy.hasDoubtfulKernel(&w.pod.Spec),
		Supervisor: EntrypointPath, Former: Flags, EndSidecars: endSidecars,
		IsProxy: w.Policy.isProxy, Annotated: w.annotated,
		Replaced: func(container string) string { return replaced(containers, container) },
	}
	for _, c := range containers {
		of.Wrapped = append(of.Wrapped, c.index)
	}
	plan, notes, err := between.Compile(of)
	if err != nil {
		return &Refusal{InvalidAnnotation, err}
	}
	w.plan = plan
	for _, note := range notes {
		w.warn(Warning{noteReasons[note.Kind], note.Text})
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
	for _, own := range w.pod.forContainer(container, w.kind) {
		if own.name == option {
			return own.text, own.value, true
		}
	}
	return "", "", false
}

// replaced returns the source of the setting by which the command replaces the supervisor
// of a container, "" without one.
func replaced(containers []container, name string) string {
	for _, c := range containers {
		if c.Name != name {
			continue
		}
		if at := slices.IndexFunc(c.settings, setting.isModeExec); at >= 0 {
			return c.settings[at].source()
		}
		break
	}
	return ""
}

// endSidecars returns the setting of the option for the pod, nil without one.
func (w *wrapping) endSidecars() *between.Setting {
	s, set := w.settingOf(optionNamed(between.EndSidecars), nil)
	if !set || !w.kind.takes(s.Option) {
		return nil
	}
	return &between.Setting{Value: s.value, Source: s.source(), Own: s.isPods()}
}

// keepSidecars cancels the end of sidecars if one of the containers for whose ends they
// are needed runs unwrapped, because an unwrapped container doesn't report its end.
func (w *wrapping) keepSidecars(containers []container) error {
	if !slices.ContainsFunc(containers, func(c container) bool { return c.waived != nil && w.plan.EndsSidecars(c.Name) }) {
		return nil
	}
	w.warn(warning(ReasonAnnotationHasNoEffect, "annotation %s/%s of the namespace has no effect: a container that runs unwrapped doesn't report the end of its work", annotation.Domain, between.EndSidecars))
	said := w.warnings
	if err := w.compile(containers, nil); err != nil {
		return err
	}
	w.warnings = said
	for at := range containers {
		if err := w.makeFlags(&containers[at]); err != nil {
			return err
		}
	}
	return nil
}
