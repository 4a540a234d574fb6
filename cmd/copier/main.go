// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// The runtime would heed the cgroup's CPU limit, for a scheduler that has
// nothing to schedule, and keep it up to date.
//
//go:debug containermaxprocs=0
//go:debug updatemaxprocs=0

// Copier is the init container's program: it copies itself into the volume
// that it shares with the pod's other containers, where the copy, started under
// the name entrypoint, is the supervisor. One program that is both needs no
// second file in the image, and can't be of another version than its copy.
package main

import (
	"os"
	"path/filepath"

	"github.com/entrypointer/entrypointer/internal/installer"
	"github.com/entrypointer/entrypointer/internal/supervisor"
)

func main() {
	if len(os.Args) > 0 && filepath.Base(os.Args[0]) == "entrypoint" {
		os.Exit(supervisor.Main(os.Args))
	}
	os.Exit(installer.Main(os.Args))
}
