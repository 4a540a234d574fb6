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
	result := Result{Pod: w.pod.DeepCopy(), Order: w.plan.String()}
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
		c.write(&result.Pod.Spec.Containers[c.index])
		if c.isWrapped {
			continue
		}
		result.Wrapped = append(result.Wrapped, c.Name)
		if c.wasUnwrapped { // an API server asks again, and the registry has answered in the meantime
			w.warn(warning(ReasonLookupRecovered, "container %q runs under its supervisor after all: the second lookup of its image succeeded", c.Name))
		}
		if c.unsent != "" {
			w.warn(warning(ReasonLogsNotSent, "the output of container %q isn't sent to the log service: %s", c.Name, c.unsent))
		}
		w.warnOfTools(c.toolbox)
	}
	if len(wrapped) == 0 {
		result.Outcome = LookupWaived
		return result, nil
	}
	if err := w.install(result.Pod, wrapped); err != nil {
		return Result{}, err
	}
	result.Delivery, result.Additions = w.supply.Delivery, w.additions
	switch {
	case len(result.Unwrapped) > 0:
		result.Outcome = PartlyInjected
	case len(result.Wrapped) == 0 && len(Patch(w.pod.Pod, result.Pod)) == 0:
		result.Outcome = AlreadyInjected
	default:
		result.Outcome = Injected
	}
	return result, nil
}

// write puts the supervisor in front of what a container runs.
func (c *container) write(to *corev1.Container) {
	to.Command, to.Args, to.Image = []string{EntrypointPath}, slices.Concat(c.flags, c.words.all()), cmp.Or(c.image, c.Image)
	c.putPodUID(to)
}

// putPodUID gives a container the variable if its trace begins with the pod, and takes it
// away where an earlier call has given it.
func (c *container) putPodUID(to *corev1.Container) {
	has := slices.ContainsFunc(to.Env, isPodUID)
	switch {
	case c.tracesPod && !has:
		to.Env = append(to.Env, podUID())
	case !c.tracesPod && has && c.hasOurPodUID():
		to.Env = slices.DeleteFunc(to.Env, isPodUID)
	}
}

// warnOfTools warns, once, of the tools that newly wrapped containers lack.
func (w *wrapping) warnOfTools(box *toolbox) {
	if !box.warned {
		box.warned = true
		w.warn(box.warnings...)
	}
}

// install brings the supervisor into the pod: as a volume that an init container fills,
// or as an image or a claim that already holds the supervisor. It converts the volume of
// another release, or of another delivery.
func (w *wrapping) install(pod *corev1.Pod, wrapped []container) error {
	selected := make([]int, len(wrapped))
	for at, c := range wrapped {
		selected[at] = c.index
	}
	w.supply = w.supplyFor(pod, w.Logs != nil && anySends(pod))
	binary := programVolume{Volume: w.supply.volume, mount: w.supply.mount, isOurs: isOurs, isMount: isMount}
	if err := binary.putInto(pod, selected, nil); err != nil {
		return err
	}
	if err := w.installLogs(pod); err != nil {
		return err
	}
	if err := w.installFamilies(pod, selected); err != nil {
		return err
	}
	if err := checkWriters(pod); err != nil {
		return err
	}
	if err := w.installCopier(pod, selected); err != nil {
		return err
	}
	return w.installTools(pod, wrapped, selected)
}

// checkWriters refuses a container that could replace the supervisor by another program,
// or that has the name of the init container that may write.
func checkWriters(pod *corev1.Pod) error {
	for _, c := range pod.Spec.Containers {
		if c.Name == InitContainerName {
			return refuse(NameCollision, "adding init container %q: the pod has a container of this name, image %q; rename it", c.Name, c.Image)
		}
	}
	for _, c := range allContainers(pod) {
		for _, m := range c.VolumeMounts {
			if m.Name == VolumeName && !isMount(m) && c.Name != InitContainerName {
				return refuse(NameCollision, "adding volume %q: container %q mounts it at %q, and only %q may write to it; use another volume",
					VolumeName, c.Name, m.MountPath, InitContainerName)
			}
		}
	}
	return nil
}
