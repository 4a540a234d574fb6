// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/pkg/pod/internal/annotation"
)

// check makes the plan of the pod and the flags of its containers, as far as they don't
// depend on images.
func (w *wrapping) check(containers []container) error {
	if err := w.relate(containers); err != nil {
		return err
	}
	recognise(w.pod.Pod, containers)
	for at := range containers {
		c := &containers[at]
		if err := checkMounts(c.Container); err != nil {
			return err
		}
		var err error
		if !c.isWrapped {
			if c.words, c.isKnown, err = unwrappedWords(c.Container); err != nil {
				return err
			}
		}
		if c.toolbox, err = w.toolbox(c.settings); err != nil {
			return err
		}
		if err := w.makeFlags(c); err != nil {
			return err
		}
		if err := c.checkVariables(); err != nil {
			return err
		}
	}
	return nil
}

// maxArg is the kernel's limit for one argument, with its final zero byte (MAX_ARG_STRLEN
// in its binfmts.h).
const maxArg = 128 << 10

// maxAdded bounds, in bytes, the text that options and images add to one pod. The bound is
// larger than any object that an API server stores (1.5 MiB, etcd's --max-request-bytes).
const maxAdded = 3 << 20

// makeFlags makes the flags of a container's supervisor.
func (w *wrapping) makeFlags(c *container) error {
	to := w.optionContext(c)
	w.added -= c.added
	c.flags, c.added = nil, 0
	for _, s := range c.settings {
		if to.step != nil {
			why := to.step.unsuited(s.Name, w.pod.Spec.Containers[c.index+1:])
			if why != "" && s.isPods() {
				return refuse(InvalidAnnotation, "reading %s: it can't be set for container %q: %s", s.source(), c.Name, why)
			}
			if why != "" {
				continue // a default that doesn't suit the container has no effect
			}
		}
		flags, err := s.flagsFor(s.value, to)
		if err != nil {
			return refuse(InvalidAnnotation, "reading %s: %q is wrong; %w", s.source(), s.value, err)
		}
		if err := w.add(c, flags, len(s.value), s.source); err != nil {
			return err
		}
	}
	c.tracesPod = slices.Contains(c.flags, traceOfPod)
	return w.add(c, w.plan.Flags(c.Name, c.signal), 0, func() string { return "what containers wait for" })
}

// traceFlags returns the flags of the containers whose commands get a trace: all containers
// of a pod have the same one.
func (w *wrapping) traceFlags() []string {
	if w.trace == nil {
		var warnings []Warning
		w.trace, warnings = findTrace(w.pod.Pod)
		w.warn(warnings...)
	}
	return w.trace
}

// checkVariables refuses a container whose own variable would have the place of ours: the
// command doesn't get ours. Another webhook may have put other args in the place of the
// supervisor's since an earlier call, so the variable of a prepared container can be ours.
func (c *container) checkVariables() error {
	if !c.tracesPod {
		return nil
	}
	for _, v := range c.Env {
		if v.Name == podUIDVariable && (!isPodUID(v) || !isPrepared(c.Container)) {
			return refuse(NameCollision, "adding variable %s to container %q: the container has a variable of this name; rename it, or set trace.%s/%s to false", podUIDVariable, c.Name, annotation.Domain, c.Name)
		}
	}
	return nil
}

// optionContext returns what the options of a container depend on.
func (w *wrapping) optionContext(c *container) optionContext {
	is := func(what func(setting) bool) bool { return slices.ContainsFunc(c.settings, what) }
	to := optionContext{
		terminationPath: c.TerminationMessagePath,
		exec:            is(setting.isModeExec),
		isSet:           func(option string) bool { return is(func(s setting) bool { return s.Name == option }) },
		mayNotStart:     is(func(s setting) bool { return s.beforeStart }),
		downward:        slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == tektonDownward }),
		tools:           len(c.toolbox.tools) > 0,
		waits:           w.plan.Waits(c.Name),
		trace:           w.traceFlags,
	}
	w.addLogsContext(c, &to)
	if step, certain := parseStep(c.words.argv); certain {
		to.step, to.start = &step, w.startFlags(c, &step)
	}
	return to
}

// add adds flags to a container's. It refuses flags that are too long: a single flag, or all
// flags of the pod together with the values that they are made of.
func (w *wrapping) add(c *container, flags []string, value int, source func() string) error {
	if slices.ContainsFunc(flags, func(flag string) bool { return len(flag) >= maxArg }) {
		return refuse(InvalidAnnotation, "reading %s: the value is too long: the kernel takes arguments of less than 128 KiB", source())
	}
	size := value + sizeOf(flags)
	if w.added += size; w.added > maxAdded {
		return refuse(InvalidAnnotation, "reading %s for container %q: the options of all containers make more than %d bytes, which no API server stores; shorten them",
			source(), c.Name, maxAdded)
	}
	c.flags, c.added = append(c.flags, flags...), c.added+size
	return nil
}

// sizeOf returns roughly the size of words in memory and in a patch, in bytes.
func sizeOf(words []string) (size int) {
	for _, word := range words {
		size += len(word) + 16
	}
	return size
}
