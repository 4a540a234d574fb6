// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

// The extent of TestASIGTERMAtAnyMomentEndsTheContainer.
const (
	momentsEach = 400
	together    = 8
	longest     = 12 * time.Millisecond // after the start
)

// TestASIGTERMAtAnyMomentEndsTheContainer sends SIGTERM at a random moment around the
// start, the turn, a hook, a pause and the end, in every mode. No run may hang. The
// exit code is that of the signal, unless the command was faster.
func TestASIGTERMAtAnyMomentEndsTheContainer(t *testing.T) {
	hook := []string{"-before-start=true"}
	for name, test := range map[string]struct {
		flags   []string
		command []string
		codes   []int
		turn    bool // also at a random moment
	}{
		"start":                   {command: []string{"sleep", "60"}},
		"start, mode exec":        {flags: []string{"-mode=exec"}, command: []string{"sleep", "60"}},
		"hook":                    {flags: hook, command: []string{"sleep", "60"}},
		"hook, mode exec":         {flags: append([]string{"-mode=exec"}, hook...), command: []string{"sleep", "60"}},
		"hook that takes long":    {flags: []string{"-before-start=sleep", "-before-start-arg=60"}, command: []string{"true"}},
		"pause":                   {flags: []string{"-pause=before-start"}, command: []string{"true"}},
		"pause, mode exec":        {flags: []string{"-pause=before-start", "-mode=exec"}, command: []string{"true"}},
		"pause after a failure":   {flags: []string{"-pause=after-failure"}, command: []string{"false"}, codes: []int{1}},
		"end":                     {command: []string{"sleep", "0.004"}, codes: []int{0}},
		"end, with a status":      {flags: []string{"-timeout=1h"}, command: []string{"sleep", "0.004"}, codes: []int{0}},
		"wait":                    {flags: []string{"-wait-file=/nowhere"}, command: []string{"true"}},
		"turn":                    {command: []string{"sleep", "60"}, turn: true},
		"turn, mode exec":         {flags: []string{"-mode=exec"}, command: []string{"sleep", "60"}, turn: true},
		"turn, with a hook":       {flags: hook, command: []string{"sleep", "60"}, turn: true},
		"turn, held":              {flags: []string{"-hold=5ms"}, command: []string{"sleep", "60"}, turn: true},
		"turn, held and dropped":  {flags: []string{"-hold=1h"}, command: []string{"sleep", "60"}, turn: true},
		"timeout":                 {flags: []string{"-timeout=6ms"}, command: []string{"sleep", "60"}, codes: []int{124}},
		"success, and what comes": {flags: []string{"-success-exit-codes=143"}, command: []string{"sleep", "60"}, codes: []int{0}},
	} {
		t.Run(name, func(t *testing.T) {
			if *tags == "portable" && strings.Contains(name, "mode exec") {
				t.Skip("package os/signal doesn't say when the signals that came were handled")
			}
			dir := t.TempDir()
			var group errgroup.Group
			group.SetLimit(together)
			for i := range extent(momentsEach) {
				group.Go(func() error {
					flags := test.flags
					file := filepath.Join(dir, strconv.Itoa(i))
					if test.turn {
						flags = append([]string{"-wait-file=" + file}, flags...)
						var touching sync.WaitGroup
						defer touching.Wait()
						touching.Go(func() {
							time.Sleep(moment())
							touch(t, file)
						})
					}
					return momentOf(append(append(append([]string{entrypoint}, flags...), "--"), test.command...), append(test.codes, 128+int(syscall.SIGTERM)))
				})
			}
			require.NoError(t, group.Wait())
		})
	}
}

func moment() time.Duration { return rand.N(longest) }

// momentOf runs a command, sends it SIGTERM at a random moment, and returns an error
// for an exit code that is not in the list.
func momentOf(argv []string, codes []int) error {
	cmd := exec.Command(argv[0], argv[1:]...)
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	after := moment()
	time.Sleep(after)
	_ = cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-ended:
	case <-time.After(deadline):
		_ = cmd.Process.Kill()
		return fmt.Errorf("running %q: SIGTERM after %s was lost: %s", argv, after, said.Bytes())
	}
	if got := code(cmd.ProcessState); !slices.Contains(codes, got) {
		return fmt.Errorf("running %q: SIGTERM after %s: exit code %d, not one of %v: %s", argv, after, got, codes, said.Bytes())
	}
	return nil
}
