// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

// The extent of TestNoContainerStartsBeforeItsDependencies.
const (
	groups  = 8
	rounds  = 8 // of each group, one after the other, at full extent
	members = 6 // that wait, in each round
)

// TestNoContainerStartsBeforeItsDependencies starts hundreds of dependencies and
// waiting containers at the same time, with every CPU busy. Each dependency is killed a
// few times before it does its work, and the waiting containers fail without that work.
func TestNoContainerStartsBeforeItsDependencies(t *testing.T) {
	for range runtime.NumCPU() {
		begin(t, []string{"sh", "-c", "while :; do :; done"})
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // kills processes that wait forever
	defer cancel()
	dir := t.TempDir()
	group, ctx := errgroup.WithContext(ctx)
	for g := range groups {
		group.Go(func() error {
			for r := range extent(rounds) {
				if err := startTogether(ctx, filepath.Join(dir, fmt.Sprint(g, "-", r)), g%2 == 0); err != nil {
					return err
				}
			}
			return nil
		})
	}
	require.NoError(t, group.Wait())
	started, err := filepath.Glob(filepath.Join(dir, "*", "started-*"))
	require.NoError(t, err)
	require.Len(t, started, groups*extent(rounds)*members)
}

// startTogether makes the members wait for a dependency to become ready, or to
// complete.
func startTogether(ctx context.Context, dir string, ready bool) error {
	if err := os.Mkdir(dir, 0o777); err != nil {
		return err
	}
	condition, flags, command := "completed", []string(nil), "sleep 0.02; touch done"
	if ready {
		condition, flags, command = "ready", []string{"-ready-file=" + dir + "/done", "-ready-period=5ms"}, "sleep 0.02; touch done; exec sleep 60"
	}
	run := func(args ...string) (*exec.Cmd, error) {
		cmd := exec.CommandContext(ctx, entrypoint, args...)
		cmd.Dir, cmd.Stderr = dir, new(bytes.Buffer)
		return cmd, cmd.Start()
	}
	var waiting []*exec.Cmd
	for m := range members {
		cmd, err := run("-depends-on="+condition+":"+dir, "--", "sh", "-c", fmt.Sprint("test -e done && touch started-", m))
		if err != nil {
			return err
		}
		waiting = append(waiting, cmd)
	}
	live := func(command string) (*exec.Cmd, error) {
		return run(append(append([]string{"-order-dir=" + dir}, flags...), "--", "sh", "-c", command)...)
	}
	for range 3 { // incarnations that are killed
		cmd, err := live("exec sleep 60")
		if err != nil {
			return err
		}
		time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond)
		if err := killed(cmd); err != nil {
			return err
		}
	}
	last, err := live(command)
	if err != nil {
		return err
	}
	for _, cmd := range waiting {
		if err := ended(cmd); err != nil {
			return err
		}
	}
	if ready {
		return killed(last)
	}
	return ended(last)
}

func killed(cmd *exec.Cmd) error {
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	if _, isExit := errors.AsType[*exec.ExitError](cmd.Wait()); !isExit {
		return fmt.Errorf("running %q: it wasn't killed: %s", cmd.Args, cmd.Stderr)
	}
	return nil
}
