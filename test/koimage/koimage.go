// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package koimage builds images of programs of other modules, for the pods of tests.
package koimage

import (
	"errors"
	"os/exec"
	"strings"
	"testing"
)

// Build returns the image of a program of the module in a directory, which ko builds, with its
// digest. The environment of ko says where the image goes. The test fails with what ko says.
func Build(t testing.TB, directory, program string) string {
	t.Helper()
	build := exec.CommandContext(t.Context(), "ko", "build", program)
	build.Dir = directory
	out, err := build.Output()
	if failed, is := errors.AsType[*exec.ExitError](err); is {
		t.Fatalf("building %s in %s: %v: %s", program, directory, err, failed.Stderr)
	}
	if err != nil {
		t.Fatalf("building %s in %s: %v", program, directory, err)
	}
	return strings.TrimSpace(string(out))
}
