// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/proc/proctest"
)

// limit is the memory of a container that runs out of it, in bytes.
const limit = 64 << 20

// useMemory is a program of awk that takes 64 KiB of memory at a time until the kernel has
// killed a process of the container, and then exits with code 7. It notices no kill but by
// the counter of its cgroup.
const useMemory = `BEGIN {
	for (piece = "x"; length(piece) < 65536; piece = piece piece) {}
	for (n = 0; n < 4096; n++) {
		taken[n] = piece n
		while ((getline line <counter) > 0)
			if (line ~ /^oom_kill [1-9]/) exit 7
		close(counter)
	}
}`

// waitingUntil is the command of a shell that waits for a file.
func waitingUntil(file string) string { return "while ! [ -e " + file + " ]; do sleep 0.05; done; " }

// TestTheShipperIsKilledRatherThanTheCommand has a command use what is left of its
// container's memory.
func TestTheShipperIsKilledRatherThanTheCommand(t *testing.T) {
	t.Parallel()
	memory := proctest.NewCgroup(t, limit)
	s := serve(t)
	turn := filepath.Join(t.TempDir(), "turn")
	cmd := s.command("--", "sh", "-c", "echo before; "+waitingUntil(turn)+`awk -v counter="$1" "$2"; echo it exits with $?; exit 3`, "sh", memory.Counter(), useMemory)
	memory.Within(cmd)
	wait := s.start(cmd)
	s.waitFor("stdout", "before\n")
	require.Len(t, shippers(cmd.Process.Pid), 1)
	letGoOn(t, turn)
	got := wait()
	require.Equal(t, 3, got.code, got.stderr)
	out := s.stream("stdout")
	require.Equal(t, "before\nit exits with 7\n", string(out.data), "the command was killed, or nobody")
	require.True(t, out.complete)
	require.Positive(t, memory.OOMKills(t))
	require.Contains(t, s.kinds(), "oomKilled")
}

// TestTheLogOfACommandThatRunsOutOfMemoryIsComplete has the kernel kill the command as well.
func TestTheLogOfACommandThatRunsOutOfMemoryIsComplete(t *testing.T) {
	t.Parallel()
	memory := proctest.NewCgroup(t, limit)
	s := serve(t)
	cmd := s.command("--", "sh", "-c", "echo before; exec tail /dev/zero")
	memory.Within(cmd)
	require.Equal(t, 137, s.run(cmd).code)
	out := s.stream("stdout")
	require.Equal(t, "before\n", string(out.data))
	require.True(t, out.complete)
	events := s.events()
	require.Equal(t, "oomKilled", events[len(events)-2]["event"])
	require.EqualValues(t, memory.OOMKills(t), events[len(events)-2]["processes"])
	require.Equal(t, "OOMKilled", events[len(events)-1]["reason"])
}

// TestWhatWasSentBeforeAContainerIsKilledTogetherStays has the kernel kill the supervisor and
// the shipper with the command, as on a node with cgroup v2.
func TestWhatWasSentBeforeAContainerIsKilledTogetherStays(t *testing.T) {
	t.Parallel()
	memory := proctest.NewCgroup(t, limit)
	memory.KillTogether(t)
	s := serve(t)
	turn := filepath.Join(t.TempDir(), "turn")
	cmd := s.command("--", "sh", "-c", "echo before; "+waitingUntil(turn)+"tail /dev/zero; echo after; exit 3")
	memory.Within(cmd)
	require.NoError(t, cmd.Start())
	s.waitFor("stdout", "before\n")
	letGoOn(t, turn)
	var exit *exec.ExitError
	require.ErrorAs(t, cmd.Wait(), &exit)
	require.Equal(t, syscall.SIGKILL, exit.Sys().(syscall.WaitStatus).Signal())
	require.GreaterOrEqual(t, memory.OOMKills(t), 3)
	out := s.stream("stdout")
	require.Equal(t, "before\n", string(out.data))
	require.False(t, out.complete)
}

// TestALackOfMemoryOfAnotherContainerKillsThatOne has a container use up the memory of its
// pod, and not a container that sends its logs and uses little. On a node with cgroup v2, a
// sending process that the kernel preferred would be the end of its whole container. It is
// the same with the memory of a node.
func TestALackOfMemoryOfAnotherContainerKillsThatOne(t *testing.T) {
	t.Parallel()
	pod := proctest.NewCgroup(t, limit)
	sending, greedy := pod.NewChild(t), pod.NewChild(t)
	if pod.V2 {
		sending.KillTogether(t)
		greedy.KillTogether(t)
	}
	s := serve(t)
	turn := filepath.Join(t.TempDir(), "turn")
	cmd := s.command("--", "sh", "-c", "echo before; "+waitingUntil(turn)+"echo after")
	sending.Within(cmd)
	wait := s.start(cmd)
	s.waitFor("stdout", "before\n")
	other := exec.CommandContext(t.Context(), "tail", "/dev/zero")
	greedy.Within(other)
	var exit *exec.ExitError
	require.ErrorAs(t, other.Run(), &exit)
	require.Equal(t, syscall.SIGKILL, exit.Sys().(syscall.WaitStatus).Signal())
	letGoOn(t, turn)
	require.Zero(t, wait().code)
	require.Equal(t, stream{data: []byte("before\nafter\n"), complete: true}, s.stream("stdout"))
}
