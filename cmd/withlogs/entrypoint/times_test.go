// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// requireBetween compares times in milliseconds, the resolution of marks.
func requireBetween(t *testing.T, from, came, to time.Time) {
	t.Helper()
	require.False(t, came.Before(from.Truncate(time.Millisecond)), "%v is before %v", came, from)
	require.False(t, came.After(to), "%v is after %v", came, to)
}

func TestLinesOfBothStreamsHaveTheTimeOfPrinting(t *testing.T) {
	t.Parallel()
	s := serve(t)
	began := time.Now()
	got := s.run(s.command("--", "sh", "-c", "echo one; sleep 4; echo two >&2; sleep 4; echo three; sleep 4; echo four >&2"))
	require.Zero(t, got.code)
	last := began
	for _, line := range []struct {
		stream string
		at     int64
	}{{"stdout", 0}, {"stderr", 0}, {"stdout", 4}, {"stderr", 4}} {
		came := s.came(line.stream, line.at)
		requireBetween(t, last, came, time.Now())
		last = came.Add(500 * time.Millisecond)
	}
}

func TestBytesThatWereHeldBackOrSentLateHaveTheTimeOfPrinting(t *testing.T) {
	t.Parallel()
	s := serve(t)
	o, printed := s.failing(), filepath.Join(t.TempDir(), "printed")
	began := time.Now()
	cmd := s.command("-mask-env=TOKEN", "--", "sh", "-c", "printf 'tok'; sleep 5; echo en-of-mine; sleep 5; echo end; sleep 4; : > "+printed)
	cmd.Env = append(os.Environ(), "TOKEN=token-of-mine")
	wait := s.start(cmd)
	waitForFile(t, printed)
	sent := time.Now()
	o.over.Store(true)
	require.Zero(t, wait().code)
	require.Equal(t, strings.Repeat("*", 13)+"\nend\n", string(s.stream("stdout").data))
	first, second, third := s.came("stdout", 2), s.came("stdout", 3), s.came("stdout", 14)
	requireBetween(t, began, first, sent)
	requireBetween(t, first.Add(time.Second), second, sent)
	requireBetween(t, second.Add(time.Second), third, sent)
}

func TestBytesWithinALongStreamHaveTheTimeOfPrinting(t *testing.T) {
	t.Parallel()
	s := serve(t)
	got := s.run(s.command("--", "sh", "-c", "head -c 600000 /dev/zero; sleep 5; head -c 300000 /dev/zero"))
	require.Zero(t, got.code)
	require.GreaterOrEqual(t, s.came("stdout", 600_000).Sub(s.came("stdout", 599_999)), time.Second)
}

// A supervisor that has to wait for the CPU finds bytes in both pipes.
func TestLinesThatAreReadLateKeepTheirOrder(t *testing.T) {
	for name, test := range map[string]struct{ script, first, second string }{
		"stdout first": {"echo out; sleep 0.02; echo err >&2", "stdout", "stderr"},
		"stderr first": {"echo err >&2; sleep 0.02; echo out", "stderr", "stdout"},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t)
			directory := t.TempDir()
			ready, told, printed := filepath.Join(directory, "ready"), filepath.Join(directory, "told"), filepath.Join(directory, "printed")
			cmd := s.command("--", "sh", "-c", ": > "+ready+"; "+waiting(told)+"; "+test.script+"; : > "+printed+"; sleep 0.2")
			wait := s.start(cmd)
			waitForFile(t, ready)
			require.NoError(t, cmd.Process.Signal(syscall.SIGSTOP))
			letGoOn(t, told)
			waitForFile(t, printed)
			sent := time.Now()
			require.NoError(t, cmd.Process.Signal(syscall.SIGCONT))
			require.Zero(t, wait().code)
			require.True(t, s.came(test.first, 0).Before(s.came(test.second, 0)))
			requireBetween(t, s.came(test.first, 0), s.came(test.second, 0), sent)
		})
	}
}
