// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/pkg/pod/internal/between"
)

// relate makes the plan of what the pod's containers have to do with each other.
func (w *wrapping) relate(containers []container) error {
	return w.compile(containers, endSidecars(containers))
}

// compile is relate with a given setting of the option end-sidecars, nil for none.
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

// hasDoubtfulKernel reports whether a pod's containers may have kernels of their own.
func (p Policy) hasDoubtfulKernel(spec *corev1.PodSpec) bool {
	return spec.RuntimeClassName != nil && *spec.RuntimeClassName != "" && !slices.Contains(p.SharedKernelClasses, *spec.RuntimeClassName)
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

// endSidecars returns the pod's setting of the option, which each of its containers has, nil
// without one.
func endSidecars(containers []container) *between.Setting {
	settings := containers[0].settings
	at := slices.IndexFunc(settings, func(s setting) bool { return s.Name == between.EndSidecars })
	if at < 0 {
		return nil
	}
	return &between.Setting{Value: settings[at].value, Source: settings[at].source(), Own: settings[at].isPods()}
}
