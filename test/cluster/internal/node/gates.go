// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/mod/semver"
)

// wanted are feature gates of which tests use what they allow, from the first version that
// knows them on (pkg/features/kube_features.go), to the one that has them on by itself, if
// there is one.
var wanted = []struct{ name, known, on string }{
	{"ContainerStopSignals", "1.33", ""},
	{"ContainerRestartRules", "1.34", "1.35"},
	{"NodeDeclaredFeatures", "1.35", "1.36"}, // RestartAllContainersOnContainerExits needs it.
	{"RestartAllContainersOnContainerExits", "1.35", "1.36"},
	{"VolumeBindMountOptions", "1.37", ""},
}

// gates are those feature gates that a version of Kubernetes knows and has off.
func gates(kubernetes string) map[string]bool {
	gates := map[string]bool{}
	for _, w := range wanted {
		if !older(kubernetes, w.known) && (w.on == "" || older(kubernetes, w.on)) {
			gates[w.name] = true
		}
	}
	return gates
}

// older reports whether a version of Kubernetes, "1.36" for instance, is before another.
func older(version, than string) bool { return semver.Compare("v"+version, "v"+than) < 0 }

// gated switches feature gates of a component on.
func gated(c component, gates map[string]bool) component {
	var settings []string
	for _, name := range slices.Sorted(maps.Keys(gates)) {
		settings = append(settings, fmt.Sprintf("%s=%t", name, gates[name]))
	}
	if len(settings) > 0 {
		c.argv = append(c.argv, "--feature-gates="+strings.Join(settings, ","))
	}
	return c
}
