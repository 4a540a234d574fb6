// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package annotation has the keys of the annotations by which the author of a pod sets
// options.
package annotation

import (
	"errors"
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
)

// For returns the annotation of a pod that sets an option for one container.
func For(option, container string) string { return option + "." + Domain + "/" + container }

// Parse splits the key of an annotation in our domain into its name and the container
// that it is for.
func Parse(key string) (name, container string, ours bool) {
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
