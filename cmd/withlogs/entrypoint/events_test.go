// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// An event is an event of a container.
type event map[string]any

func (s *service) events() (all []event) {
	s.t.Helper()
	for text := range bytes.Lines(s.stream("events").data) {
		var e event
		require.NoError(s.t, json.Unmarshal(text, &e), "%q", text)
		all = append(all, e)
	}
	return all
}

func (s *service) kinds() (all []string) {
	s.t.Helper()
	for _, e := range s.events() {
		all = append(all, e["event"].(string))
	}
	return all
}

// documented returns the events in the table of docs/reference.md, with their fields.
func documented(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("../../../docs/reference.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(text), "\n## Events\n")
	require.True(t, found)
	section, _, found = strings.Cut(section, "\n## From within the container\n")
	require.True(t, found)
	rows := regexp.MustCompile("(?m)^\\| `(\\w+)` \\|.*\\|([^|]*)\\|$").FindAllStringSubmatch(section, -1)
	kinds := map[string][]string{}
	for _, row := range rows {
		if row[1] == "event" {
			continue
		}
		fields := []string{"time", "event"}
		for _, name := range regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(row[2], -1) {
			fields = append(fields, name[1])
		}
		kinds[row[1]] = fields
	}
	require.NotEmpty(t, kinds)
	return kinds
}

// noneHere is an event that takes a cgroup: the tests of memory cause it.
const noneHere = "oomKilled"

//nolint:tparallel // the subtests share what they have seen
func TestEachEventOccursAsDocumented(t *testing.T) {
	t.Parallel()
	table := documented(t)
	seen := map[string]bool{noneHere: true}
	look := func(t *testing.T, s *service, want ...string) []event {
		t.Helper()
		all := s.events()
		require.Equal(t, want, s.kinds())
		last := time.Time{}
		for _, e := range all {
			kind := e["event"].(string)
			seen[kind] = true
			for name := range e {
				require.Contains(t, table[kind], name, kind)
			}
			at, err := time.Parse(time.RFC3339Nano, e["time"].(string))
			require.NoError(t, err)
			require.False(t, at.Before(last))
			last = at
		}
		require.True(t, s.stream("events").complete)
		return all
	}

	t.Run("a step that waits, with a hook and a pause, and is told to end", func(t *testing.T) {
		s := serve(t)
		directory := t.TempDir()
		file, status := filepath.Join(directory, "turn"), filepath.Join(directory, "status")
		cmd := s.command("-status-file="+status, "-wait-file="+file, "-before-start=true", "-before-start-arg=secret", "-pause=before-start", "--",
			"sh", "-c", "trap 'exit 3' TERM; echo up; while true; do sleep 0.05; done")
		wait := s.start(cmd)
		waitForPhase(t, status, "Waiting")
		time.Sleep(500 * time.Millisecond)
		letGoOn(t, file)
		waitForPhase(t, status, "Paused")
		require.NoError(t, cmd.Process.Signal(syscall.SIGCONT))
		s.waitFor("stdout", "up\n")
		require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		require.Equal(t, 3, wait().code)
		all := look(t, s, "waiting", "waited", "hookStarted", "hookEnded", "paused", "signal", "continued", "started", "signal", "exited", "finished")
		require.Equal(t, file, all[0]["file"])
		require.Equal(t, "met", all[1]["outcome"])
		require.GreaterOrEqual(t, all[1]["milliseconds"], 150.0)
		require.Equal(t, "true", all[2]["argv0"])
		require.Equal(t, "before-start", all[4]["at"])
		require.Equal(t, "SIGCONT", all[5]["signal"])
		require.NotContains(t, all[5], "pid", "the command isn't started")
		require.Equal(t, "SIGTERM", all[8]["signal"])
		require.Equal(t, all[7]["pid"], all[8]["pid"])
		require.EqualValues(t, 3, all[9]["exitCode"])
		require.EqualValues(t, 3, all[10]["exitCode"])
		require.EqualValues(t, 3, all[10]["logs"].(map[string]any)["stdout"].(map[string]any)["printed"])
		require.NotContains(t, string(s.stream("events").data), "secret")
	})
	t.Run("a container that waits for another, and ends with it", func(t *testing.T) {
		s := serve(t)
		dir := t.TempDir()
		cmd := s.command("-depends-on=completed:"+dir+"/db", "-final-exit-codes=0-255:"+dir+"/db", "-depends-on=started:"+dir+"/cache", "--", "true")
		wait := s.start(cmd)
		require.NoError(t, os.Mkdir(dir+"/db", 0o700))
		require.Error(t, exec.Command(cmd.Path, "-order-dir="+dir+"/db", "--", "false").Run())
		require.Equal(t, 123, wait().code)
		all := look(t, s, "waiting", "waiting", "waited", "finished")
		require.Equal(t, "db:completed", all[0]["dependency"])
		require.Equal(t, "cache:started", all[1]["dependency"])
		require.Equal(t, "failed", all[2]["outcome"])
		require.Equal(t, "DependencyFailure", all[3]["reason"])
	})
	t.Run("a helper whose stop is held back until it is of no use", func(t *testing.T) {
		s := serve(t)
		dir, status := t.TempDir(), filepath.Join(t.TempDir(), "status")
		for _, name := range []string{"web", "db"} {
			require.NoError(t, os.Mkdir(dir+"/"+name, 0o700))
		}
		cmd := s.command("-status-file="+status, "-stop-after="+dir+"/web", "-stop-together", "-stop-share=1m", "-stop-when=completed:"+dir+"/db", "-final-exit-codes=0-255:"+dir+"/db", "--",
			"sh", "-c", "trap 'exit 3' TERM; echo up; while true; do sleep 0.05; done")
		web := exec.Command(cmd.Path, "-order-dir="+dir+"/web", "--", "sleep", "60")
		require.NoError(t, web.Start())
		t.Cleanup(func() { _, _ = web.Process.Kill(), web.Wait() })
		require.Eventually(t, func() bool {
			_, err := os.Stat(dir + "/web/state")
			return err == nil
		}, time.Minute, time.Millisecond)
		wait := s.start(cmd)
		s.waitFor("stdout", "up\n")
		require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		waitForPhase(t, status, "Stopping")
		require.Error(t, exec.Command(cmd.Path, "-order-dir="+dir+"/db", "--", "false").Run())
		require.Zero(t, wait().code)
		all := look(t, s, "started", "signal", "stopHeld", "stopWhen", "stopPassed", "exited", "finished")
		require.Equal(t, "web:exited", all[2]["dependency"])
		require.Equal(t, "failed", all[3]["outcome"])
		require.Equal(t, "stopWhen", all[4]["outcome"])
		require.EqualValues(t, 3, all[5]["exitCode"])
		require.Equal(t, "Unneeded", all[6]["reason"])
		require.EqualValues(t, 0, all[6]["exitCode"])
	})
	t.Run("a command that takes too long, and can't be sent for a while", func(t *testing.T) {
		s := serve(t)
		o, status := s.failing(), filepath.Join(t.TempDir(), "status")
		wait := s.start(s.command("-status-file="+status, "-timeout=6s", "--", "sh", "-c", "while true; do echo up; sleep 0.1; done"))
		waitForFailure(t, status, "503 Service Unavailable")
		o.over.Store(true)
		require.Equal(t, 124, wait().code)
		all := look(t, s, "started", "sendingFailed", "sendingResumed", "timeout", "exited", "finished")
		require.Contains(t, all[1]["failure"], "503 Service Unavailable")
		require.Equal(t, "SIGTERM", all[4]["signal"])
		require.EqualValues(t, 128+15, all[4]["exitCode"])
		require.Equal(t, "Timeout", all[5]["reason"])
	})
	t.Run("a command that can't be started", func(t *testing.T) {
		s := serve(t)
		require.Equal(t, 127, s.run(s.command("--", "no-such-command", "secret")).code)
		all := look(t, s, "finished")
		require.Equal(t, "StartFailure", all[0]["reason"])
	})
	for kind := range table {
		require.True(t, seen[kind], "%s didn't occur", kind)
	}
	require.Len(t, seen, len(table))
}

func TestEventsAreMasked(t *testing.T) {
	for _, secret := range []string{"correct-horse", "a\tb\nc\rd\bf\fg", "\"a\\b\x01c", "ä<€>&😀"} {
		eventIsMasked(t, secret)
	}
}

func eventIsMasked(t *testing.T, secret string) {
	t.Helper()
	s := serve(t)
	directory := filepath.Join(t.TempDir(), secret)
	require.NoError(t, os.Mkdir(directory, 0o755))
	script := filepath.Join(directory, "run")
	require.NoError(t, os.WriteFile(script, []byte("#!/bin/sh\necho up\n"), 0o755))
	cmd := s.command("-mask-env=PASSWORD", "--", script)
	cmd.Env = append(os.Environ(), "PASSWORD="+secret)
	require.Zero(t, s.run(cmd).code)
	require.Regexp(t, "/\\*+/run$", s.events()[0]["argv0"])
}

func TestAnOutageIsReportedWhileTheCommandPrintsNothing(t *testing.T) {
	t.Parallel()
	s := serve(t)
	o := s.failing()
	directory := t.TempDir()
	status, told := filepath.Join(directory, "status"), filepath.Join(directory, "told")
	wait := s.start(s.command("-status-file="+status, "--", "sh", "-c", "echo up; "+waiting(told)))
	waitForFailure(t, status, "503 Service Unavailable")
	o.over.Store(true)
	require.Eventually(t, func() bool {
		return s.id("events") != "" && slices.Equal(s.kinds(), []string{"started", "sendingFailed", "sendingResumed"})
	}, deadline, 50*time.Millisecond)
	letGoOn(t, told)
	require.Zero(t, wait().code)
}

// A storm of signals doesn't push other events out of the ring.
func TestManySignalsLeaveRoomForOtherEvents(t *testing.T) {
	s := serve(t)
	told := filepath.Join(t.TempDir(), "told")
	cmd := s.command("--", "sh", "-c", "trap '' USR1; echo up; "+waiting(told))
	wait := s.start(cmd)
	s.waitFor("stdout", "up\n")
	for range 400 {
		require.NoError(t, cmd.Process.Signal(syscall.SIGUSR1))
		time.Sleep(time.Millisecond)
	}
	letGoOn(t, told)
	require.Zero(t, wait().code)
	kinds := s.kinds()
	require.Equal(t, "started", kinds[0])
	require.Equal(t, []string{"exited", "finished"}, kinds[len(kinds)-2:])
	kinds = slices.DeleteFunc(kinds, func(kind string) bool { return kind != "signal" })
	require.LessOrEqual(t, len(kinds), 100)
	require.Greater(t, len(kinds), 10)
}

func TestASilentCommandIsNotDelayedByAServiceThatIsDown(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.meet(neverAnswer)
	got := s.run(s.command("--", "sh", "-c", "exit 3"))
	require.Equal(t, 3, got.code)
	require.Less(t, got.took, patience)
	require.Equal(t, "entrypointer: sending logs: the log service lacks the events of the container: it has taken no more within 1s\n", got.stderr)
}
