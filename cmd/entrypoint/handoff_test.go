// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

// The extent of TestNothingStartsEarly.
const (
	chains = 16
	turns  = 128 // of each chain, at full extent
	ahead  = 8   // concurrent processes of a chain: one works, the others wait
)

// ways are the ways in which the processes of a chain wait. Held processes poll
// themselves, at an interval.
var ways = []struct {
	flag  string
	looks []string
}{
	{"-mode=supervise", nil},
	{"-mode=exec", nil},
	{"-hold=20ms", []string{"20ms"}},
	{"-hold=1s", []string{"1s"}},
}

// TestNothingStartsEarly hands over from process to process thousands of times, in a
// directory with constant changes, and with every CPU busy. Each child fails if its
// predecessor hasn't finished its work before it created the awaited file. A child also
// fails if it has already begun, because a held process may be started twice.
func TestNothingStartsEarly(t *testing.T) {
	for range runtime.NumCPU() {
		begin(t, []string{"sh", "-c", "while :; do :; done"})
	}
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // kills processes that wait forever
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	for c := range chains {
		group.Go(func() error { return runChain(ctx, filepath.Join(dir, strconv.Itoa(c)), c%2 == 0) })
	}
	require.NoError(t, group.Wait())
	done, err := filepath.Glob(filepath.Join(dir, "*.done"))
	require.NoError(t, err)
	require.Len(t, done, chains*extent(turns))
}

// runChain runs the processes of a chain, whose files begin with path. The processes
// wait for files to exist, or to have content.
func runChain(ctx context.Context, path string, content bool) error {
	flag, how := "-wait-file=", "file"
	if content {
		flag, how = "-wait-content=", "content"
	}
	var running []*exec.Cmd
	before := "none"
	for n := range extent(turns) {
		own := fmt.Sprint(path, "-", n)
		way := ways[n%len(ways)]
		argv := []string{way.flag}
		if n > 0 {
			argv = append(argv, flag+before+".out", "-wait-abort="+before+".out.err")
		}
		cmd := exec.CommandContext(ctx, entrypoint, append(append(argv, "--", child, "turn", before, own, how), way.looks...)...)
		cmd.Stderr = new(bytes.Buffer)
		if err := cmd.Start(); err != nil {
			return err
		}
		if running = append(running, cmd); len(running) == ahead {
			if err := ended(running[0]); err != nil {
				return err
			}
			running = running[1:]
		}
		before = own
	}
	for _, cmd := range running {
		if err := ended(cmd); err != nil {
			return err
		}
	}
	return nil
}

func ended(cmd *exec.Cmd) error {
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("running %q: %w: %s", cmd.Args, err, cmd.Stderr)
	}
	return nil
}
