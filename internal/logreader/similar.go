// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package logreader

import (
	"context"
	"slices"
	"strings"

	"github.com/entrypointer/entrypointer/internal/printable"
	"github.com/entrypointer/entrypointer/internal/target"
	"github.com/entrypointer/entrypointer/pkg/spelling"
)

const (
	// mostSearched bounds the pods among which a similar name is looked for: the newest.
	mostSearched = 100
	// mostSimilar bounds the names that an error suggests.
	mostSimilar = 3
)

// similarNames ends an error about a name without logs: with names of the same type that have
// some, and how to list all. Users who may not list them learn nothing.
func (c *Client) similarNames(ctx context.Context, t target.Target) string {
	pods, err := c.ListPods(ctx, PodsOptions{Limit: mostSearched})
	if err != nil || len(pods.Pods) == 0 {
		return ""
	}
	var known []string
	for _, p := range pods.Pods {
		name := p.Name
		if label := t.LogLabel(); label != "" {
			name = p.Labels[label]
		}
		known = append(known, printable.Line(name))
	}
	if slices.Contains(known, t.Of) {
		return "" // the name is right, and something else isn't
	}
	text := "; "
	if similar := spelling.Similar(t.Of, known, mostSimilar); len(similar) > 0 {
		text += "similar names have logs: " + strings.Join(similar, ", ") + "; "
	}
	return text + "kubectl entrypointer logs --list -n " + c.Namespace + " shows which pods have logs"
}
