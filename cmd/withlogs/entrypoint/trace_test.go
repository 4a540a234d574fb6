// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/pkg/loglabels"
	"github.com/entrypointer/entrypointer/pkg/traceids"
)

// spanAbove is a span that Tekton may have made.
const spanAbove = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// TestTheLogServiceKnowsTheSpanOfARun by its events, the first of them as well, because a
// command may never be started, and by the labels of its streams.
func TestTheLogServiceKnowsTheSpanOfARun(t *testing.T) {
	t.Parallel()
	const uid = "0af76519-16cd-43dd-8448-eb211c80319c"
	for name, test := range map[string]struct {
		flags []string
		above string
		told  []string // the events that have the span
		code  int
	}{
		"below another":                 {[]string{"-trace=" + spanAbove, "--"}, "b7ad6b7169203331", []string{"started"}, 0},
		"at the top":                    {[]string{"-trace=" + uid, "--"}, "", []string{"started"}, 0},
		"with a hook":                   {[]string{"-trace=" + spanAbove, "-before-start=true", "--"}, "b7ad6b7169203331", []string{"hookStarted", "started"}, 0},
		"with a hook that fails":        {[]string{"-trace=" + spanAbove, "-before-start=false", "--"}, "b7ad6b7169203331", []string{"hookStarted"}, 1},
		"with a turn that never comes":  {[]string{"-trace=" + spanAbove, "-wait-file=/missing", "-wait-timeout=1ms", "--"}, "b7ad6b7169203331", []string{"waiting", "started"}, 0},
		"of a command that isn't there": {[]string{"-trace=" + spanAbove, "--", "/missing"}, "b7ad6b7169203331", []string{"finished"}, 127},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t)
			got := s.run(s.command(append(test.flags, "sh", "-c", "echo $TRACEPARENT")...))
			require.Equal(t, test.code, got.code, got.stderr)
			var told []string
			var span any
			for _, e := range s.events() {
				if _, has := e["traceparent"]; !has {
					require.NotContains(t, e, "parentSpanId")
					continue
				}
				told = append(told, e["event"].(string))
				if span == nil {
					span = e["traceparent"]
				}
				require.Equal(t, span, e["traceparent"])
				if test.above == "" {
					require.NotContains(t, e, "parentSpanId")
				} else {
					require.Equal(t, test.above, e["parentSpanId"])
				}
			}
			require.Equal(t, test.told, told)
			parent, ok := traceids.Parse(span.(string))
			require.True(t, ok)
			require.Equal(t, "0af7651916cd43dd8448eb211c80319c", parent.Trace.String())
			require.NotEqual(t, test.above, parent.Span.String())
			streams := []string{"events"}
			if test.code == 0 {
				require.Equal(t, span.(string)+"\n", string(s.stream("stdout").data))
				streams = append(streams, "stdout")
			}
			for _, name := range streams {
				source, err := s.store.Source(t.Context(), s.id(name))
				require.NoError(t, err)
				require.Equal(t, span, source.Labels[loglabels.TraceParent])
			}
		})
	}
}

func TestTheSpanTakesThePlaceOfTheOneAboveInTheLabels(t *testing.T) {
	t.Parallel()
	s := serve(t)
	require.Zero(t, s.run(s.command("-logs-label="+loglabels.TraceParent+"="+spanAbove, "-trace="+spanAbove, "--", "true")).code)
	source, err := s.store.Source(t.Context(), s.id("events"))
	require.NoError(t, err)
	require.Equal(t, s.events()[0]["traceparent"], source.Labels[loglabels.TraceParent])
}

// TestTheLogServiceHearsOfNoSpanThatTheCommandDoesntGet because its author has set another.
func TestTheLogServiceHearsOfNoSpanThatTheCommandDoesntGet(t *testing.T) {
	t.Parallel()
	const theirs = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	for name, test := range map[string]struct {
		flags, env []string
	}{
		"the container":  {nil, []string{"TRACEPARENT=" + theirs}},
		"the option env": {[]string{"-env=TRACEPARENT=" + theirs}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t)
			cmd := s.command(append(test.flags, "-trace="+spanAbove, "--", "sh", "-c", "echo $TRACEPARENT")...)
			cmd.Env = append(cmd.Environ(), test.env...)
			require.Zero(t, s.run(cmd).code)
			require.Equal(t, theirs+"\n", string(s.stream("stdout").data))
			for _, e := range s.events() {
				require.NotContains(t, e, "traceparent")
			}
			source, err := s.store.Source(t.Context(), s.id("events"))
			require.NoError(t, err)
			require.NotContains(t, source.Labels, loglabels.TraceParent)
		})
	}
}

func TestWithoutATraceTheLogServiceHearsOfNone(t *testing.T) {
	t.Parallel()
	s := serve(t)
	cmd := s.command("-trace=env:UID_OF_POD", "--", "sh", "-c", "echo ${TRACEPARENT-none}, ${UID_OF_POD-none}")
	cmd.Env = append(cmd.Environ(), "UID_OF_POD=$(UID_OF_POD)")
	require.Zero(t, s.run(cmd).code)
	require.Equal(t, "none, none\n", string(s.stream("stdout").data))
	for _, e := range s.events() {
		require.NotContains(t, e, "traceparent")
	}
	source, err := s.store.Source(t.Context(), s.id("events"))
	require.NoError(t, err)
	require.NotContains(t, source.Labels, loglabels.TraceParent)
}
