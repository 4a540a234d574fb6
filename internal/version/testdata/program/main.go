// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Program prints its version.
package main

import (
	"flag"

	"github.com/entrypointer/entrypointer/internal/version"
)

func main() {
	version.AddFlag("program")
	flag.Parse()
}
