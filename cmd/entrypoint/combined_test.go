// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// The tests of this file combine several options of the order.

// endsSidecars are the flags of a container that ends a sidecar, and so publishes its
// own end last.
var endsSidecars = []string{"-end-sidecar=http://127.0.0.1:1/", "-end-sidecars-on=0-255"}

// goesOn are the flags with which that container keeps running until it is stopped.
var goesOn = append(endsSidecars, "-pause=after-failure")

func TestAWriterThatHasFailedAndGoesOnFailsItsReader(t *testing.T) {
	t.Parallel()
	writer, reader := writerAndReader(t)
	a := writer.lives(append(slices.Clip(goesOn), writer.to(reader), "--", "sh", "-c", "echo half; until test -e "+writer.dir+"/go; do sleep 0.01; done; exit 3")...)
	b := reader.lives(reader.from(writer), "--", "cat")
	b.expect("half")
	create(t, writer.dir+"/go")
	require.Equal(t, 123, b.end())
	hasSaid(t, writer.dir, "finishing")
	a.kill(a.Process.Pid)
}

func TestAContainerWhoseCommandHasEndedIsNotReady(t *testing.T) {
	t.Parallel()
	dir := orderDir(t)
	d := db(t, dir, append(slices.Clip(goesOn), readyAtOnce, "--", "sh", "-c", "exit 1")...)
	hasSaid(t, dir, "finishing")
	p := web(t, dir, "-depends-on=ready")
	waits(t, p)
	d.kill(d.Process.Pid)
	p.kill(p.Process.Pid)
}

func TestATimeoutIsReportedEvenIfStopWhenIsMetMeanwhile(t *testing.T) {
	t.Parallel()
	dir, gone := orderDir(t), t.TempDir()+"/gone"
	work := db(t, dir, "--", "sh", "-c", "until test -e "+gone+"; do sleep 0.01; done")
	p := begin(t, []string{
		entrypoint, "-stop-when=completed:" + dir, "-timeout=10s", "-grace-period=4s", "--",
		"sh", "-c", "trap 'touch " + gone + "' TERM; while :; do sleep 0.01; done",
	})
	require.Equal(t, 124, p.end())
	require.NotContains(t, strings.Join(p.kill(0), "\n"), "the command was not started")
	require.Zero(t, work.end())
}

func TestAStartupProbeEndsWithTheStopSignal(t *testing.T) {
	t.Parallel()
	p := begin(t, []string{
		entrypoint, "-startup-exec=false", "-startup-period=1s", "-startup-failures=10", "-startup-grace=100ms", "--",
		"sh", "-c", "trap 'sleep 13; exit 7' TERM; echo up; while :; do sleep 0.01; done",
	})
	p.expect("up")
	p.send(syscall.SIGTERM)
	require.Equal(t, 7, p.end())
}

// TestATimeoutOfACommandThatIsBeingStoppedSendsNoSecondSignal, because many programs
// abort their orderly shutdown at one. The grace period before SIGKILL begins.
func TestATimeoutOfACommandThatIsBeingStoppedSendsNoSecondSignal(t *testing.T) {
	t.Parallel()
	const traps = "trap 'echo stopped' TERM QUIT; " + waitForSignals
	for name, test := range map[string]struct {
		sig   syscall.Signal
		flags []string
		says  string
	}{
		"by SIGTERM":                       {syscall.SIGTERM, nil, "sent SIGTERM, it was killed by SIGKILL"},
		"by the stop signal of its image":  {syscall.SIGQUIT, []string{"-order-dir=" + orderDir(t), "-stop-signal=QUIT"}, "sent SIGQUIT, it was killed by SIGKILL"},
		"by SIGTERM, with another one":     {syscall.SIGTERM, []string{"-order-dir=" + orderDir(t), "-stop-signal=QUIT"}, "sent SIGTERM, it was killed by SIGKILL"},
		"after the signal was held back":   {syscall.SIGTERM, []string{"-stop-after=/missing", "-stop-share=40s"}, "sent SIGTERM, it was killed by SIGKILL"},
		"after another one was held back":  {syscall.SIGQUIT, []string{"-stop-after=/missing", "-stop-share=40s", "-stop-signal=QUIT"}, "sent SIGQUIT, it was killed by SIGKILL"},
		"by a signal that isn't held back": {syscall.SIGTERM, []string{"-stop-after=/missing", "-stop-share=40s", "-stop-signal=QUIT"}, "sent SIGTERM, it was killed by SIGKILL"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := begin(t, slices.Concat([]string{entrypoint, "-timeout=10s", "-grace-period=100ms"}, test.flags, []string{"--", "sh", "-c", traps}), listening(t))
			p.expect("ready")
			p.send(test.sig)
			p.expect("stopped")
			require.Contains(t, p.line(), test.says)
			require.Equal(t, 124, p.end())
			require.Empty(t, p.kill(0))
		})
	}
}

// TestATimeoutSendsTheStopSignalThatIsHeldBack, and no other.
func TestATimeoutSendsTheStopSignalThatIsHeldBack(t *testing.T) {
	t.Parallel()
	web := orderDir(t)
	dependent(t, web, "echo ready; exec sleep 60")
	p := begin(t, []string{entrypoint, "-timeout=10s", "-grace-period=4s", "-stop-after=" + web, "-stop-share=60s", "-stop-together", "-stop-signal=QUIT", "--", "sh", "-c", "trap 'echo term' TERM; trap 'echo quit' QUIT; " + waitForSignals}, listening(t))
	p.expect("ready")
	p.send(syscall.SIGQUIT)
	p.expect("quit")
	require.Contains(t, p.line(), "sent SIGQUIT, it was killed by SIGKILL")
	require.Equal(t, 124, p.end())
	require.Empty(t, p.kill(0))
}

func TestACommandThatTimesOutWhileItsStopSignalIsHeldBackGetsOneSignal(t *testing.T) {
	t.Parallel()
	db, web := orderDir(t), orderDir(t)
	other := dependent(t, web, stopped("TERM", "sleep 2; exit 0"))
	p := stopsAfter(t, db, web, stopped("TERM", "sleep 4; exit 0"), "-stop-share=60s", "-timeout=1s", "-grace-period=20s")
	p.send(syscall.SIGTERM)
	other.send(syscall.SIGTERM)
	require.Equal(t, 124, p.end())
	require.Equal(t, 1, strings.Count(strings.Join(p.kill(0), "\n")+"\n", "stopped\n"))
	other.end()
}
