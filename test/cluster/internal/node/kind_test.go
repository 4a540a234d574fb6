// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/entrypointer/entrypointer/test/cluster/internal/layout"
)

func TestNodesAreConnectedWhenEachHasItsAddresses(t *testing.T) {
	const worker = `{"metadata": {"name": "worker"}, "spec": {"podCIDR": "10.244.1.0/24"},
		"status": {"addresses": [{"type": "InternalIP", "address": "fc00::2"}, {"type": "InternalIP", "address": "10.250.1.3"}, {"type": "Hostname", "address": "worker"}]}}`
	for name, c := range map[string]struct{ items, missing string }{
		"all there":                {worker, ""},
		"no range of pods yet":     {worker + `,{"metadata": {"name": "late"}, "spec": {}, "status": {"addresses": [{"type": "InternalIP", "address": "10.250.1.4"}]}}`, `"late"`},
		"no address yet":           {`{"metadata": {"name": "late"}, "spec": {"podCIDR": "10.244.2.0/24"}, "status": {}}`, `"late"`},
		"no node yet":              {"", "no node"},
		"something that isn't one": {"1", "reading"},
	} {
		t.Run(name, func(t *testing.T) {
			nodes, err := parseNodes([]byte(`{"items": [` + c.items + `]}`))
			if c.missing != "" {
				if err == nil || !strings.Contains(err.Error(), c.missing) {
					t.Errorf("%v, want an error with %q", err, c.missing)
				}
				return
			}
			if want := []kindNode{{"worker", "10.250.1.3", "10.244.1.0/24"}}; err != nil || !slices.Equal(nodes, want) {
				t.Errorf("%v (%v), want %v", nodes, err, want)
			}
		})
	}
}

func TestTheConfigurationOfKindIsWrittenOut(t *testing.T) {
	l := layout.Layout{State: t.TempDir(), Cache: t.TempDir()}
	k := NewKind(l, "registry/node", "registry/pause")
	if err := k.writeConfig(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(l.Config("kind.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Nodes []struct {
			Role        string
			ExtraMounts []struct{ HostPath, ContainerPath string }
		}
		KubeadmConfigPatches, ContainerdConfigPatches []string
	}
	if err := yaml.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	if len(config.Nodes) != 3 {
		t.Errorf("%d nodes, want 3", len(config.Nodes))
	}
	for _, n := range config.Nodes {
		if len(n.ExtraMounts) != 1 || n.ExtraMounts[0].HostPath != l.Data("volumes") || n.ExtraMounts[0].ContainerPath != l.Data("volumes") {
			t.Errorf("the %s has the mounts %v: volumes must be the same on all nodes", n.Role, n.ExtraMounts)
		}
	}
	for _, patch := range config.KubeadmConfigPatches {
		if err := yaml.Unmarshal([]byte(patch), &map[string]any{}); err != nil {
			t.Errorf("%s: %v", patch, err)
		}
	}
	if patches := strings.Join(config.ContainerdConfigPatches, ""); !strings.Contains(patches, `"registry/pause"`) {
		t.Errorf("containerd doesn't make pods with registry/pause: %s", patches)
	}
	conflist, err := rendered("kind-cni.conflist", "10.244.1.0/24")
	if err != nil || !json.Valid([]byte(conflist)) || !strings.Contains(conflist, "10.244.1.0/24") {
		t.Errorf("%s (%v)", conflist, err)
	}
}

func TestTheLogOfAUnitIsThatOfEachNode(t *testing.T) {
	l := layout.Layout{State: t.TempDir(), Cache: t.TempDir()}
	for name, script := range map[string]string{"kind": "echo one two", "docker": `echo "$*"`} {
		if err := os.MkdirAll(l.Bin(), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(l.Bin(name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	k := NewKind(l, "registry/node", "registry/pause")
	for component, want := range map[string]string{
		"kubelet": "==> kubelet on one <==\nexec one journalctl --no-pager --unit=kubelet\n" +
			"==> kubelet on two <==\nexec two journalctl --no-pager --unit=kubelet\n",
		"registry": "", // a process of this machine
	} {
		if got, err := k.Journal(t.Context(), component); err != nil || got != want {
			t.Errorf("%s: %q (%v), want %q", component, got, err, want)
		}
	}
}
