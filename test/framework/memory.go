// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"encoding/json"
	"fmt"
)

// WorkingSet is the memory that a pod on a node uses, in bytes, as the kubelet sees it.
func (c *Cluster) WorkingSet(ctx context.Context, node, name string) (int64, error) {
	raw, err := c.Kube.CoreV1().RESTClient().Get().Resource("nodes").Name(node).SubResource("proxy").Suffix("stats/summary").DoRaw(ctx)
	if err != nil {
		return 0, fmt.Errorf("reading the statistics of node %q: %w", node, err)
	}
	var summary struct {
		Pods []struct {
			PodRef struct{ Name string }
			Memory struct{ WorkingSetBytes int64 }
		}
	}
	if err := json.Unmarshal(raw, &summary); err != nil {
		return 0, fmt.Errorf("parsing the statistics of node %q: %w", node, err)
	}
	for _, p := range summary.Pods {
		if p.PodRef.Name == name {
			return p.Memory.WorkingSetBytes, nil
		}
	}
	return 0, fmt.Errorf("the statistics of node %q don't mention pod %q", node, name)
}
