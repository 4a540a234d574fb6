// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

//go:debug containermaxprocs=0
//go:debug updatemaxprocs=0

// Entrypoint is the supervisor for containers that send logs. The same binary is the
// shipper, which the supervisor starts beside the command, so that there is only one file to
// deliver.
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
