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
