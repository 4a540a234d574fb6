// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// container starts the supervisor with these arguments in namespaces of its own. It
// returns a function that runs the supervisor's program again in these namespaces, as
// kubectl exec does.
func container(t *testing.T, args ...string) (*process, func(args ...string) result) {
	t.Helper()
	return containerOf(t, nil, args...)
}

// containerOf is container with words before the supervisor.
func containerOf(t *testing.T, before []string, args ...string) (*process, func(args ...string) result) {
	t.Helper()
	needRoot(t, "namespaces")
	script := "mount -t proc proc /proc && exec \"$@\""
	argv := slices.Concat([]string{"sh", "-c", script, "sh"}, before, []string{entrypoint}, args)
	p := begin(t, argv, func(cmd *exec.Cmd) {
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID, Unshareflags: syscall.CLONE_NEWNS}
	})
	require.Eventually(t, func() bool { return filepath.Base(executable(p.Process.Pid)) == "entrypoint" }, deadline, time.Millisecond)
	pid := p.Process.Pid
	return p, func(args ...string) result {
		t.Helper()
		enter := []string{"nsenter", "--mount", "--pid", "--target", strconv.Itoa(pid), entrypoint}
		return output(t, append(enter, args...))
	}
}

// reported is the output of "entrypoint status".
type reported struct {
	Phase, Paused, Reason, Signal string
	Started                       time.Time
	ExitCode, CommandExitCode     int
}

func status(t *testing.T, control func(args ...string) result) (s reported) {
	t.Helper()
	got := control("status")
	require.Zero(t, got.Code, got.Stderr)
	require.NoError(t, json.Unmarshal([]byte(got.Stdout), &s), got.Stdout)
	return s
}

// worked checks the result of a subcommand that ends the container, and may be killed
// with it.
func worked(t *testing.T, control result) {
	t.Helper()
	require.Contains(t, []int{0, 128 + int(syscall.SIGKILL)}, control.Code, control.Stderr)
}

func TestAPauseBeforeTheStartEndsWhenReleased(t *testing.T) {
	t.Parallel()
	p, control := container(t, "-pause=before-start", "--", "sh", "-c", "echo started; exit 6")
	require.Contains(t, p.line(), `entrypointer: paused before-start: "`+entrypoint+` continue" in this container resumes it`)
	require.Equal(t, reported{Phase: "Paused", Paused: "before-start"}, status(t, control))
	worked(t, control("continue"))
	p.expect("started")
	require.Equal(t, 6, p.end())
}

// TestAPauseEndsWhenReleasedWithoutAPublishedStatus refuses memfd_create(2), as a
// strict seccomp profile does.
func TestAPauseEndsWhenReleasedWithoutAPublishedStatus(t *testing.T) {
	t.Parallel()
	for _, refused := range []string{"memfd_create", "memfd_create,eventfd2"} {
		p, control := containerOf(t, []string{child, "refuse", refused}, "-pause=before-start", "--", "sh", "-c", "echo started; exit 6")
		p.line()
		worked(t, control("continue"))
		p.expect("started")
		require.Equal(t, 6, p.end())

		p, control = containerOf(t, []string{child, "refuse", refused}, "-pause=before-start", "--", "sh", "-c", "echo started; exec sleep 60")
		p.line()
		worked(t, control("continue"))
		p.expect("started")
		require.Contains(t, control("continue").Stderr, "the supervisor isn't paused")
	}
}

// TestOrphansAreReapedDuringAPause has the orphan come from "kubectl exec".
func TestOrphansAreReapedDuringAPause(t *testing.T) {
	t.Parallel()
	for _, flags := range [][]string{
		{"-pause=before-start"},
		{"-wait-file=/nowhere"},
		{"-wait-file=/nowhere", "-mode=exec"},
		{"-wait-file=/nowhere", "-hold=1h"},
		{"-before-start=sleep", "-before-start-arg=60"},
	} {
		p, _ := container(t, append(flags, "--", "sleep", "60")...)
		untilItWaits(t, p)
		leave := "for i in 1 2 3 4 5; do sh -c 'sleep 0.05 &'; done"
		require.Zero(t, output(t, []string{"nsenter", "--pid", "--target", strconv.Itoa(p.Process.Pid), "sh", "-c", leave}).Code)
		time.Sleep(100 * time.Millisecond)
		require.Eventually(t, func() bool { return len(childrenInState(p.Process.Pid, "Z")) == 0 }, deadline, time.Millisecond, flags)
		p.kill(p.Process.Pid)
	}
}

