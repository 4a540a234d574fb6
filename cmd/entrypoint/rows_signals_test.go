// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

var signalRows = []row{
	{
		name:    "killed by signal n",
		observe: killsItself,
	},
	{
		name:    "signals that the process handles, as PID 1",
		observe: handled,
		place:   asPID1,
		needs:   "a PID namespace",
	},
	{
		name:    "signals that the process doesn't handle, as PID 1",
		observe: unhandled,
		why: "the kernel drops a signal that PID 1 doesn't handle, so the kubelet waits until the end of the grace period and then kills the process; " +
			"under a supervisor the process isn't PID 1, and the signal ends it",
		place: asPID1,
		needs: "a PID namespace",
	},
	{
		name:    "10,000 real-time signals in a row",
		observe: burst,
	},
	{
		name:    "receivers of a signal",
		observe: receivers,
	},
	{
		name:    "signals that were ignored at the start, in the process",
		observe: ignoredInTheProcess,
		why: "the Go runtime handles all other signals before the supervisor's code runs, and a process that it starts has their default action; " +
			"container runtimes start processes with no signal ignored",
	},
	{
		name:    "signals that were blocked at the start, in the process",
		observe: blockedInTheProcess,
		why:     "the Go runtime unblocks these signals; container runtimes start processes with no signal blocked",
	},
	{
		name:    "SIGTSTP, SIGCONT, SIGTERM",
		observe: stopsAndContinues,
	},
	{
		name:    "SIGKILL to the supervisor (to the process, if bare)",
		observe: killedSupervisor,
	},
	{
		name:    "the signal that the process gets when its parent ends",
		observe: deathSignal,
		why:     "this signal ends the process together with the supervisor where the supervisor isn't PID 1 of a PID namespace",
	},
}

func killsItself(t *testing.T, s subject) string {
	seen := make(outcomes)
	for sig := 1; sig <= 64; sig++ {
		switch syscall.Signal(sig) {
		case syscall.SIGSTOP, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU:
			continue // they stop
		}
		got := output(t, s.argv("sh", "-c", fmt.Sprintf("kill -%d $$; exit 5", sig)), s.place)
		require.Empty(t, got.Stderr)
		switch got.Code {
		case 128 + sig:
			seen.add("exit code 128+n", sig)
		case 5:
			seen.add("nothing", sig)
		default:
			seen.add(fmt.Sprint("exit code ", got.Code), sig)
		}
	}
	return seen.String()
}

// handled sends each signal that can be handled to a shell.
func handled(t *testing.T, s subject) string {
	var list []syscall.Signal
	for sig := syscall.Signal(1); sig <= 64; sig++ {
		switch sig {
		case syscall.SIGKILL, syscall.SIGSTOP, 32, 33: // those of the C library can't be handled in C
		default:
			list = append(list, sig)
		}
	}
	p := begin(t, s.argv(echo(list...)...), s.place, listening(t))
	p.expect("ready")
	command := s.command(t, p.Process)
	seen := make(outcomes)
	counts := make(map[int]int)
	for _, sig := range list {
		p.send(sig)
		settle(t, p.Process.Pid, command)
		if state(command) == "T" {
			seen.add("stop the process anyway", int(sig))
			p.send(syscall.SIGCONT)
			settle(t, p.Process.Pid, command)
			counts[int(syscall.SIGCONT)]--
		}
	}
	for _, line := range p.kill(command) {
		var sig int
		_, err := fmt.Sscan(line, &sig)
		require.NoError(t, err, line)
		counts[sig]++
	}
	for _, sig := range list {
		switch n := counts[int(sig)]; n {
		case 0:
			seen.add("don't arrive", int(sig))
		case 1:
			seen.add("arrive", int(sig))
		default:
			seen.add(fmt.Sprintf("arrive %d times", n), int(sig))
		}
	}
	return seen.String()
}

// parrot runs a process that handles no signal until it is told to.
func parrot(t *testing.T, s subject, prepare ...func(*exec.Cmd)) *process {
	t.Helper()
	read, write, err := os.Pipe()
	require.NoError(t, err)
	defer read.Close()
	t.Cleanup(func() { _ = write.Close() })
	p := begin(t, s.argv("cat"), append([]func(*exec.Cmd){s.place, func(cmd *exec.Cmd) { cmd.Stdin = read }}, prepare...)...)
	_, err = write.WriteString("ready\n")
	require.NoError(t, err)
	p.expect("ready")
	return p
}

