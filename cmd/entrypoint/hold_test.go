// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// held starts a command that polls for a file itself at an interval, and waits until
// the command is stopped.
func held(t *testing.T, interval string, flags ...string) (p *process, file string) {
	t.Helper()
	p, file = holding(t, "poll", interval, flags...)
	p.expect("begun")
	isHeld(t, p)
	return p, file
}

func holding(t *testing.T, how, interval string, flags ...string) (p *process, file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "file")
	argv := slices.Concat([]string{entrypoint, "-hold=" + interval, "-wait-file=" + file, "-wait-abort=" + file + ".err"}, flags,
		[]string{"--", child, how, interval, file})
	return begin(t, argv), file
}

func isHeld(t *testing.T, p *process) {
	t.Helper()
	require.Eventually(t, func() bool { return len(childrenInState(p.Process.Pid, "T")) == 1 }, deadline, time.Millisecond)
	// The command polls once more after that, and often before.
	require.Eventually(t, func() bool {
		before, _ := threads(t, []int{p.Process.Pid})
		time.Sleep(20 * time.Millisecond)
		after, settled := threads(t, []int{p.Process.Pid})
		return settled && before == after
	}, deadline, time.Millisecond)
}

func touch(t *testing.T, file string) {
	t.Helper()
	require.NoError(t, os.WriteFile(file, nil, 0o600))
}

func TestAHeldCommandPollsAtOnceWhenItsPollIsDue(t *testing.T) {
	const interval = 3 * time.Second // more than a busy machine takes for everything else
	p, file := held(t, interval.String())
	time.Sleep(interval)
	start := time.Now()
	touch(t, file)
	p.expect("its turn")
	require.Less(t, time.Since(start), interval)
	require.Zero(t, p.end())
}

func TestAHeldCommandWhosePollIsFarOffIsRestarted(t *testing.T) {
	t.Parallel()
	p, file := holding(t, "await", "1h")
	isHeld(t, p)
	before := childOf(t, p.Process.Pid)
	touch(t, file)
	require.NotEqual(t, "its turn "+strconv.Itoa(before), p.line())
	require.Zero(t, p.end())
}

// Tekton's entrypoint is such a program: only root may read it.
func TestAHeldCommandThatItsUserMayNotReadIsRestarted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program, err := os.ReadFile(child)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(dir+"/child", program, 0o700))
	require.NoError(t, os.Chmod(dir+"/child", 0o311))
	p := begin(t, []string{entrypoint, "-hold=1h", "-wait-file=" + dir + "/file", "--", dir + "/child", "await", "1h", dir + "/file"})
	isHeld(t, p)
	before := childOf(t, p.Process.Pid)
	touch(t, dir+"/file")
	require.NotEqual(t, "its turn "+strconv.Itoa(before), p.line())
	require.Zero(t, p.end())
}

// TestAHeldCommandThatHasPrintedIsNotRestarted, because it would print its output
// twice.
func TestAHeldCommandThatHasPrintedIsNotRestarted(t *testing.T) {
	t.Parallel()
	p, file := held(t, "2s")
	touch(t, file)
	p.expect("its turn")
	require.Zero(t, p.end())
}

// TestACommandIsNotHeldWithoutProc, which would show that the command sleeps and has no
// pending signals.
func TestACommandIsNotHeldWithoutProc(t *testing.T) {
	t.Parallel()
	needRoot(t, "namespaces")
	file := filepath.Join(t.TempDir(), "file")
	p := begin(t, []string{
		"unshare", "--mount", "sh", "-c", `mount -t tmpfs none /proc && exec "$@"`, "sh",
		entrypoint, "-hold=1h", "-wait-file=" + file, "--", child, "poll", "100ms", file,
	})
	p.expect("begun")
	time.Sleep(300 * time.Millisecond)
	require.Empty(t, childrenInState(p.Process.Pid, "T"))
	touch(t, file)
	p.expect("its turn")
	require.Zero(t, p.end())
}

