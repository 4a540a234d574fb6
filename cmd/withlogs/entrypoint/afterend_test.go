// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A streamStatus is the status of a stream.
type streamStatus struct {
	Printed, Stored, Dropped, AfterEnd int64
	Complete, HeldOpen                 bool
}

func lastStatus(t *testing.T, file string) (all struct {
	Message string
	Logs    struct{ Stdout, Stderr streamStatus }
},
) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &all))
	return all
}

// slow has the service answer after a while.
func slow(pause time.Duration) func(http.ResponseWriter, *http.Request) bool {
	return func(http.ResponseWriter, *http.Request) bool {
		time.Sleep(pause)
		return false
	}
}

func TestOutputAfterTheEndIsCounted(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.meet(slow(300 * time.Millisecond))
	status := filepath.Join(t.TempDir(), "status")
	got := s.run(s.command("-status-file="+status, "--", "sh", "-c", `echo done; (setsid sh -c 'while sleep 0.05; do echo late; done' 2>/dev/null &)`))
	require.Zero(t, got.code)
	have := lastStatus(t, status)
	out := have.Logs.Stdout
	require.True(t, out.Complete)
	require.True(t, out.HeldOpen)
	require.Positive(t, out.AfterEnd)
	require.Equal(t, int64(len(s.stream("stdout").data)), out.Printed)
	require.Zero(t, out.AfterEnd%int64(len("late\n")))
	require.Regexp(t, `^entrypointer: sending logs: the log service lacks [0-9]+ bytes that other processes have printed to stdout since the command ended\n$`, got.stderr)
	require.Contains(t, have.Message, "since the command ended")
	require.Equal(t, streamStatus{Complete: true}, have.Logs.Stderr)
}

func TestAStreamThatADescendantHoldsOpenSaysSo(t *testing.T) {
	t.Parallel()
	s := serve(t)
	status := filepath.Join(t.TempDir(), "status")
	// The subshell gives up stderr before it starts the process that stays.
	got := s.run(s.command("-status-file="+status, "--", "sh", "-c", "(exec 2>/dev/null; "+s.staying()+") ; echo done"))
	require.Zero(t, got.code)
	require.Less(t, got.took, patience)
	require.Empty(t, got.stderr)
	require.Equal(t, streamStatus{Printed: 5, Stored: 5, Complete: true, HeldOpen: true}, lastStatus(t, status).Logs.Stdout)
	require.Equal(t, streamStatus{Complete: true}, lastStatus(t, status).Logs.Stderr)
	events := s.events()
	finished := events[len(events)-1]
	require.Equal(t, map[string]any{"mode": "stream", "stdout": map[string]any{"printed": 5.0, "heldOpen": true}, "stderr": map[string]any{"printed": 0.0}}, finished["logs"])
}

// The status can't be written any more, and the supervisor says so.
func TestALineOfTheSupervisorDuringTheDeliveryDelaysNothing(t *testing.T) {
	t.Parallel()
	s := serve(t)
	first := make(chan struct{}, 1)
	first <- struct{}{}
	s.meet(func(w http.ResponseWriter, _ *http.Request) bool {
		select {
		case <-first:
			time.Sleep(500 * time.Millisecond)
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		default:
			return false
		}
	})
	directory := filepath.Join(t.TempDir(), "status")
	require.NoError(t, os.Mkdir(directory, 0o755))
	got := s.run(s.command("-status-file="+filepath.Join(directory, "status"), "--", "sh", "-c", "echo out; echo err >&2; rm -r "+directory))
	require.Zero(t, got.code)
	require.Equal(t, 1, strings.Count(got.stderr, "\n"), got.stderr)
	require.Contains(t, got.stderr, "writing the status to")
	require.Less(t, got.took, patience)
	require.Equal(t, stream{data: []byte("out\n"), complete: true}, s.stream("stdout"))
	require.Equal(t, stream{data: []byte("err\n"), complete: true}, s.stream("stderr"))
}
