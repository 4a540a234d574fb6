// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

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
