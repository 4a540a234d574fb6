// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// By default, the Go runtime adapts GOMAXPROCS to the cgroup's CPU limit, and keeps it
// up to date. The supervisor's one goroutine doesn't need that.
//
//go:debug containermaxprocs=0
//go:debug updatemaxprocs=0

// Entrypoint supervises a container's command. See -help for its flags, and package
// supervisor for its guarantees.
package main

import (
	"os"

	"github.com/entrypointer/entrypointer/internal/supervisor"
)

func main() {
	os.Exit(supervisor.Main(os.Args))
}
