// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"net/http"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// In these tests, web waits for db, and then runs a hook, which takes long.

// aHook returns the flags of a hook that prints "hook" and takes until the file exists
// that goOn creates.
func aHook(t *testing.T) (flags []string, goOn func()) {
	t.Helper()
	file := t.TempDir() + "/go"
	return []string{"-before-start=sh", "-before-start-arg=-c", "-before-start-arg=echo hook; until test -e " + file + "; do sleep 0.01; done"}, func() { create(t, file) }
}

func waitsAfterItsHook(t *testing.T, p *process) {
	t.Helper()
	require.Eventually(t, func() bool { return len(children(p.Process.Pid)) == 0 }, deadline, time.Millisecond)
	waits(t, p)
}

// TestADependencyThatEndsDuringAHookIsAwaitedAgain, and the hook doesn't run again.
func TestADependencyThatEndsDuringAHookIsAwaitedAgain(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"supervise", "exec"} {
		for _, condition := range []string{"started", "ready"} {
			t.Run(condition+" in mode "+mode, func(t *testing.T) {
				t.Parallel()
				dir := orderDir(t)
				begins := func() *process { return db(t, dir, readyAtOnce, "--", "sleep", "100000") }
				dependency := begins()
				hook, goOn := aHook(t)
				p := web(t, dir, "-depends-on="+condition, append(hook, "-mode="+mode, onFailure(dir))...)
				p.expect("hook")
				dependency.kill(dependency.Process.Pid)
				goOn()
				waitsAfterItsHook(t, p)
				dependency = begins()
				isStarted(t, p)
				dependency.kill(dependency.Process.Pid)
			})
		}
	}
}

// TestADependencyThatFailsDuringAHookFailsTheContainer, if it isn't restarted.
func TestADependencyThatFailsDuringAHookFailsTheContainer(t *testing.T) {
	t.Parallel()
	dir := orderDir(t)
	dependency := db(t, dir, "--", "sh", "-c", "until test -e "+dir+"/go; do sleep 0.01; done; exit 3")
	hook, goOn := aHook(t)
	p := web(t, dir, "-depends-on=started", append(hook, never(dir))...)
	p.expect("hook")
	create(t, dir+"/go")
	require.Equal(t, 3, dependency.end())
	goOn()
	require.Contains(t, p.line(), "waiting for db:started (it exited with 3), which is not restarted: the command was not started")
	require.Equal(t, 123, p.end())
}

func TestADependencyThatHasCompletedStaysSoAfterAHook(t *testing.T) {
	t.Parallel()
	dir := orderDir(t)
	require.Zero(t, db(t, dir, "--", "true").end())
	hook, goOn := aHook(t)
	p := web(t, dir, "-depends-on=completed", append(hook, never(dir))...)
	p.expect("hook")
	goOn()
	isStarted(t, p)
}

func TestAURLThatStopsToAnswerDuringAHookIsAwaitedAgain(t *testing.T) {
	t.Parallel()
	var busy atomic.Bool
	url := "http://127.0.0.1:" + server(t, func(w http.ResponseWriter, _ *http.Request) {
		if busy.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}) + "/"
	hook, goOn := aHook(t)
	p := reacher(t, append(hook, "-wait-for="+url)...)
	p.expect("hook")
	busy.Store(true)
	goOn()
	waitsAfterItsHook(t, p)
	busy.Store(false)
	isStarted(t, p)
}

// TestTheWaitAfterAHookIsAPartOfTheSameTimeout.
func TestTheWaitAfterAHookIsAPartOfTheSameTimeout(t *testing.T) {
	t.Parallel()
	file := t.TempDir() + "/up"
	create(t, file)
	hook, goOn := aHook(t)
	p := reacher(t, append(hook, "-wait-for=file://"+file, "-depends-on-timeout=5s")...)
	p.expect("hook")
	require.NoError(t, os.Remove(file))
	goOn()
	require.Equal(t, "entrypointer: waiting for file://"+file+" (no such file or directory): not met after 5s: the command was not started: check them, or raise depends-on-timeout", p.line())
	require.Equal(t, 124, p.end())
}