// TestHooksWaitForTheTurnOfACommandThatStartsEarly covers a step whose HOME is a
// volume. Tekton's entrypoint copies credentials there when it starts.
func TestHooksWaitForTheTurnOfACommandThatStartsEarly(t *testing.T) {
	shared := []string{"-wait-unless-shared=HOME", "-env=HOME=/proc"}
	hook := []string{"-before-start=echo", "-before-start-arg=hook"}
	p, file := held(t, "100ms", slices.Concat(shared, hook, []string{"-timeout=1h"})...)
	time.Sleep(200 * time.Millisecond)
	require.Empty(t, p.lines)
	touch(t, file)
	p.expect("hook")
	p.expect("its turn")
	require.Zero(t, p.end())

	p, file = held(t, "100ms", slices.Concat(shared, hook)...)
	touch(t, file+".err")
	require.Eventually(t, func() bool { return len(childrenInState(p.Process.Pid, "T")) == 0 }, deadline, time.Millisecond)
	touch(t, file)
	require.Equal(t, "its turn", p.line(), "no hook when its turn won't come")
	require.Zero(t, p.end())

	p, file = held(t, "100ms", slices.Concat(shared, []string{"-before-start=false"})...)
	touch(t, file)
	require.Contains(t, p.line(), `before-start hook 1: running "false": it exited with 1: the command was not started`)
	require.Equal(t, 1, p.end())

	p, file = held(t, "100ms", slices.Concat(shared, []string{"-pause=before-start"})...)
	touch(t, file)
	require.Contains(t, p.line(), "paused before-start")
	require.Len(t, childrenInState(p.Process.Pid, "T"), 1)
	p.send(syscall.SIGCONT)
	p.expect("its turn")
	require.Zero(t, p.end())
}

func TestAHeldCommandWithASharedDirectoryIsNotRestarted(t *testing.T) {
	t.Setenv("HOME", "/proc")
	p, file := held(t, "2s", "-wait-unless-shared=HOME")
	touch(t, file)
	p.expect("its turn")
	require.Zero(t, p.end())
}

// TestAHeldCommandThatWasContinuedIsNotRestarted, because it may have seen a file
// since.
func TestAHeldCommandThatWasContinuedIsNotRestarted(t *testing.T) {
	t.Parallel()
	p, file := held(t, "2s")
	require.NoError(t, syscall.Kill(childOf(t, p.Process.Pid), syscall.SIGCONT))
	require.Eventually(t, func() bool { return len(childrenInState(p.Process.Pid, "T")) == 0 }, deadline, time.Millisecond)
	touch(t, file)
	p.expect("its turn")
	require.Zero(t, p.end())
}

// TestAHeldCommandThatWasContinuedAndStoppedAgainIsNotRestarted: that it is stopped at
// its turn doesn't prove that it was stopped all the time.
func TestAHeldCommandThatWasContinuedAndStoppedAgainIsNotRestarted(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	p := begin(t, []string{
		entrypoint, "-hold=1h", "-wait-file=" + file, "--", "sh", "-c",
		"while ! [ -e " + file + " ]; do sleep 0.1; done; echo its turn; exec sleep 1000",
	})
	isHeld(t, p)
	command := childOf(t, p.Process.Pid)
	p.send(syscall.SIGSTOP)
	require.NoError(t, syscall.Kill(command, syscall.SIGCONT))
	touch(t, file)
	p.expect("its turn")
	require.NoError(t, syscall.Kill(command, syscall.SIGSTOP))
	p.send(syscall.SIGCONT)
	require.Eventually(t, func() bool { return len(childrenInState(p.Process.Pid, "S")) == 1 }, deadline, time.Millisecond)
	require.Equal(t, command, childOf(t, p.Process.Pid))
	require.Empty(t, p.kill(command))
}

func TestASignalForAHeldCommandIsNotLost(t *testing.T) {
	t.Parallel()
	p, file := held(t, "1h")
	require.NoError(t, syscall.Kill(childOf(t, p.Process.Pid), syscall.SIGTERM))
	touch(t, file)
	require.Equal(t, 143, p.end())
}

