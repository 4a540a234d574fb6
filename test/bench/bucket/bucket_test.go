// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// It measures streams that are read as they were sent, or fails.
func TestTheLogServiceIsMeasuredOnAnS3Server(t *testing.T) {
	programs := t.TempDir()
	for name, source := range map[string]source{"logs": service, "versitygw": versitygw} {
		require.NoError(t, source.build(t.Context(), filepath.Join(programs, name)))
	}
	p := brief
	chatty, err := measureLapse(t.Context(), programs, p)
	require.NoError(t, err)
	bulk, err := measureBulk(t.Context(), programs, p)
	require.NoError(t, err)
	for name, l := range map[string]life{"chatty": chatty[0], "bulk": bulk[0]} {
		require.Positive(t, l.created.puts, name)
		require.Positive(t, l.kept.puts, name)
		require.Positive(t, l.kept.lists, name)
		require.Positive(t, l.kept.gets, name)
		require.Positive(t, l.kept.deletes, "%s: copies are deleted after they were joined", name)
		require.Positive(t, l.stored, name)
		require.Less(t, l.stored, l.sent, name)
	}
	require.Equal(t, p.lapse.streams*int(p.lapse.lasts.Seconds()*float64(p.lapse.speed)+1), chatty[0].lines, "a line a second by the faster clock")
	require.GreaterOrEqual(t, bulk[0].sent, p.bulk.size*int64(p.bulk.streams))
	require.GreaterOrEqual(t, chatty[0].expired.deletes, float64(p.lapse.streams))
	require.Contains(t, renderBulk(p, bulk), "| **log service**, 2 replicas |")
	require.Contains(t, renderChatty(p, chatty), "Creating a stream in the log service takes ")

	loads, err := measureLoads(t.Context(), programs, p, func(loads []load) error {
		require.Contains(t, renderLoads(p, loads), "| 200, a line in 1s | **log service**, 2 replicas |")
		return nil
	})
	require.NoError(t, err)
	require.Positive(t, loads[0].memory)
	require.Positive(t, loads[0].cpu)
}

func TestRequestsAreCountedAsS3BillsThem(t *testing.T) {
	t.Parallel()
	for request, want := range map[string]tally{
		"PUT /logs/key":                               {puts: 1},
		"POST /logs/key?uploads":                      {puts: 1},
		"POST /logs?delete=":                          {deletes: 1},
		"DELETE /logs/key":                            {deletes: 1},
		"GET /logs/key?x-id=GetObject":                {gets: 1},
		"HEAD /logs/key":                              {gets: 1},
		"GET /logs?list-type=2&prefix=streams%2F":     {lists: 1},
		"GET /logs?delimiter=%2F&prefix=index%2F&x=y": {lists: 1},
	} {
		method, target, _ := strings.Cut(request, " ")
		p := &proxy{}
		p.count(httptest.NewRequestWithContext(t.Context(), method, target, http.NoBody))
		require.Equal(t, want, p.calls(), request)
	}
}

func TestAPriceIsThatOfItsCallsAndBytes(t *testing.T) {
	t.Parallel()
	l := life{kept: tally{puts: 1000, lists: 100, gets: 500}, lines: 3600, sent: 500e6, stored: 100e6}
	gb := l.ofGB()
	require.InDelta(t, 2*(1000*5e-6+100*5e-6+500*0.4e-6), gb.dollarsOfCalls, 1e-9)
	require.InDelta(t, 0.2*0.023, gb.dollarsOfBytes, 1e-9)
	require.InDelta(t, 720*1000, l.ofStreamMonth().calls.puts, 1e-6, "an hour of 720")
	l.parts = 60 // rather than 120: each was a minute late
	require.InDelta(t, 2*720*1000, l.ofStreamMonth().calls.puts, 1e-6)
	require.InDelta(t, 72, l.ofStreamMonth().stored, 1e-6)
}

func TestAProgramThatDoesNotStartIsAnError(t *testing.T) {
	_, err := startCluster(t.Context(), t.TempDir(), 0, 1, nil)
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = startLoki(t.Context(), t.TempDir(), 0)
	require.ErrorIs(t, err, fs.ErrNotExist)
}
