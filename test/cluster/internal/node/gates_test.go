// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/entrypointer/entrypointer/test/cluster/internal/layout"
)

func TestFeatureGatesAreThoseThatAVersionKnowsAndHasOff(t *testing.T) {
	for version, want := range map[string]string{
		"1.32": "",
		"1.34": "ContainerRestartRules ContainerStopSignals",
		"1.35": "ContainerStopSignals NodeDeclaredFeatures RestartAllContainersOnContainerExits",
		"1.36": "ContainerStopSignals",
		"1.37": "ContainerStopSignals VolumeBindMountOptions",
	} {
		l := layout.Layout{State: t.TempDir(), Cache: t.TempDir()}
		if err := writePKI(l); err != nil {
			t.Fatal(err)
		}
		if err := writeConfig(l, "registry/pause", version); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(l.Config("kubelet.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		var kubelet struct{ FeatureGates map[string]bool }
		if err := yaml.Unmarshal(text, &kubelet); err != nil {
			t.Fatal(err)
		}
		names := slices.Sorted(maps.Keys(kubelet.FeatureGates))
		if got := strings.Join(names, " "); got != want {
			t.Errorf("the kubelet %s has %q, want %q", version, got, want)
		}
		settings := "--feature-gates=" + strings.ReplaceAll(want, " ", "=true,") + "=true"
		for _, stage := range New(l, "registry/pause", version).stages() {
			for _, c := range stage {
				reads := slices.Contains([]string{"kube-apiserver", "kube-controller-manager", "kube-scheduler"}, c.name)
				if got := slices.Contains(c.argv, settings); got != (reads && want != "") {
					t.Errorf("%s %s is started by %q, want %s: %t", c.name, version, c.argv, settings, reads)
				}
			}
		}
	}
}