func TestAPauseAfterAFailureEndsWhenReleased(t *testing.T) {
	t.Parallel()
	p, control := container(t, "-pause=after-failure", "--", "sh", "-c", "exit 6")
	p.line()
	s := status(t, control)
	require.Equal(t, "after-failure", s.Paused)
	require.Equal(t, 6, s.CommandExitCode)
	worked(t, control("continue"))
	require.Equal(t, 6, p.end())
}

func TestAnEndingSignalEndsAPause(t *testing.T) {
	t.Parallel()
	p, _ := container(t, "-pause=before-start", "--", "echo", "started")
	p.line()
	p.send(syscall.SIGTERM)
	p.expect("entrypointer: ended by SIGTERM during the pause before its start: the command was not started")
	require.Equal(t, 128+int(syscall.SIGTERM), p.end())

	p, _ = container(t, "-pause=after-failure", "--", "false")
	p.line()
	p.send(syscall.SIGINT)
	require.Equal(t, 1, p.end())
}

// TestARequestedEndIsNotPaused: a pause would only use up the pod's grace period.
func TestARequestedEndIsNotPaused(t *testing.T) {
	t.Parallel()
	for code, command := range map[int]string{
		128 + int(syscall.SIGTERM): "echo started; exec sleep 60",
		3:                          "trap 'exit 3' TERM; echo started; while :; do sleep 0.01; done",
	} {
		p, _ := container(t, "-pause=after-failure", "--", "sh", "-c", command)
		p.expect("started")
		p.send(syscall.SIGTERM)
		require.Equal(t, code, p.end())
	}
	cancelled := t.TempDir() + "/cancel"
	require.NoError(t, os.WriteFile(cancelled, []byte("CANCEL"), 0o600))
	got := output(t, []string{entrypoint, "-pause=before-start,after-failure", "-wait-abort-content=" + cancelled, "--", "sh", "-c", "exit 9"})
	require.Equal(t, 9, got.Code, "told by a file: %s", got.Stderr)
	got = output(t, []string{entrypoint, "-pause=after-failure", "--", "true"})
	require.Zero(t, got.Code, got.Stderr)
}

func TestContinueFailsWithoutAPause(t *testing.T) {
	t.Parallel()
	p, control := container(t, "--", "sh", "-c", "echo started; exec sleep 60")
	p.expect("started")
	got := control("continue")
	require.Equal(t, 1, got.Code)
	require.Equal(t, "entrypointer: entrypoint continue: the supervisor isn't paused: see \"entrypoint status\"\n", got.Stderr)
}

func TestSignalsFromInsideTheContainer(t *testing.T) {
	t.Parallel()
	p, control := container(t, append([]string{"--"}, echo(syscall.SIGTERM, syscall.SIGHUP, 37)...)...)
	p.expect("ready")
	for name, number := range map[string]string{"TERM": "15", "SIGHUP": "1", "37": "37", "rtmin+3": "37"} {
		require.Zero(t, control("signal", name).Code)
		p.expect(number)
	}
	require.Equal(t, 1, control("signal", "NONE").Code)
	require.Equal(t, 125, control("signal").Code)
	// A signal that the supervisor doesn't forward is sent to the command directly.
	worked(t, control("signal", "KILL"))
	require.Equal(t, 128+int(syscall.SIGKILL), p.end())
}

// TestAControlSignalReachesTheCommandOnly: processes that a hook has left behind don't
// get it, be they in a session of their own or not.
func TestAControlSignalReachesTheCommandOnly(t *testing.T) {
	t.Parallel()
	p, control := container(t, "-before-start=sh", "-before-start-arg=-c",
		"-before-start-arg=setsid sleep 60 >/dev/null 2>&1 & sleep 61 >/dev/null 2>&1 &", "--", "sh", "-c", "echo started; exec sleep 62")
	p.expect("started")
	require.Eventually(t, func() bool { return len(childrenInState(p.Process.Pid, "S")) == 3 }, deadline, time.Millisecond)
	require.Zero(t, control("signal", "STOP").Code)
	require.Eventually(t, func() bool { return len(childrenInState(p.Process.Pid, "T")) > 0 }, deadline, time.Millisecond)
	require.Len(t, childrenInState(p.Process.Pid, "T"), 1)
	worked(t, control("signal", "KILL"))
	require.Equal(t, 128+int(syscall.SIGKILL), p.end())
}

