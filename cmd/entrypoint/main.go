// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// The runtime would heed the cgroup's CPU limit, for a scheduler that has
// nothing to schedule, and keep it up to date.
//
//go:debug containermaxprocs=0
//go:debug updatemaxprocs=0

// Entrypoint supervises a container's own process. See -help, and package
// supervisor for what it promises.
package main

import (
	"os"

	"github.com/entrypointer/entrypointer/internal/supervisor"
)

func main() {
	os.Exit(supervisor.Main(os.Args))
}
