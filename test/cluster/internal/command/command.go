// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package command runs programs of the cluster, kubectl among them, to their end.
package command

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/entrypointer/entrypointer/test/cluster/internal/layout"
)

// Environ is the environment of a cluster's programs: of the caller's variables, only
// those of proxies, for a cluster is the same whoever starts it.
func Environ() []string {
	env := []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=/root",
		"OTEL_TRACES_EXPORTER=none",
		"NO_PROXY=" + layout.NoProxy,
		"no_proxy=" + layout.NoProxy,
	}
	for _, variable := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"} {
		if value := os.Getenv(variable); value != "" {
			env = append(env, variable+"="+value)
		}
	}
	return env
}

// Program is a program to run: one that was built, or else one of this machine.
type Program struct {
	Name  string
	Args  []string
	Stdin string
	Env   []string // beside Environ and KUBECONFIG
}

// Kubectl is kubectl with these arguments.
func Kubectl(stdin string, args ...string) Program {
	return Program{Name: "kubectl", Args: args, Stdin: stdin}
}

// Run runs a program as the administrator of the cluster, and returns its stdout. An
// error has its stderr.
func Run(ctx context.Context, l layout.Layout, p Program) ([]byte, error) {
	path := l.Bin(p.Name)
	if _, err := os.Stat(path); err != nil {
		path = p.Name // Debian's
	}
	cmd := exec.CommandContext(ctx, path, p.Args...)
	cmd.Env = append(append(Environ(), "KUBECONFIG="+l.Kubeconfig()), p.Env...)
	cmd.Stdin = strings.NewReader(p.Stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("running %q: %w: %s", p.Name+" "+strings.Join(p.Args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.Bytes(), nil
}
