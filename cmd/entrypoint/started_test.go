// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// waitingFor is the list of unmet dependencies that "entrypoint status" prints.
type waitingFor struct {
	Phase        string
	WaitingSince time.Time
	WaitingFor   []struct{ Container, Condition, Seen string }
}

// TestTheStatusNamesTheUnmetDependencies and follows their phases.
func TestTheStatusNamesTheUnmetDependencies(t *testing.T) {
	t.Parallel()
	dir, cache := orderDir(t), t.TempDir()+"/cache"
	began := time.Now()
	p, control := container(t, "-depends-on=ready:"+dir, "-depends-on=completed:"+cache, never(cache), "--", "sleep", "60")
	seen := func(t require.TestingT) (list []string) {
		var s waitingFor
		got := control("status")
		require.Zero(t, got.Code, got.Stderr)
		require.NoError(t, json.Unmarshal([]byte(got.Stdout), &s), got.Stdout)
		if s.Phase == "Waiting" { // at first, before it knows for what
			require.WithinRange(t, s.WaitingSince, began, time.Now())
		} else {
			require.Zero(t, s.WaitingSince)
		}
		for _, w := range s.WaitingFor {
			list = append(list, w.Container+" "+w.Condition+": "+w.Seen)
		}
		return list
	}
	becomes := func(want ...string) {
		t.Helper()
		require.EventuallyWithT(t, func(c *assert.CollectT) { assert.Equal(c, want, seen(c)) }, deadline, time.Millisecond)
	}
	becomes("db ready: the container has not started yet", "cache completed: the container has not started yet")
	ready := t.TempDir() + "/ready"
	db(t, dir, "-ready-file="+ready, "-ready-period=1ms", "--", "sleep", "60")
	unready := "the command has started: its check " + ready + " fails: no such file or directory"
	becomes("db ready: "+unready[:min(len(unready), 120)], "cache completed: the container has not started yet") // a status has no more
	create(t, ready)
	becomes("cache completed: the container has not started yet")
	require.NoError(t, os.Mkdir(cache, 0o777))
	require.Zero(t, db(t, cache, "--", "true").end())
	require.Eventually(t, func() bool { return status(t, control).Phase == "Running" }, deadline, time.Millisecond)
	require.Empty(t, seen(t))
	p.kill(p.Process.Pid)
}

const notStartedYet = "the command has not been started yet\n"

// TestStartedReportsWhetherTheCommandHasStarted to a probe, by its exit code. The
// kubelet puts the output into an event of the pod.
func TestStartedReportsWhetherTheCommandHasStarted(t *testing.T) {
	t.Parallel()
	hook := []string{"-before-start=sh", "-before-start-arg=-c"}
	for name, test := range map[string]struct {
		before []string // words before the supervisor
		flags  func(dir, file string) []string
		says   string
	}{
		"after another container": {
			flags: func(dir, _ string) []string { return []string{"-depends-on=started:" + dir} },
			says:  "waiting for db:started (the container has not started yet)",
		},
		"in its place": {
			flags: func(dir, _ string) []string { return []string{"-depends-on=started:" + dir, "-mode=exec"} },
			says:  "waiting for db:started (the container has not started yet)",
		},
		"after a hook": {
			flags: func(_, file string) []string {
				return append(hook, "-before-start-arg=until [ -e "+file+" ]; do sleep 0.01; done")
			},
			says: notStartedYet,
		},
		"where nothing can be published": {
			before: []string{child, "refuse", "memfd_create"},
			flags:  func(dir, _ string) []string { return []string{"-depends-on=started:" + dir} },
			says:   notStartedYet,
		},
		"after a file": {
			flags: func(_, file string) []string { return []string{"-wait-file=" + file} },
			says:  notStartedYet,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, file := orderDir(t), t.TempDir()+"/go"
			p, control := containerOf(t, test.before, append(test.flags(dir, file), "--", "sh", "-c", "echo started; exec sleep 60")...)
			for range 5 {
				var probe result
				require.Eventually(t, func() bool { probe = control("started"); return strings.HasPrefix(probe.Stdout, test.says) }, deadline, time.Millisecond, test.says)
				require.Equal(t, 1, probe.Code)
				require.Empty(t, probe.Stderr)
			}
			create(t, file)
			db(t, dir, "--", "sleep", "60")
			p.expect("started")
			require.Equal(t, result{Status: "exit status 0"}, control("started"))
			p.kill(p.Process.Pid)
		})
	}
}
