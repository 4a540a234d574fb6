// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// domain is where our annotations live.
const domain = "entrypointer.dev"

// option is something that an annotation tells the entrypoint of a container:
// of every wrapped container with entrypointer.dev/OPTION, of one, which wins,
// with OPTION.entrypointer.dev/CONTAINER. A container's name always fits there
// (as it does in container.apparmor.security.beta.kubernetes.io/CONTAINER).
type option struct {
	name string
	// flag returns the entrypoint's flag for a value, or what would be right.
	flag func(value string) (flag, right string)
}

var options = []option{{name: "mode", flag: modeFlagOf}}

func modeFlagOf(value string) (flag, right string) {
	switch value {
	case "supervise":
		return "", "" // what it does when it isn't told
	case "exec":
		return modeFlag + value, ""
	default:
		return "", `"supervise" or "exec"`
	}
}

// keyFor returns the annotation that decides about a container, the pod's own or the container's.
func (o option) keyFor(pod *corev1.Pod, container string) (key string, set bool) {
	for _, key := range []string{o.name + "." + domain + "/" + container, domain + "/" + o.name} {
		if _, set := pod.Annotations[key]; set {
			return key, true
		}
	}
	return "", false
}

// optionFlags returns the flags that annotations ask for in a container.
func optionFlags(pod *corev1.Pod, container string) ([]string, error) {
	var flags []string
	for _, o := range options {
		key, set := o.keyFor(pod, container)
		if !set {
			continue
		}
		value := pod.Annotations[key]
		flag, right := o.flag(value)
		if right != "" {
			return nil, refuse(InvalidAnnotation, "reading annotation %s: %q is wrong; it can be %s", key, value, right)
		}
		if flag != "" {
			flags = append(flags, flag)
		}
	}
	return flags, nil
}

// checkAnnotations finds annotations of ours that nobody would read. One for a
// container that isn't there is an error; a key that we don't know may be
// another release's, so it is worth a warning only.
func checkAnnotations(pod *corev1.Pod) (warnings []string, _ error) {
	known := []string{InjectAnnotation, ContainersAnnotation, StatusAnnotation}
	for _, o := range options {
		known = append(known, domain+"/"+o.name)
	}
	for _, key := range slices.Sorted(maps.Keys(pod.Annotations)) {
		prefix, name, _ := strings.Cut(key, "/")
		subdomain, ours := strings.CutSuffix("."+prefix, "."+domain)
		subdomain = strings.TrimPrefix(subdomain, ".")
		switch {
		case !ours || slices.Contains(known, key):
		case !slices.ContainsFunc(options, func(o option) bool { return o.name == subdomain }):
			warnings = append(warnings, fmt.Sprintf("entrypointer: annotation %s is unknown and has no effect", key))
		case !hasContainer(pod, name):
			return nil, refuse(InvalidAnnotation, "reading annotation %s: the pod has no container %q in spec.containers", key, name)
		}
	}
	return warnings, nil
}

func hasContainer(pod *corev1.Pod, name string) bool {
	return slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == name })
}
