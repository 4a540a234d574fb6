// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"os"
	"strings"
	"testing"

	"github.com/entrypointer/entrypointer/test/cluster/internal/layout"
)

func TestEnvironKeepsProxiesAwayFromTheCluster(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "http://proxy.example.org:3128")
	t.Setenv("NO_PROXY", "")
	env := strings.Join(Environ(), "\n")
	for _, want := range []string{"HTTPS_PROXY=http://proxy.example.org:3128", "NO_PROXY=localhost,", "no_proxy=localhost,", layout.NodeIP, layout.ServiceCIDR} {
		if !strings.Contains(env, want) {
			t.Errorf("environ: %q is not in it: %s", want, env)
		}
	}
}

func TestAProgramThatWasBuiltRunsInTheClustersEnvironment(t *testing.T) {
	l := layout.Layout{State: t.TempDir(), Cache: t.TempDir()}
	if err := os.MkdirAll(l.Bin(), 0o755); err != nil {
		t.Fatal(err)
	}
	const script = "#!/bin/sh\necho \"$1 $KUBECONFIG $MORE $(cat)\"\necho why >&2\nexit \"$2\"\n"
	if err := os.WriteFile(l.Bin("kubectl"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	p := Kubectl("input", "get", "0")
	p.Env = []string{"MORE=more"}
	out, err := Run(t.Context(), l, p)
	if want := "get " + l.Kubeconfig() + " more input\n"; err != nil || string(out) != want {
		t.Errorf("%q (%v), want %q", out, err, want)
	}
	if _, err := Run(t.Context(), l, Kubectl("", "get", "3")); err == nil || err.Error() != `running "kubectl get 3": exit status 3: why` {
		t.Errorf("a failure: %v", err)
	}
	if out, err := Run(t.Context(), l, Program{Name: "echo", Args: []string{"this machine's"}}); err != nil || string(out) != "this machine's\n" {
		t.Errorf("a program of this machine: %q (%v)", out, err)
	}
}
