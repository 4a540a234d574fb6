// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/pkg/pod/internal/annotation"
	"github.com/entrypointer/entrypointer/pkg/spelling"
)

// Defaults are options for pods that don't set them.
type Defaults struct {
	// Source names the source of the defaults. In errors, it follows the name of an option:
	// `of namespace "team-a"`.
	Source string
	// Values are the options' values, by the options' names.
	Values map[string]string
}

// NamespaceDefaults returns the options among a namespace's annotations.
func NamespaceDefaults(namespace string, annotations map[string]string) Defaults {
	d := Defaults{Source: fmt.Sprintf("of namespace %q", namespace), Values: map[string]string{}}
	for _, o := range options {
		if value, set := annotations[o.key()]; set && !o.perContainer {
			d.Values[o.Name] = value
		}
	}
	return d
}

// Check returns an error if an option is unknown, or its value is invalid.
func (d Defaults) Check() error {
	for _, name := range slices.Sorted(maps.Keys(d.Values)) {
		o, known := optionNamed(name)
		if !known {
			names := make([]string, len(options))
			for i, o := range options {
				names[i] = o.Name
			}
			if meant := spelling.DidYouMean(name, names); meant != "" {
				return fmt.Errorf("option %q is unknown%s", name, meant)
			}
			return fmt.Errorf("option %q is unknown; the options are %s", name, strings.Join(names, ", "))
		}
		if o.perContainer {
			return fmt.Errorf("option %s: the option is for single containers; set annotation %sCONTAINER on pods", o.key(), o.forContainer())
		}
		if _, err := o.flags(d.Values[name], optionContext{}); err != nil {
			return fmt.Errorf("option %s: %q is wrong; %w", o.key(), d.Values[name], err)
		}
		if d.Values["mode"] == modeExec && o.needsParent(d.Values[name]) {
			return fmt.Errorf("option %s: it contradicts option %s/mode: %s, which replaces the supervisor by the command; remove one of them", o.key(), annotation.Domain, modeExec)
		}
	}
	return nil
}

// A setting is an option's value, and its source.
type setting struct {
	Option
	value    string
	source   string // for errors
	distance int    // ofContainer, ofPod, or ofDefaults and the index of the Defaults
}

// The distances of a setting's source. Of two contradictory settings, the nearer takes
// precedence.
const (
	ofContainer = iota // an annotation of the pod for one container
	ofPod              // an annotation of the pod for all of its containers
	ofDefaults
)

// isPods reports whether the pod's own annotation is the source.
func (s setting) isPods() bool { return s.distance <= ofPod }

// isModeExec reports whether the command will replace the supervisor.
func (s setting) isModeExec() bool { return s.Name == "mode" && s.value == modeExec }

// asksForLogs reports whether the output is to be sent.
func (s setting) asksForLogs() bool { return s.Name == "logs" && s.value != "off" }

// leavesStatus reports whether the status becomes the termination message.
func (s setting) leavesStatus() bool { return s.Name == "termination-message" && s.value == "true" }

// settingOf returns the setting of the option at this index for a container, from the
// nearest source.
func (w *wrapping) settingOf(index int, container string) (setting, bool) {
	o, key := options[index], keys[index]
	if name, value, set := annotationFor(w.pod, w.kind, key.container, container); set {
		return setting{o, value, "annotation " + key.container + name, ofContainer}, true
	}
	if o.perContainer {
		return setting{}, false
	}
	if value, set := w.pod.Annotations[key.pod]; set {
		return setting{o, value, "annotation " + key.pod, ofPod}, true
	}
	for at, d := range w.Defaults {
		if value, set := d.Values[o.Name]; set {
			return setting{o, value, "annotation " + key.pod + " " + d.Source, ofDefaults + at}, true
		}
	}
	return setting{o, o.byDefault, "", ofDefaults + len(w.Defaults)}, o.byDefault != ""
}

// settings returns all settings of a container. They aren't kept: a request has room for
// ten thousand containers.
func (w *wrapping) settings(container string) ([]setting, error) {
	var list []setting
	for index := range options {
		s, set := w.settingOf(index, container)
		if !set || !w.kind.takes(s.Option) {
			continue
		}
		if s.isPods() && !w.Policy.letsPodsSet(s.Name) {
			return nil, refuse(InvalidAnnotation, "reading %s: the operator doesn't let pods set this option; remove the annotation, or ask for %q in pod-options of the injector's configuration",
				s.source, s.Name)
		}
		list = append(list, s)
	}
	return reconcile(list)
}

