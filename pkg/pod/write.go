// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// write puts the supervisor in front of the containers in a copy of the pod, and brings it
// into the pod. Containers whose lookups failed stay as they are.
func (w *wrapping) write(containers []container) (Result, error) {
	w.delivery = w.Policy.deliveryFor(w.pod.Pod, w.ClaimName)
	result := Result{Pod: w.pod.DeepCopy(), Order: w.plan.String(), Delivery: w.delivery}
	former := formerStatusOf(w.pod.Pod)
	var wrapped []container
	for _, c := range containers {
		if c.waived != nil {
			w.warn(warning(ReasonLookupFailed, "container %q runs without its supervisor: %v", c.Name, c.waived))
			result.Unwrapped = append(result.Unwrapped, c.Name)
			continue
		}
		if c.unsent != "" && w.Policy.RefuseUnsentLogs {
			return Result{}, refuse(LogsNotSent, "sending the output of container %q to the log service: %s; the operator refuses pods whose output isn't sent; to run the pod without the log service, set annotation entrypointer.dev/logs: off", c.Name, c.unsent)
		}
		wrapped = append(wrapped, c)
		w.writeContainer(&result.Pod.Spec.Containers[c.index], c)
		if c.isWrapped {
			continue
		}
		result.Wrapped = append(result.Wrapped, c.Name)
		w.warn(former.warnIfUnwrapped(c.Name)...)
		if c.unsent != "" {
			w.warn(warning(ReasonLogsNotSent, "the output of container %q isn't sent to the log service: %s", c.Name, c.unsent))
		}
		w.warnOfTools(c.toolbox)
	}
	if len(wrapped) == 0 {
		result.Outcome, result.Delivery = LookupWaived, ""
		return result, nil
	}
	if err := w.install(result.Pod, wrapped); err != nil {
		return Result{}, err
	}
	result.Additions = w.additions
	switch {
	case len(result.Unwrapped) > 0:
		result.Outcome = PartlyInjected
	case len(Patch(w.pod.Pod, result.Pod)) == 0:
		result.Outcome = AlreadyInjected
	default:
		result.Outcome = Injected
	}
	return result, nil
}

// writeContainer puts the supervisor in front of what a container runs.
func (w *wrapping) writeContainer(to *corev1.Container, c container) {
	to.Args = slices.Concat(c.flags, c.words.flags, []string{"--"}, c.words.argv)
	if c.isWrapped {
		return
	}
	to.Command = []string{EntrypointPath}
	to.Image = cmp.Or(c.image, c.Image)
	if !slices.ContainsFunc(c.VolumeMounts, isMount) {
		to.VolumeMounts = append(to.VolumeMounts, w.mount(w.pod.Pod))
	}
}
