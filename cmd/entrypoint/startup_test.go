// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestACommandIsStartedWhenItsStartupProbeSucceeds(t *testing.T) {
	t.Parallel()
	ready := t.TempDir() + "/ready"
	p, control := container(t, "-startup-exec=test", "-startup-exec=-e", "-startup-exec="+ready, "-startup-period=10ms", "-startup-failures=100000", "--",
		"sh", "-c", "echo up; exec sleep 60")
	p.expect("up")
	for range 5 {
		require.Equal(t, result{"exit status 1", 1, "the command runs, and its startupProbe hasn't succeeded yet\n", ""}, control("started"))
	}
	require.Contains(t, control("status").Stdout, `"startupProbe":"pending"`)
	create(t, ready)
	require.Eventually(t, func() bool { return control("started").Code == 0 }, deadline, time.Millisecond)
	require.Contains(t, control("status").Stdout, `"startupProbe":"succeeded"`)
	p.kill(p.Process.Pid)
}

func TestAStartupProbeThatKeepsFailingEndsTheCommand(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		command string
		want    int
	}{
		"by SIGTERM":                   {"echo up; exec sleep 60", 143},
		"with an exit code of its own": {"trap 'exit 7' TERM; echo up; sleep 60 >/dev/null 2>&1 & wait", 7},
		"by SIGKILL, if it goes on":    {"trap '' TERM; echo up; while :; do sleep 1; done", 137},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := begin(t, []string{entrypoint, "-startup-exec=false", "-startup-delay=50ms", "-startup-period=50ms", "-startup-failures=3", "-startup-grace=300ms", "--", "sh", "-c", test.command})
			p.expect("up")
			require.Equal(t, test.want, p.end())
			require.Contains(t, strings.Join(p.kill(0), "\n"), "the startupProbe has failed 3 times, the last time with: it exited with 1")
		})
	}
}

func TestACommandThatEndsBeforeItsStartupProbe(t *testing.T) {
	t.Parallel()
	p := begin(t, []string{entrypoint, "-startup-tcp=127.0.0.1:1", "-startup-period=1h", "--", "sh", "-c", "exit 3"})
	require.Equal(t, 3, p.end())
	require.Empty(t, p.kill(0))
}

func TestFlagsOfAStartupProbeThatContradictEachOther(t *testing.T) {
	for _, test := range []struct {
		flags []string
		says  string
	}{
		{[]string{"-startup-exec=true", "-startup-tcp=:1"}, "more than one startupProbe"},
		{[]string{"-startup-http-header=A: b"}, "no request has this header"},
		{[]string{"-startup-failures=0"}, "not a count"},
		{[]string{"-startup-tcp=nobody"}, "not an endpoint"},
		{[]string{"-mode=exec", "-startup-exec=true"}, "not together with -startup-..."},
	} {
		p := begin(t, append(append([]string{entrypoint}, test.flags...), "--", "true"))
		require.Equal(t, 125, p.end(), test.flags)
		require.Contains(t, strings.Join(p.kill(0), "\n"), test.says)
	}
}
