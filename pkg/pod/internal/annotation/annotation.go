// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package annotation has the keys of the annotations by which the author of a pod sets
// options.
package annotation

import (
	"errors"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/pkg/pod/internal/text"
	"github.com/entrypointer/entrypointer/pkg/spelling"
)

const (
	// Domain is the domain of our annotations.
	Domain = "entrypointer.dev"
	// Containers is the annotation that restricts the wrapping of a pod.
	Containers = Domain + "/containers"
	// MaxTotal is the limit that an API server sets for the annotations of an object, in
	// bytes of keys and values (TotalAnnotationSizeLimitB in
	// https://github.com/kubernetes/apimachinery/blob/v0.36.3/pkg/api/validation/objectmeta.go).
	MaxTotal = 256 << 10
)

// For returns the annotation of a pod that sets an option for one container.
func For(option, container string) string { return option + "." + Domain + "/" + container }

// Split splits the key of an annotation in our domain into its name and the container
// that it is for.
func Split(key string) (name, container string, ours bool) {
	prefix, name, _ := strings.Cut(key, "/")
	if prefix == Domain {
		return name, "", true
	}
	option, ours := strings.CutSuffix(prefix, "."+Domain)
	return option, name, ours
}

// Absent returns the error for an annotation that names a container that the pod doesn't
// have.
func Absent(pod *corev1.Pod, key, container string) error {
	var names []string
	for _, c := range pod.Spec.Containers {
		names = append(names, c.Name)
	}
	return text.Errorf("reading annotation %s: the pod has no container %q in spec.containers; it has %w%s",
		key, container, errors.New(`"`+text.Listed(names, `", "`)+`"`), spelling.DidYouMean(container, names[:min(len(names), text.MaxListed)]))
}

// ContainerNames returns the names of the pod's containers, for which annotations can be.
func ContainerNames(pod *corev1.Pod) map[string]bool {
	names := make(map[string]bool, len(pod.Spec.Containers))
	for _, c := range pod.Spec.Containers {
		names[c.Name] = true
	}
	return names
}

// Ours returns the keys in our domain of annotations or labels, sorted.
func Ours(annotations map[string]string) (keys []string) {
	for key := range annotations {
		if _, _, ours := Split(key); ours {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// Mentioned reports whether there are annotations or labels in our domain.
func Mentioned(annotations map[string]string) bool {
	for key := range annotations {
		if _, _, ours := Split(key); ours {
			return true
		}
	}
	return false
}

// Set sets an annotation of the pod, if there is room. Otherwise it removes the present
// annotation of that key, whose value is outdated, and returns false.
func Set(pod *corev1.Pod, key, value string) bool {
	delete(pod.Annotations, key)
	size := len(key) + len(value)
	for other, its := range pod.Annotations {
		size += len(other) + len(its)
	}
	if size > MaxTotal {
		return false
	}
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[key] = value
	return true
}
