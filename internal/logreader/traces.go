// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package logreader

import (
	"context"
	"fmt"

	"github.com/entrypointer/entrypointer/internal/logs/endpoint"
	"github.com/entrypointer/entrypointer/internal/logs/loglist"
	"github.com/entrypointer/entrypointer/internal/objects"
	"github.com/entrypointer/entrypointer/internal/tracelink"
)

// Traces returns where traces are, as the operator has told the log service. Every user of the
// cluster may ask.
func (c *Client) Traces(ctx context.Context) (tracelink.Template, error) {
	var found loglist.Discovery
	request := c.REST.Get().AbsPath("/apis", endpoint.Group, endpoint.Version).SetHeader("Accept", "application/json")
	if err := objects.Read(request.Do(ctx), &found); err != nil {
		return tracelink.Template{}, fmt.Errorf("asking the log service where traces are: %w", err)
	}
	return tracelink.Parse(found.TraceURL)
}
