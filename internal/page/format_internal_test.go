// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/runs"
)

func TestASizeHasAUnitOfWhichThereAreFew(t *testing.T) {
	t.Parallel()
	for bytes, want := range map[int64]string{
		0: "0 B", 1: "1 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 102_348: "99.9 KiB", 102_399: "100 KiB", 1_047_552: "1023 KiB", 1_048_063: "1023 KiB", 1_048_064: "1.0 MiB", 1_048_575: "1.0 MiB",
		5 << 30: "5.0 GiB", 1 << 60: "1.0 EiB",
	} {
		short, exact := size(runs.Printed{Bytes: bytes, IsKnown: true})
		require.Equal(t, want, short, bytes)
		require.Regexp(t, `^\d+ bytes$`, exact)
	}
	short, exact := size(runs.Printed{Bytes: 1536, IsKnown: true, IsMore: true})
	require.Equal(t, "> 1.5 KiB", short)
	require.Equal(t, "more than 1536 bytes", exact)
	for _, unknown := range []runs.Printed{{}, {IsMore: true}, {IsKnown: true, IsMore: true}} {
		short, exact = size(unknown)
		require.Empty(t, short+exact)
	}
}
