// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/entrypointer/entrypointer/test/cluster/internal/images"
	"github.com/entrypointer/entrypointer/test/cluster/internal/install"
	"github.com/entrypointer/entrypointer/test/cluster/internal/layout"
	"github.com/entrypointer/entrypointer/test/cluster/internal/node"
	"github.com/entrypointer/entrypointer/test/cluster/internal/tools"
)

// status prints what runs and which versions, and fails unless all is ready.
func status(ctx context.Context, l layout.Layout, _ []string) error {
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	running := true
	fmt.Fprintln(table, "COMPONENT\tPROCESS\tLOG")
	for _, c := range node.New(l).Components() {
		process := fmt.Sprint(c.PID)
		if c.PID == 0 {
			process, running = "not running", false
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", c.Name, process, c.Log)
	}
	fmt.Fprintln(table, "\nSOFTWARE\tVERSION\t")
	for _, t := range tools.All() {
		fmt.Fprintf(table, "%s\t%s\t\n", t.Name, t.Version)
	}
	for _, r := range []images.Release{images.Tekton, images.Knative} {
		fmt.Fprintf(table, "%s\t%s\t\n", r.Name, r.Version)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Println()
	if !running {
		return errors.New("the cluster is not up; start it with \"cluster up\"")
	}
	if err := install.Ready(ctx, l); err != nil {
		return fmt.Errorf("the cluster is not ready: %w", err)
	}
	fmt.Printf("The cluster is up; a Knative Service answers like this:\n  curl -H 'Host: SERVICE.NAMESPACE.%s' http://%s\n", layout.Domain, layout.NodeIP)
	return nil
}

// env prints what a shell needs to use the cluster, and nothing else.
func env(_ context.Context, l layout.Layout, _ []string) error {
	lines := []string{
		"export KUBECONFIG=" + l.Kubeconfig(),
		"export PATH=" + l.Bin() + ":$PATH",
		"export KO_DOCKER_REPO=" + layout.Registry + "/entrypointer",
		"export KO_DEFAULTBASEIMAGE=" + images.Static,
		"export E2E_IMAGE_REGISTRY=" + layout.Registry,
		"export E2E_PRIVATE_REGISTRY=" + layout.PrivateRegistryLogin + "@" + layout.PrivateRegistry,
	}
	for _, variable := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"} {
		if os.Getenv(variable) != "" {
			lines = append(lines, "export NO_PROXY="+layout.NoProxy+" no_proxy="+layout.NoProxy)
			break
		}
	}
	for _, line := range lines {
		fmt.Println(line)
	}
	return nil
}

// logs prints a component's log, or tells where all are.
func logs(_ context.Context, l layout.Layout, names []string) error {
	if len(names) == 0 {
		fmt.Printf("components  %s\nbuilds      %s\n", l.Logs(), l.BuildLogs())
		return nil
	}
	for _, name := range names {
		file, err := os.Open(l.Logs(name + ".log"))
		if errors.Is(err, os.ErrNotExist) {
			file, err = os.Open(l.BuildLogs(name + ".log"))
		}
		if err != nil {
			return fmt.Errorf("looking for the log of %q: %w; \"cluster status\" lists the components", name, err)
		}
		_, err = io.Copy(os.Stdout, file)
		_ = file.Close()
		if err != nil {
			return err
		}
	}
	return nil
}
