// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"slices"
	"strings"
)

// source names the source, for errors. It is "" for a value that applies without any
// setting.
func (s setting) source() string {
	switch {
	case s.isPods():
		return "annotation " + s.key
	case s.defaults != nil:
		return "annotation " + s.Option.key() + " " + s.defaults.Source
	default:
		return ""
	}
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

// read returns the containers that are to be wrapped, with their settings. Containers
// without annotations of their own have the same list: a request has room for ten thousand
// containers.
func (w *wrapping) read(selected []int) ([]container, error) {
	var common []setting
	containers := make([]container, len(selected))
	for at, index := range selected {
		c := &containers[at]
		c.index, c.Container = index, &w.pod.Spec.Containers[index]
		own := w.pod.forContainer(c.Name, w.kind)
		if c.settings = common; len(own) > 0 || common == nil {
			var err error
			if c.settings, err = w.settings(own); err != nil {
				return nil, err
			}
		}
		if len(own) == 0 {
			common = c.settings
		}
	}
	return containers, nil
}

// settings returns all settings of a container, which has these annotations of its own.
func (w *wrapping) settings(own []*parsedKey) ([]setting, error) {
	list := []setting{}
	for at := range options {
		s, set := w.settingOf(&options[at], own)
		if !set || !w.kind.takes(s.Option) {
			continue
		}
		if s.isPods() && !w.Policy.letsPodsSet(s.Name) {
			return nil, refuse(InvalidAnnotation, "reading %s: the operator doesn't let pods set this option; remove the annotation, or ask for %q in pod-options of the injector's configuration",
				s.source(), s.Name)
		}
		list = append(list, s)
	}
	return reconcile(list)
}

func (p Policy) letsPodsSet(option string) bool {
	return p.PodOptions == nil || slices.Contains(p.PodOptions, option)
}

// settingOf returns the setting of an option for a container, from the nearest source.
func (w *wrapping) settingOf(o *Option, own []*parsedKey) (setting, bool) {
	for _, key := range own {
		if key.option == o {
			return setting{Option: o, value: key.value, distance: ofContainer, key: key.text}, true
		}
	}
	if o.perContainer {
		return setting{}, false
	}
	if key := w.pod.ofPod[o]; key != nil {
		return setting{Option: o, value: key.value, distance: ofPod, key: key.text}, true
	}
	for at := range w.Defaults {
		d := &w.Defaults[at]
		if value, set := d.Values[o.Name]; set {
			return setting{Option: o, value: value, distance: ofDefaults + at, defaults: d}, true
		}
	}
	return setting{Option: o, value: o.byDefault, distance: ofDefaults + len(w.Defaults)}, o.byDefault != ""
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
				s.source(), mode.source(), modeExec)
		}
	}
	return kept, nil
}

// forContainer returns the annotations for one container. They name the container, or the
// step of a TaskRun by the step's own name, unless a container has that name. Those of the
// container's full name come first, and take precedence.
func (p *parsedPod) forContainer(container string, kind *Kind) []*parsedKey {
	named := p.ofContainer[container]
	step, is := strings.CutPrefix(container, stepPrefix)
	if !is || !kind.Steps || p.containers[step] || len(p.ofContainer[step]) == 0 {
		return named
	}
	return append(slices.Clip(named), p.ofContainer[step]...)
}
