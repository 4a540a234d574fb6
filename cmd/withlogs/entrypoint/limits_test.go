// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/logs/keeper"
)

// setLimits sets the limits of all namespaces.
func (s *service) setLimits(limits keeper.NamespaceLimits) *keeper.Keeper {
	k := keeper.New(s.store, nil, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	k.Use(&keeper.Limits{Defaults: limits})
	s.mu.Lock() // which each request takes
	defer s.mu.Unlock()
	s.api.Limit(k)
	return k
}

func TestOutputBeyondTheLimitOfStreamsIsMarked(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.setLimits(keeper.NamespaceLimits{Streams: 10}).RecordUsage("tenant", "", 0, 10)
	status := filepath.Join(t.TempDir(), "status")
	got := s.run(s.command("-status-file="+status, "--", "sh", "-c", "echo out; echo err >&2; sleep 1; echo out; exit 7"))
	require.Equal(t, 7, got.code)
	require.Empty(t, got.stderr)
	require.Equal(t, stream{data: make([]byte, 8), dropped: 8, complete: true}, s.stream("stdout"))
	require.Equal(t, stream{data: make([]byte, 4), dropped: 4, complete: true}, s.stream("stderr"))
	require.True(t, s.stream("events").complete)
	have, err := os.ReadFile(status)
	require.NoError(t, err)
	require.Contains(t, string(have), `"stdout":{"printed":8,"stored":0,"dropped":8,"complete":true}`)
	require.Contains(t, string(have), "the namespace has reached its limit of streams of logs: wait until older logs are deleted, or have the operator raise streams in the ConfigMap config-logs")
}

func TestAContainerWhoseMarkersAreRefusedReportsWhyAndBacksOff(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.setLimits(keeper.NamespaceLimits{Streams: 10}).RecordUsage("tenant", "", 0, 20)
	var requests atomic.Int64
	s.meet(func(http.ResponseWriter, *http.Request) bool {
		requests.Add(1)
		return false
	})
	status := filepath.Join(t.TempDir(), "status")
	got := s.run(s.command("-logs-flush=6s", "-status-file="+status, "--", "sh", "-c", "echo out; echo err >&2; exit 7"))
	require.Equal(t, 7, got.code)
	for _, name := range []string{"stdout", "stderr", "events"} {
		require.Empty(t, s.id(name))
	}
	const why = "the namespace has reached its limit of streams of logs: wait until older logs are deleted, or have the operator raise streams in the ConfigMap config-logs of the log service"
	require.Contains(t, got.stderr, why)
	have, err := os.ReadFile(status)
	require.NoError(t, err)
	require.Contains(t, string(have), why)
	require.LessOrEqual(t, requests.Load(), int64(3*6), "each stream a few times, less and less often")
}

func TestARefusedStreamIsCreatedOnceThereIsRoom(t *testing.T) {
	t.Parallel()
	s := serve(t)
	k := s.setLimits(keeper.NamespaceLimits{Streams: 10})
	k.RecordUsage("tenant", "", 0, 20)
	status := filepath.Join(t.TempDir(), "status")
	wait := s.start(s.command("-status-file="+status, "--", "sh", "-c", "echo out; "+waiting(status+".told")+"; echo out"))
	waitForFailure(t, status, "limit of streams")
	k.RecordUsage("tenant", "", 0, -15)
	letGoOn(t, status+".told")
	require.Zero(t, wait().code)
	require.Equal(t, stream{data: []byte("out\nout\n"), complete: true}, s.stream("stdout"))
	require.Contains(t, s.kinds(), "sendingFailed")
}
