// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"text/tabwriter"

	"github.com/entrypointer/entrypointer/test/cluster/internal/images"
	"github.com/entrypointer/entrypointer/test/cluster/internal/install"
	"github.com/entrypointer/entrypointer/test/cluster/internal/layout"
	"github.com/entrypointer/entrypointer/test/cluster/internal/tools"
)

// software is what runs, by its modules, and the project whose release has it, if one has.
var software = []struct {
	module string
	of     tools.Project
}{
	{tools.KubernetesProject.Module, tools.KubernetesProject},
	{"go.etcd.io/etcd/server/v3", tools.KubernetesProject},
	{module: "github.com/containerd/containerd/v2"},
	{module: "github.com/coredns/coredns"},
	{tools.TektonProject.Module, tools.TektonProject},
	{tools.KnativeProject.Module, tools.KnativeProject},
	{module: "github.com/traefik/traefik/v3"},
	{module: "github.com/rancher/local-path-provisioner"},
	{module: "github.com/google/ko"},
	{module: tools.KindModule},
}

// status prints what runs and which versions, and fails unless all is ready.
func (c *cluster) status(ctx context.Context, _ []string) error {
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	running := true
	fmt.Fprintln(table, "COMPONENT\tPROCESS\tLOG")
	for _, component := range c.node.Components() {
		process := fmt.Sprint(component.PID)
		if component.PID == 0 {
			process, running = "not running", false
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", component.Name, process, component.Log)
	}
	fmt.Fprintln(table, "\nSOFTWARE\tVERSION\t")
	for _, s := range software {
		if s.module == tools.KindModule && !c.kind {
			continue
		}
		version, err := c.of(s.of).Version(s.module)
		if err != nil {
			return err
		}
		fmt.Fprintf(table, "%s\t%s\t\n", s.module, version)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Println()
	if !running {
		return fmt.Errorf("the cluster of %q is not up; start it with \"cluster up\", or \"cluster -kind up\"", c.layout.State)
	}
	if err := install.Ready(ctx, c.layout); err != nil {
		return fmt.Errorf("the cluster is not ready: %w", err)
	}
	fmt.Printf("The cluster is up; a Knative Service answers like this:\n  curl --connect-to ::%s:80 http://SERVICE.NAMESPACE.%s\n", layout.NodeIP, layout.Domain)
	return nil
}

// env prints what a shell needs to use the cluster, and nothing else.
func (c *cluster) env(_ context.Context, _ []string) error {
	lines := []string{
		"export KUBECONFIG=" + c.layout.Kubeconfig(),
		"export PATH=" + c.layout.Bin() + ":$PATH",
		"export KO_DOCKER_REPO=" + layout.Registry + "/entrypointer",
		"export KO_DEFAULTBASEIMAGE=" + images.Static,
		"export KO_DEFAULTPLATFORMS=linux/" + runtime.GOARCH, // that of the one node
		"export E2E_IMAGE_REGISTRY=" + layout.Registry,
		"export E2E_INGRESS=" + layout.NodeIP + ":80",
		"export E2E_SHARED_STORAGE_CLASS=shared",
		"export E2E_PRIVATE_REGISTRY=" + layout.PrivateRegistryLogin + "@" + layout.PrivateRegistry,
	}
	// kind's API server shows webhooks no certificate.
	if ca := c.layout.PKI("webhook-client-ca.crt"); exists(ca) {
		lines = append(lines, "export E2E_WEBHOOK_CLIENT_CA="+ca)
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

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// logs prints a component's log, or tells where all are.
func (c *cluster) logs(ctx context.Context, names []string) error {
	if len(names) == 0 {
		fmt.Printf("components  %s\nbuilds      %s\n", c.layout.Logs(), c.layout.BuildLogs())
		return nil
	}
	for _, name := range names {
		if err := c.log(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// log prints what a component has logged on this machine, and then on the nodes.
func (c *cluster) log(ctx context.Context, name string) error {
	file, err := os.Open(c.layout.Logs(name + ".log"))
	if errors.Is(err, os.ErrNotExist) {
		file, err = os.Open(c.layout.BuildLogs(name + ".log"))
	}
	if err == nil {
		_, copied := io.Copy(os.Stdout, file)
		if err := errors.Join(copied, file.Close()); err != nil {
			return fmt.Errorf("printing the log of %q: %w", name, err)
		}
	}
	journal, there := c.node.Journal(ctx, name)
	if there != nil {
		return fmt.Errorf("reading the log of %q on the nodes: %w", name, there)
	}
	if err != nil && journal == "" {
		return fmt.Errorf("looking for the log of %q: %w; \"cluster status\" lists the components", name, err)
	}
	_, err = fmt.Print(journal)
	return err
}
