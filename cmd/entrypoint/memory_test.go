// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/proc/proctest"
)

// little is the memory of a container that runs out of it, in bytes. tail takes it, because
// it keeps the last lines, and /dev/zero has none.
const little = 32 << 20

// lastStatus is the content of the file of -status-file.
func lastStatus(t *testing.T, file string) (s struct {
	Phase, Reason, Signal string
	ExitCode, OOMKills    int
},
) {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &s), "%s", data)
	return s
}

func TestTheStatusSaysThatTheCommandRanOutOfMemory(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		command []string
		signal  string
	}{
		"the command":        {[]string{"tail", "/dev/zero"}, "SIGKILL"},
		"a child of a shell": {[]string{"sh", "-c", "tail /dev/zero; exit $?"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			memory := proctest.NewCgroup(t, little)
			file := filepath.Join(t.TempDir(), "status")
			p := begin(t, append([]string{entrypoint, "-status-file=" + file, "--"}, test.command...), memory.Within)
			require.Equal(t, 137, p.end())
			require.Equal(t, 1, memory.OOMKills(t))
			got := lastStatus(t, file)
			require.Equal(t, "Finished", got.Phase)
			require.Equal(t, "OOMKilled", got.Reason)
			require.Equal(t, test.signal, got.Signal)
			require.Equal(t, 137, got.ExitCode)
			require.Equal(t, 1, got.OOMKills)
		})
	}
}

// A child of the command is killed, and the command copes.
func TestARunThatOutlivesALackOfMemoryEndsAsItExits(t *testing.T) {
	t.Parallel()
	memory := proctest.NewCgroup(t, little)
	file := filepath.Join(t.TempDir(), "status")
	p := begin(t, []string{entrypoint, "-status-file=" + file, "--", "sh", "-c", "tail /dev/zero; exit 3"}, memory.Within)
	require.Equal(t, 3, p.end())
	got := lastStatus(t, file)
	require.Equal(t, "Exited", got.Reason)
	require.Equal(t, 1, got.OOMKills)
}

// TestAContainerThatIsKilledTogetherIsNoticed has the kernel kill the supervisor with its
// command, as on a node with cgroup v2. Nobody is left to publish a status, and a container
// that depends on this one notices that its lock is free.
func TestAContainerThatIsKilledTogetherIsNoticed(t *testing.T) {
	t.Parallel()
	memory := proctest.NewCgroup(t, little)
	memory.KillTogether(t)
	dir, file := orderDir(t), filepath.Join(t.TempDir(), "status")
	waiting := web(t, dir, "-depends-on=exited")
	waits(t, waiting)
	p := begin(t, []string{entrypoint, "-status-file=" + file, "-order-dir=" + dir, "--", "sh", "-c", "tail /dev/zero; exit 3"}, memory.Within)
	require.Equal(t, 137, p.end())
	require.GreaterOrEqual(t, memory.OOMKills(t), 2)
	require.Equal(t, "Running", lastStatus(t, file).Phase)
	isStarted(t, waiting)
}
