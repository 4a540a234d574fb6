// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"fmt"
	"strings"
)

// HasFeature reports whether a feature gate of the API server is on. It is off where the
// API server is too old to know it.
func (c *Cluster) HasFeature(ctx context.Context, gate string) (bool, error) {
	metrics, err := c.Kube.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return false, fmt.Errorf("asking for the feature gates of the API server, which are among its metrics: %w", err)
	}
	return enabled(string(metrics), gate), nil
}

// enabled reads a feature gate off the metrics of a component.
func enabled(metrics, gate string) bool {
	_, rest, known := strings.Cut(metrics, `kubernetes_feature_enabled{name="`+gate+`",`)
	line, _, _ := strings.Cut(rest, "\n")
	return known && strings.HasSuffix(line, "} 1")
}
