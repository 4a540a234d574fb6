// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAFeatureGateIsReadOffTheMetrics(t *testing.T) {
	const metrics = `# TYPE kubernetes_feature_enabled gauge
kubernetes_feature_enabled{name="Alpha",stage="ALPHA"} 0
kubernetes_feature_enabled{name="AlphaOn",stage="ALPHA"} 1
kubernetes_feature_enabled{name="General",stage=""} 1
`
	for gate, want := range map[string]bool{"Alpha": false, "AlphaOn": true, "General": true, "Al": false, "Unknown": false} {
		require.Equal(t, want, enabled(metrics, gate), gate)
	}
}
