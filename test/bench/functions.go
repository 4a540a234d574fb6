// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"

	"golang.org/x/tools/benchmark/parse"

	"github.com/entrypointer/entrypointer/test/framework"
)

// benchmarks runs the Go benchmarks that the table shows.
func benchmarks(ctx context.Context) (parse.Set, error) {
	top, err := framework.RepositoryRoot()
	if err != nil {
		return nil, err
	}
	run := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", "Mutation|RememberedLookup", "-benchmem", "./pkg/...")
	run.Dir, run.Stderr = top, os.Stderr
	output, err := run.Output()
	if err != nil {
		return nil, fmt.Errorf("running %v: %w\n%s", run.Args, err, output)
	}
	return parse.ParseSet(bytes.NewReader(output))
}
