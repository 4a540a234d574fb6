// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"maps"
	"slices"
	"strings"

	"github.com/entrypointer/entrypointer/pkg/pod/internal/annotation"
	"github.com/entrypointer/entrypointer/pkg/spelling"
)

// MisspeltPrefixes warns of annotations and labels whose prefix may be meant as ours,
// such as entrypoint.dev/inject: their names are those of our annotations.
func MisspeltPrefixes(annotations, labels map[string]string) (warnings []Warning) {
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		if meant := meantPrefix(key); meant != "" && meant != key {
			warnings = append(warnings, warning(ReasonUnknownAnnotation, "annotation %s is unknown and has no effect; did you mean %q?", key, meant))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if meant := meantPrefix(key); meant != "" && meant != key {
			warnings = append(warnings, warning(ReasonLabelHasNoEffect, "label %s is unknown and has no effect; did you mean the annotation %q?", key, meant))
		}
	}
	return bounded(warnings)
}

// meantPrefix returns the key in our domain that the author of another key may have
// meant, "" if there is none. A name that isn't exactly one of ours says that the key is
// another vendor's.
func meantPrefix(key string) string {
	if len(key) > maxObjectName {
		return ""
	}
	prefix, name, found := strings.Cut(strings.ToLower(key), "/")
	if !found {
		return ""
	}
	if isNearDomain(prefix) {
		if optionNamed(name) != nil || slices.Contains([]string{InjectAnnotation, ContainersAnnotation, DeliveryAnnotation}, annotation.Domain+"/"+name) {
			return annotation.Domain + "/" + name
		}
		return ""
	}
	option, prefix, _ := strings.Cut(prefix, ".")
	if optionNamed(option) != nil && isNearDomain(prefix) {
		return annotation.For(option, name)
	}
	return ""
}

// isNearDomain reports whether somebody may have meant our domain: the whole of it is
// nearly right, or its first label is, and another top-level domain or none follows.
func isNearDomain(prefix string) bool {
	host, rest, _ := strings.Cut(prefix, ".")
	return spelling.Nearest(prefix, []string{annotation.Domain}) != "" ||
		!strings.Contains(rest, ".") && spelling.Nearest(host, []string{"entrypointer", "entry-pointer", "entry-point"}) != ""
}