// TestAHeldCommandGetsTheTerminalOfAForegroundSupervisor: the shell knows only the
// supervisor's process group, and has given it the terminal.
func TestAHeldCommandGetsTheTerminalOfAForegroundSupervisor(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	c := onConsole(t, []string{"sh", "-c", "stty -echo; set -m; " + entrypoint + " -hold=100ms -wait-file=" + file +
		` -- sh -c 'while ! [ -e ` + file + ` ]; do sleep 0.1; done; read line; echo got-$line' & echo $!; read go; fg`})
	var job int
	require.Eventually(t, func() bool {
		job, _ = strconv.Atoi(strings.Join(c.lines(), ""))
		return len(childrenInState(job, "T")) == 1
	}, deadline, time.Millisecond)
	c.enter("go\n")
	require.Eventually(t, func() bool {
		front, err := unix.IoctlGetInt(int(c.master.Fd()), unix.TIOCGPGRP)
		return err == nil && front == job
	}, deadline, time.Millisecond)
	touch(t, file)
	c.enter("hello\n")
	c.waitFor("got-hello")
	require.Zero(t, c.end())
}

func TestAnAbortedWaitContinuesTheHeldCommand(t *testing.T) {
	p, file := held(t, "100ms")
	time.Sleep(200 * time.Millisecond)
	touch(t, file+".err") // which it ignores
	require.Eventually(t, func() bool { return len(childrenInState(p.Process.Pid, "S")) == 1 }, deadline, time.Millisecond)
	touch(t, file)
	p.expect("its turn")
	require.Zero(t, p.end())
}

func TestTheEndOfAHeldCommandEndsTheWait(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	got := output(t, []string{entrypoint, "-hold=1h", "-wait-file=" + dir + "/none", "-post-file=" + dir + "/out", "--", "sh", "-c", "echo bye; exit 3"})
	require.Equal(t, result{Status: "exit status 3", Code: 3, Stdout: "bye\n"}, got)
	require.FileExists(t, dir+"/out.err")

	p, _ := held(t, "1h")
	require.NoError(t, syscall.Kill(childOf(t, p.Process.Pid), syscall.SIGKILL))
	require.Equal(t, 137, p.end())
}

// TestAPauseAfterACommandThatEndedWhileItWasHeldEnds, because the supervisor forwards
// no signals any more.
func TestAPauseAfterACommandThatEndedWhileItWasHeldEnds(t *testing.T) {
	for _, release := range []syscall.Signal{syscall.SIGCONT, syscall.SIGTERM} {
		p := begin(t, []string{entrypoint, "-hold=1h", "-wait-file=/nowhere", "-pause=after-failure", "--", "sh", "-c", "exit 3"})
		require.Contains(t, p.line(), "paused after-failure")
		p.send(release)
		require.Equal(t, 3, p.end())
		require.Empty(t, p.lines)
	}
}

func TestAMissingCommandIsNotHeld(t *testing.T) {
	got := output(t, []string{entrypoint, "-hold=1h", "-wait-file=" + t.TempDir() + "/none", "--", "/missing"})
	require.Equal(t, 127, got.Code)
}

// TestAHeldCommandEndsWithTheContainer, as it would without a supervisor.
func TestAHeldCommandEndsWithTheContainer(t *testing.T) {
	t.Parallel()
	p, _ := held(t, "1h")
	command := childOf(t, p.Process.Pid)
	p.send(syscall.SIGTERM)
	require.Equal(t, 143, p.end())
	require.Eventually(t, func() bool { return syscall.Kill(command, 0) != nil }, deadline, time.Millisecond)
}

func TestTheStatusOfAHeldCommandIsWaiting(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	p, control := container(t, "-hold=100ms", "-wait-file="+file, "--", child, "poll", "100ms", file+".later")
	p.expect("begun")
	isHeld(t, p)
	require.Equal(t, "Waiting", status(t, control).Phase)
	time.Sleep(200 * time.Millisecond)
	touch(t, file)
	require.Eventually(t, func() bool { return status(t, control).Phase == "Running" }, deadline, time.Millisecond)
	touch(t, file+".later")
	p.expect("its turn")
	require.Zero(t, p.end())
}

// TestACommandWithHooksIsNotHeld: the hooks precede the command's start.
func TestACommandWithHooksIsNotHeld(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(dir+"/vars", []byte("A=1\n"), 0o600))
	for _, flag := range []string{"-env-file=" + dir + "/vars", "-before-start=true", "-pause=before-start"} {
		p := begin(t, []string{entrypoint, "-hold=1h", "-wait-file=" + dir + "/none", flag, "--", "true"})
		settle(t, p.Process.Pid)
		require.Empty(t, children(p.Process.Pid), flag)
	}
}