// unhandled sends each signal to a process that has the signal's default action.
func unhandled(t *testing.T, s subject) string {
	seen := make(outcomes)
	for sig := syscall.Signal(1); sig <= 64; sig++ {
		if sig == syscall.SIGKILL || sig == syscall.SIGSTOP {
			continue
		}
		p := parrot(t, s)
		command := s.command(t, p.Process)
		p.send(sig)
		settle(t, p.Process.Pid, command)
		switch {
		case dead(command):
			if code := p.end(); code == 128+int(sig) {
				seen.add("exit code 128+n", int(sig))
			} else {
				seen.add(fmt.Sprint("exit code ", code), int(sig))
			}
		case state(command) == "T":
			seen.add("stop", int(sig))
		default:
			seen.add("nothing", int(sig))
		}
		p.kill(command)
	}
	return seen.String()
}

func burst(t *testing.T, s subject) string {
	p := begin(t, s.argv(child, "echo", "got"), s.place)
	p.expect("ready")
	command := s.command(t, p.Process)
	for i := range 10_000 {
		p.send(syscall.Signal(35 + i%30))
	}
	settle(t, p.Process.Pid, command)
	if n := len(p.kill(command)); n != 10_000 {
		return fmt.Sprint(n, " arrive")
	}
	return "all arrive"
}

// receivers starts a process with a child in the same process group.
func receivers(t *testing.T, s subject) string {
	p := begin(t, s.argv("sh", "-c", child+" echo 'its child' & exec "+child+" echo 'the process'"), s.place)
	p.expect("ready")
	p.expect("ready")
	command := s.command(t, p.Process)
	grandchild := childOf(t, command)
	p.send(40)
	settle(t, p.Process.Pid, command, grandchild)
	require.NoError(t, syscall.Kill(grandchild, syscall.SIGKILL))
	names := p.kill(command)
	slices.Sort(names)
	slices.Reverse(names)
	return strings.Join(names, ", ")
}

// mask is the set of signals in a field of the command's /proc status.
func mask(t *testing.T, field string, argv []string, prepare ...func(*exec.Cmd)) string {
	t.Helper()
	got := output(t, append(argv, "grep", "^"+field+":", "/proc/self/status"), prepare...)
	require.Zero(t, got.Code, got.Stderr)
	var bits uint64
	_, err := fmt.Sscanf(got.Stdout, field+": %x", &bits)
	require.NoError(t, err)
	var list []int
	for sig := 1; sig <= 64; sig++ {
		if bits&(1<<(sig-1)) != 0 {
			list = append(list, sig)
		}
	}
	return numbers(list)
}

func ignoredInTheProcess(t *testing.T, s subject) string {
	all := "trap ''"
	for _, sig := range forwardable() {
		all += fmt.Sprintf(" %d", sig)
	}
	return mask(t, "SigIgn", s.prepared(all), s.place)
}

func blockedInTheProcess(t *testing.T, s subject) string {
	var all []int
	for sig := 1; sig <= 64; sig++ {
		all = append(all, sig)
	}
	return mask(t, "SigBlk", s.argv(), s.place, blocked(all...))
}

func stopsAndContinues(t *testing.T, s subject) string {
	p := parrot(t, s, func(cmd *exec.Cmd) {
		// The kernel stops no process group that is orphaned; this one has a parent in
		// the session.
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	})
	command := s.command(t, p.Process)
	var seen []string
	for _, sig := range []syscall.Signal{syscall.SIGTSTP, syscall.SIGCONT} {
		p.send(sig)
		settle(t, p.Process.Pid, command)
		if state(command) == "T" {
			seen = append(seen, "stopped")
		} else {
			seen = append(seen, "running")
		}
	}
	p.send(syscall.SIGTERM)
	return fmt.Sprintf("%s, exit code %d", strings.Join(seen, ", "), p.end())
}

func killedSupervisor(t *testing.T, s subject) string {
	p := parrot(t, s)
	command := s.command(t, p.Process)
	// A tool that looks up a process by its ID, only to kill it, may find another one.
	fd, err := unix.PidfdOpen(command, 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	p.send(syscall.SIGKILL)
	p.end()
	settle(t, command)
	if dead(command) {
		return "the process ends"
	}
	require.NoError(t, unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0))
	return "the process lives on"
}

func deathSignal(t *testing.T, s subject) string {
	got := output(t, s.argv(child, "deathsig"), s.place)
	require.Zero(t, got.Code, got.Stderr)
	if got.Stdout == "0\n" {
		return "none"
	}
	return strings.TrimSpace(got.Stdout)
}