func TestStatusOfASupervisorWithoutOptions(t *testing.T) {
	t.Parallel()
	start := time.Now()
	p, control := container(t, "--", "sh", "-c", "echo started; exec sleep 60")
	p.expect("started")
	s := status(t, control)
	require.Equal(t, "Running", s.Phase)
	require.WithinDuration(t, start, s.Started, deadline)

	p, control = container(t, "-wait-file=/nowhere", "-wait-timeout=1h", "--", "true")
	require.Equal(t, reported{Phase: "Waiting"}, status(t, control))
	// Before the Go runtime installs its handlers, the kernel discards SIGTERM for PID
	// 1. The status is the same at that time.
	untilItWaits(t, p)
	p.send(syscall.SIGTERM)
	p.end()
}

func TestTheContainersOwnSupervisorIsTheOldest(t *testing.T) {
	t.Parallel()
	p, control := container(t, "--", entrypoint, "-pause=before-start", "--", "true")
	p.line()
	require.Equal(t, "Running", status(t, control).Phase)
}

func TestControlFailsWithoutASupervisor(t *testing.T) {
	needRoot(t, "namespaces")
	got := output(t, []string{"unshare", "--mount", entrypoint, "status"})
	require.Equal(t, 1, got.Code)
	require.Contains(t, got.Stderr, "looking for the supervisor: none runs in this container as this user: with mode exec, the command has replaced it")
}

// TestASignalEndsTheWaitAsItEndsTektonsEntrypoint sends the signals that end a Go
// program without handlers, as Tekton's entrypoint is during its wait. As PID 1, such a
// program can't kill itself and exits with 2.
func TestASignalEndsTheWaitAsItEndsTektonsEntrypoint(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"supervise", "exec"} {
		p := begin(t, []string{entrypoint, "-mode=" + mode, "-wait-file=/nowhere", "--", "echo", "started"})
		untilItWaits(t, p)
		p.send(syscall.SIGTERM)
		require.Equal(t, 128+int(syscall.SIGTERM), p.end())

		needRoot(t, "a PID namespace")
		p = begin(t, []string{entrypoint, "-mode=" + mode, "-wait-file=/nowhere", "--", "echo", "started"}, asPID1)
		untilItWaits(t, p)
		p.send(syscall.SIGTERM)
		require.Equal(t, 2, p.end())
	}
}

// untilItWaits waits until a process has opened its eventfd.
func untilItWaits(t *testing.T, p *process) {
	t.Helper()
	require.Eventually(t, func() bool {
		files, _ := filepath.Glob("/proc/" + strconv.Itoa(p.Process.Pid) + "/fd/*")
		for _, file := range files {
			if target, _ := os.Readlink(file); target == "anon_inode:[eventfd]" {
				return true
			}
		}
		return false
	}, deadline, time.Millisecond)
}

func TestASignalDuringAHookIsKeptForTheCommand(t *testing.T) {
	input, release, err := os.Pipe()
	require.NoError(t, err)
	defer input.Close()
	p := begin(t, []string{
		entrypoint, "-before-start=sh", "-before-start-arg=-c", "-before-start-arg=echo hook; read x <&3 || :", "--",
		"sleep", "60",
	}, func(cmd *exec.Cmd) { cmd.ExtraFiles = []*os.File{input} })
	p.expect("hook")
	p.send(syscall.SIGUSR2)
	require.NoError(t, release.Close())
	require.Equal(t, 128+int(syscall.SIGUSR2), p.end())
}

func TestAnEndingSignalIsForwardedToTheHook(t *testing.T) {
	p := begin(t, []string{
		entrypoint, "-before-start=sh", "-before-start-arg=-c",
		"-before-start-arg=trap 'echo told; exit 0' TERM; echo hook; while :; do sleep 0.05; done", "--", "echo", "started",
	})
	p.expect("hook")
	p.send(syscall.SIGTERM)
	p.expect("told")
	p.expect("entrypointer: ended by SIGTERM during before-start hook 1: the command was not started")
	require.Equal(t, 128+int(syscall.SIGTERM), p.end())
}
