// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

//go:debug containermaxprocs=0
//go:debug updatemaxprocs=0

// Copier is cmd/copier for pods that send logs.
package main

import (
	"os"
	"path/filepath"

	"github.com/entrypointer/entrypointer/internal/capture"
	"github.com/entrypointer/entrypointer/internal/installer"
	"github.com/entrypointer/entrypointer/internal/ship"
	"github.com/entrypointer/entrypointer/internal/supervisor"
)

func main() {
	switch {
	case capture.IsShipper(os.Args):
		os.Exit(ship.Main(os.Args))
	case len(os.Args) > 0 && filepath.Base(os.Args[0]) == "entrypoint":
		os.Exit(supervisor.MainWith(capture.New(), os.Args))
	}
	os.Exit(installer.Main(os.Args))
}
