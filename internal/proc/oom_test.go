// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package proc

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOOMKillsOfBothVersionsOfCgroups(t *testing.T) {
	for data, want := range map[string]int{
		"low 0\nhigh 0\nmax 5\noom 2\noom_kill 3\noom_group_kill 0\n": 3,
		"oom_kill_disable 0\nunder_oom 0\noom_kill 1\n":               1,
		"oom_kill_disable 0\nunder_oom 0\n":                           0,
		"oom_kill x":                                                  0,
		"":                                                            0,
	} {
		require.Equal(t, want, parseOOMKills(data), "%q", data)
	}
}

func TestTheMemoryOfAContainerBelongsToOneVersionOfCgroups(t *testing.T) {
	for data, want := range map[string]struct {
		v1   bool
		path string
	}{
		"0::/\n":                          {path: "/"},
		"0::/kubepods/pod1/container:1\n": {path: "/kubepods/pod1/container:1"},
		"9:memory:/kubepods/pod1\n2:cpu,cpuacct:/\n0::/\n": {v1: true},
		"0::/unified\n4:cpuset,memory:/\n":                 {v1: true},
		"1:name=memory:/\n0::/x\n":                         {path: "/x"},
		"":                                                 {},
		"memory":                                           {},
	} {
		v1, path := memoryCgroup(data)
		require.Equal(t, want.v1, v1, "%q", data)
		require.Equal(t, want.path, path, "%q", data)
	}
}
