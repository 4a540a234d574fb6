// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// Plugin is kubectl with the plugin of this checkout.
type Plugin struct{ directory string }

// BuildPlugin builds it into a directory.
func BuildPlugin(ctx context.Context, directory string) (Plugin, error) {
	_, err := Run(ctx, "go", "build", "-o", directory+"/", "./cmd/kubectl-entrypointer")
	return Plugin{directory}, err
}

// Environment is the one in which kubectl finds the plugin.
func (p Plugin) Environment() []string {
	return append(os.Environ(), "PATH="+p.directory+":"+os.Getenv("PATH"))
}

// Command is kubectl entrypointer with these arguments.
func (p Plugin) Command(ctx context.Context, args ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, "kubectl", append([]string{"entrypointer"}, args...)...)
	command.Env = p.Environment()
	return command
}

// Logs is the command kubectl entrypointer logs.
func (p Plugin) Logs(ctx context.Context, args ...string) *exec.Cmd {
	return p.Command(ctx, append([]string{"logs"}, args...)...)
}

// ReadLogs returns what it prints.
func (p Plugin) ReadLogs(ctx context.Context, args ...string) (string, error) {
	command := p.Logs(ctx, args...)
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil {
		return "", fmt.Errorf("running %q: %w: %s", command.Args, err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}
