// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"net"
	"net/http"
	"time"

	"github.com/entrypointer/entrypointer/test/cluster/internal/host"
	"github.com/entrypointer/entrypointer/test/cluster/internal/layout"
)

// dockerSocket is where the Docker daemon of a cluster listens, and nobody else's.
func dockerSocket(l layout.Layout) string { return l.Run("docker.sock") }

// dockerContainerd is the containerd that the Docker daemon makes containers with: that
// of its own Debian package.
func dockerContainerd(l layout.Layout) component {
	return component{
		name:  "containerd",
		argv:  []string{host.DockerContainerd, "--config", l.Config("docker-containerd.toml")},
		ready: listens(l.ContainerdSocket()),
	}
}

// docker is the Docker daemon. It leaves this machine's iptables alone: the nodes reach
// each other over a bridge, this machine by its address there, and what a node
// publishes is forwarded by a process.
func docker(l layout.Layout) component {
	return component{
		name: "dockerd",
		argv: []string{
			host.Dockerd,
			"--host=unix://" + dockerSocket(l),
			"--containerd=" + l.ContainerdSocket(),
			"--data-root=" + l.Data("docker"),
			"--exec-root=" + l.Run("docker"),
			"--pidfile=" + l.Run("docker.pid"),
			"--config-file=" + l.Config("docker.json"), // empty: this machine's is for its own daemon
			"--bridge=none",
			"--iptables=false",
			"--ip6tables=false",
			"--insecure-registry=" + layout.Registry,
			// What runs in it is ours.
			"--cgroup-parent=/" + host.CgroupRoot,
			"--exec-opt=native.cgroupdriver=cgroupfs", // systemd would have it be a slice
			"--add-runtime=boundedrunc=" + l.Bin("boundedrunc"),
			"--default-runtime=boundedrunc",
		},
		listens: []string{layout.NodeIP + ":80"}, // the ingress', for a node
		ready:   pings(dockerSocket(l)),
	}
}

// pings checks that a Docker daemon answers: it listens before it is ready.
func pings(socket string) func(context.Context) error {
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}
	return asks(&http.Client{Transport: transport, Timeout: 5 * time.Second}, "http://docker/_ping")
}

// listens checks that a Unix socket takes connections.
func listens(socket string) func(context.Context) error {
	return func(ctx context.Context) error {
		connection, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
		if err != nil {
			return err
		}
		return connection.Close()
	}
}
