// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package trace

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/supervisor/launch"
)

// TestAContainerWithoutATraceReadsNoEnvironment because most containers have none, and
// each start would pay for it.
func TestAContainerWithoutATraceReadsNoEnvironment(t *testing.T) {
	none := Options{}
	require.Nil(t, none.Begin(&launch.Edits{}, func() []string {
		t.Error("the environment is read")
		return nil
	}))

	ofPod := Options{}
	require.Empty(t, ofPod.setTrace("env:POD_UID"))
	span := ofPod.Begin(&launch.Edits{Unset: []string{"POD_UID"}}, func() []string { return []string{"POD_UID=0af76519-16cd-43dd-8448-eb211c80319c"} })
	require.Equal(t, "0af7651916cd43dd8448eb211c80319c", span.Trace.String())
	require.Empty(t, span.Above())
}
