// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package framework

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestField(t *testing.T) {
	const status = "Name:\tRssAnon:\nVmRSS:\t    1336 kB\nRssAnon:\t      92 kB\nvoluntary_ctxt_switches:\t5\n"
	require.Equal(t, int64(92), field(status, "RssAnon"))
	require.Equal(t, int64(5), field(status, "voluntary_ctxt_switches"))
	require.Zero(t, field(status, "nonvoluntary_ctxt_switches"))
}
