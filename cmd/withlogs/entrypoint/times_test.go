// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"os"
	"path/filepath"
	"strings"
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
	s := serve(t)
	began := time.Now()
	got := s.run(s.command("--", "sh", "-c", "echo one; sleep 1; echo two >&2; sleep 1; echo three; sleep 1; echo four >&2"))
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
	s := serve(t)
	o, printed := s.failing(), filepath.Join(t.TempDir(), "printed")
	began := time.Now()
	cmd := s.command("-mask-env=TOKEN", "--", "sh", "-c", "printf 'tok'; sleep 2; echo en-of-mine; sleep 2; echo end; sleep 1; : > "+printed)
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
	s := serve(t)
	got := s.run(s.command("--", "sh", "-c", "head -c 600000 /dev/zero; sleep 2; head -c 300000 /dev/zero"))
	require.Zero(t, got.code)
	require.GreaterOrEqual(t, s.came("stdout", 600_000).Sub(s.came("stdout", 599_999)), time.Second)
}
