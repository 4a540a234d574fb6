// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheTableOfProcessesIsToldFromTheOutput(t *testing.T) {
	said, table := SplitProcesses("hello\n12 o'clock\nPID   COMMAND\n    1 /entrypointer/bin/entrypoint -- sh -c\n   12 sh -c\nbye\n3 times\n")
	require.Equal(t, "hello\n12 o'clock\nbye\n3 times\n", said)
	require.Equal(t, []Process{{1, "/entrypointer/bin/entrypoint -- sh -c"}, {12, "sh -c"}}, table)
	require.Equal(t, "/entrypointer/bin/entrypoint -- sh -c", PID1Command(table))
	require.Empty(t, PID1Command(nil))
}
