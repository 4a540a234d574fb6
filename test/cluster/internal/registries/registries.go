// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package registries says from where containerd pulls images: it reads one hosts.toml
// for each registry, in a directory of the registry's name.
package registries

import (
	"fmt"
	"path"

	"github.com/entrypointer/entrypointer/test/cluster/internal/layout"
)

// DockerHub is the registry of images whose names have none, such as busybox:1.37.
const DockerHub = "docker.io"

// Hosts are the contents of the files, by their paths below containerd's config_path.
//
// The cluster's own registry is the mirror of Docker Hub. Docker Hub itself serves the
// images that the mirror lacks, where this machine reaches it.
func Hosts() map[string]string {
	files := map[string]string{}
	for _, registry := range []string{layout.Registry, layout.PrivateRegistry} {
		files[file(registry)] = fmt.Sprintf("server = %q\n", "http://"+registry)
	}
	files[file(DockerHub)] = fmt.Sprintf(`server = "https://registry-1.docker.io"

[host.%q]
capabilities = ["pull", "resolve"]
`, "http://"+layout.Registry)
	return files
}

func file(registry string) string { return path.Join(registry, "hosts.toml") }
