// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Ni stands for a tool that an operator gives to pods (docs/tools.md): it says where
// it is, and what it was asked to do.
package main

import (
	"fmt"
	"os"
	"strings"
)

func main() {
	where, err := os.Executable()
	if err != nil {
		fmt.Fprintln(os.Stderr, "ni: finding where it is:", err)
		os.Exit(1)
	}
	fmt.Printf("%s: %s\n", where, strings.Join(os.Args[1:], " "))
}
