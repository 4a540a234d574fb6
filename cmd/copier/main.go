// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// By default, the Go runtime adapts GOMAXPROCS to the cgroup's CPU limit, and keeps it
// up to date. The supervisor's one goroutine doesn't need that.
//
//go:debug containermaxprocs=0
//go:debug updatemaxprocs=0

// Copier is the program of the init container. It copies itself to a volume that the
// pod's containers share. A copy that is started under the name entrypoint is the
// supervisor. With one program for both, the image needs no second file, and the copy
// always has the copier's version.
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