// reconcile resolves contradictions between mode: exec and settings that need a parent:
// the nearer setting takes precedence, and two settings of the same level of a pod are an
// error. [Defaults.Check] refuses contradictory defaults of one level where they are
// written.
func reconcile(list []setting) ([]setting, error) {
	at := slices.IndexFunc(list, setting.isModeExec)
	if at < 0 {
		return list, nil
	}
	mode := list[at]
	overrides := func(s setting) bool { return s.needsParent(s.value) && s.distance < mode.distance }
	if slices.ContainsFunc(list, overrides) {
		return slices.Delete(list, at, at+1), nil
	}
	var kept []setting
	for _, s := range list {
		switch {
		case !s.needsParent(s.value):
			kept = append(kept, s)
		case s.isPods() && s.distance == mode.distance:
			return nil, refuse(InvalidAnnotation, "reading %s: it contradicts %s: %s, which replaces the supervisor by the command; remove one of them",
				s.source, mode.source, modeExec)
		}
	}
	return kept, nil
}

// maxArg is the kernel's limit for one argument, with its final zero byte (MAX_ARG_STRLEN
// in its binfmts.h).
const maxArg = 128 << 10

// maxAdded bounds, in bytes, the text that options and images add to one pod. The bound is
// larger than any object that an API server stores (1.5 MiB, etcd's --max-request-bytes).
const maxAdded = 3 << 20

// optionFlags returns the flags for the settings of a container. argv is the original
// argv.
func (w *wrapping) optionFlags(c corev1.Container, argv []string) ([]string, error) {
	settings, err := w.settings(c.Name)
	if err != nil {
		return nil, err
	}
	w.noteRequirements(settings)
	to := optionContext{
		terminationPath: c.TerminationMessagePath, argv: argv,
		logs:      w.logs(c),
		sends:     slices.ContainsFunc(settings, setting.asksForLogs) && w.whyNotSent(c) == "",
		exec:      slices.ContainsFunc(settings, setting.isModeExec),
		fallsBack: c.TerminationMessagePolicy == corev1.TerminationMessageFallbackToLogsOnError && !slices.ContainsFunc(settings, setting.leavesStatus),
		isServer:  isServer(w.pod, c),
		isSet: func(option string) bool {
			return slices.ContainsFunc(settings, func(s setting) bool { return s.Name == option })
		},
		mayNotStart: slices.ContainsFunc(settings, func(s setting) bool { return s.beforeStart }),
		start:       func() []string { return w.startFlags(c, argv) },
		downward:    slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == tektonDownward }),
	}
	box, err := w.toolbox(settings)
	if err != nil {
		return nil, err
	}
	to.tools, w.toolboxes[c.Name] = len(box.tools) > 0, box
	to.waits = w.plan.Waits(c.Name)
	step, isStep := parseStep(argv)
	var all []string
	for _, s := range settings {
		if isStep {
			why := step.unsuited(s.Name, isLastStep(w.pod, c.Name))
			if why != "" && s.isPods() {
				return nil, refuse(InvalidAnnotation, "reading %s: it can't be set for container %q: %s", s.source, c.Name, why)
			}
			if why != "" {
				continue // a default that doesn't suit the container has no effect
			}
		}
		flags, err := s.flags(s.value, to)
		if err != nil {
			return nil, refuse(InvalidAnnotation, "reading %s: %q is wrong; %w", s.source, s.value, err)
		}
		if err := w.bound(flags, len(s.value), s.source, c.Name); err != nil {
			return nil, err
		}
		all = append(all, flags...)
	}
	inOrder := w.plan.Flags(c.Name)
	return append(all, inOrder...), w.bound(inOrder, 0, "what containers wait for", c.Name)
}

// bound refuses flags that are too long: a single flag, or all flags of the pod together
// with the values that they are made of.
func (w *wrapping) bound(flags []string, value int, source, container string) error {
	if slices.ContainsFunc(flags, func(flag string) bool { return len(flag) >= maxArg }) {
		return refuse(InvalidAnnotation, "reading %s: the value is too long: the kernel takes arguments of less than 128 KiB", source)
	}
	if w.added += value + sizeOf(flags); w.added > maxAdded {
		return refuse(InvalidAnnotation, "reading %s for container %q: the options of all containers make more than %d bytes, which no API server stores; shorten them",
			source, container, maxAdded)
	}
	return nil
}

// sizeOf returns roughly the size of words in memory and in a patch, in bytes.
func sizeOf(words []string) (size int) {
	for _, word := range words {
		size += len(word) + 16
	}
	return size
}
