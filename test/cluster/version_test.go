// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/entrypointer/entrypointer/test/cluster/internal/layout"
	"github.com/entrypointer/entrypointer/test/cluster/internal/tools"
)

func TestAClusterKeepsTheVersionThatItWasStartedWith(t *testing.T) {
	for name, c := range map[string]struct {
		command, asked, running string
		want                    string // "" for an error
	}{
		"nothing runs":                            {"up", "", "", "1.36"},
		"nothing runs, and one is asked for":      {"up", "1.37", "", "1.37"},
		"another one runs":                        {"up", "", "1.34", "1.34"},
		"another one runs, and is asked for":      {"up", "1.34", "1.34", "1.34"},
		"another one runs than the one asked for": {"up", "1.37", "1.34", ""},
		"ours runs, and another is asked for":     {"env", "1.37", "1.36", ""},
		"ours is asked for, and another runs":     {"fixtures", "1.36", "1.37", ""},
		"what is built runs later":                {"build", "1.37", "1.34", "1.37"},
		"what is built is ours":                   {"build", "", "1.34", "1.36"},
		"what runs is ended":                      {"down", "1.37", "1.34", "1.36"},
	} {
		got, err := choose(c.command, tools.KubernetesProject, c.asked, c.running, "1.36")
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s: got %q, %v, want %q", name, got, err, c.want)
		}
		if err != nil && !strings.Contains(err.Error(), "has "+c.running+"; end it first") {
			t.Errorf("%s: %v doesn't say what to do", name, err)
		}
	}
}

func TestAVersionThatThereIsNoFileForIsRefused(t *testing.T) {
	t.Setenv("ENTRYPOINTER_CACHE", t.TempDir())
	c := &cluster{}
	err := c.openVersion(tools.KubernetesProject, "1.12")
	if err == nil || !strings.Contains(err.Error(), "1.34, 1.35") || !strings.Contains(err.Error(), "cluster pin") {
		t.Errorf("opening 1.12: %v", err)
	}
	for _, version := range []string{"1.37", "1.34"} {
		c := &cluster{layout: layout.Layout{Cache: t.TempDir()}, others: map[string]tools.Module{}}
		if err := c.openVersion(tools.KubernetesProject, version); err != nil || c.of(tools.KubernetesProject).VersionOf(tools.KubernetesProject) != version {
			t.Errorf("opening %s: got %s, %v", version, c.describeVersions(), err)
		}
		if got := c.layout.Bin("kubelet"); !strings.HasSuffix(got, "bin-"+version+"/kubelet") {
			t.Errorf("its programs are at %s", got)
		}
	}
	if _, err := open(options{command: "up", kind: true, versions: map[string]string{"kubernetes": "1.34"}}); err == nil || !strings.Contains(err.Error(), "leave out -kind") {
		t.Errorf("nodes of kind with another version: %v", err)
	}
}
