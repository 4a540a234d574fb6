// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	corev1 "k8s.io/api/core/v1"
)

// Check checks the annotations of a pod that somebody will create later, for instance
// from a pod template, by the code that decides on the pod then. It looks no image up,
// and doesn't change the pod. It doesn't warn of an option that lacks another one, which
// the pod's namespace may set. A *[Refusal] is the error with which Inject will refuse the
// pod.
func (i *Injector) Check(namespace string, pod *corev1.Pod) ([]Warning, error) {
	selected, kind, outcome, err := i.classify(pod)
	if err != nil {
		return nil, err
	}
	warnings, err := checkAnnotations(pod, kind, outcome)
	if err != nil {
		return nil, err
	}
	if outcome == "" {
		w := i.newWrapping(namespace, pod, kind)
		if err := w.checkSelected(selected); err != nil {
			return nil, err
		}
		warnings = append(warnings, w.warnings...)
	}
	return bounded(warnings), nil
}

// checkSelected checks what wrapSelected will read of the selected containers, except
// their images.
func (w *wrapping) checkSelected(selected []int) error {
	if err := w.compile(selected, true); err != nil {
		return err
	}
	for _, index := range selected {
		c := w.pod.Spec.Containers[index]
		if err := checkMounts(c); err != nil {
			return err
		}
		if _, err := w.optionFlags(c, nil); err != nil {
			return err
		}
		if _, already := wrappedArgvArgs(c); !already {
			w.warnOfTools(c.Name)
		}
	}
	return nil
}
