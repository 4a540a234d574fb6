// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The speed of a process depends on the machine. So tests and processes wait for each other
// by files.

// waiting returns a shell command that waits until the test creates a file.
func waiting(file string) (command string) { return "until [ -e " + file + " ]; do sleep 0.05; done" }

func letGoOn(t *testing.T, file string) {
	t.Helper()
	require.NoError(t, os.WriteFile(file, nil, 0o600))
}

func waitForFile(t *testing.T, file string) {
	t.Helper()
	require.Eventually(t, func() bool {
		_, err := os.Stat(file)
		return err == nil
	}, deadline, 20*time.Millisecond)
}

// reported is the content of the file of -status-file.
type reported struct {
	Phase string
	Logs  struct{ Failure string }
}

func waitForStatus(t *testing.T, file string, asWanted func(reported) bool) {
	t.Helper()
	require.Eventually(t, func() bool {
		var have reported
		text, err := os.ReadFile(file)
		return err == nil && json.Unmarshal(text, &have) == nil && asWanted(have)
	}, deadline, 20*time.Millisecond)
}

func waitForPhase(t *testing.T, file, phase string) {
	t.Helper()
	waitForStatus(t, file, func(have reported) bool { return have.Phase == phase })
}

// waitForFailure waits until the status says why nothing is sent.
func waitForFailure(t *testing.T, file, says string) {
	t.Helper()
	waitForStatus(t, file, func(have reported) bool { return strings.Contains(have.Logs.Failure, says) })
}

// fails runs a command that prints "out", and exits with code 3 once the status has a
// failure to send. The duration counts from then on. last is the last status.
func (s *service) fails(says string, flags ...string) (got result, last string) {
	s.t.Helper()
	directory := s.t.TempDir()
	file, known := filepath.Join(directory, "status"), filepath.Join(directory, "known")
	wait := s.start(s.command(append(flags, "-status-file="+file, "--", "sh", "-c", "echo out; "+waiting(known)+"; exit 3")...))
	waitForFailure(s.t, file, says)
	began := time.Now()
	letGoOn(s.t, known)
	got = wait()
	got.took = time.Since(began)
	text, err := os.ReadFile(file)
	require.NoError(s.t, err)
	return got, string(text)
}

// waitFor waits until the stored stream begins with a text.
func (s *service) waitFor(name, text string) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		return s.id(name) != "" && strings.HasPrefix(string(s.stream(name).data), text)
	}, deadline, 20*time.Millisecond)
}
