// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

//go:debug containermaxprocs=0
//go:debug updatemaxprocs=0

// Entrypoint is cmd/entrypoint for containers whose output goes to the log
// service: the supervisor, and the shipper that it starts beside the command, are
// one program, so that there is one file to deliver.
package main

import (
	"os"

	"github.com/entrypointer/entrypointer/internal/capture"
	"github.com/entrypointer/entrypointer/internal/ship"
	"github.com/entrypointer/entrypointer/internal/supervisor"
)

func main() {
	if capture.IsShipper(os.Args) {
		os.Exit(ship.Main(os.Args))
	}
	os.Exit(supervisor.MainWith(capture.New(), os.Args))
}
