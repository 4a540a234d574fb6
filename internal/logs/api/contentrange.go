// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/entrypointer/entrypointer/internal/logs/streams"
)

// A contentRange says where bytes belong, and how long the stream is if that is known.
type contentRange struct {
	streams.Range // empty for "*"
	total         int64
	ends          bool // total is known
}

var errContentRange = errors.New("it has to be as in bytes 0-5/*, with the length of the stream in the place of * in the last one, or as in bytes */6 when all bytes are sent")

// parseContentRange reads the value of a Content-Range (RFC 9110, 14.4).
func parseContentRange(value string) (c contentRange, err error) {
	rest, ok := strings.CutPrefix(value, "bytes ")
	where, total, found := strings.Cut(rest, "/")
	if !ok || !found {
		return c, fmt.Errorf("%.100q: %w", value, errContentRange)
	}
	if total != "*" {
		c.ends = true
		if c.total, ok = parseOffset(total); !ok {
			return c, fmt.Errorf("%.100q: %w", value, errContentRange)
		}
	}
	if where == "*" {
		if !c.ends {
			return c, fmt.Errorf("%.100q: %w", value, errContentRange)
		}
		return c, nil
	}
	first, last, _ := strings.Cut(where, "-")
	from, ok1 := parseOffset(first)
	to, ok2 := parseOffset(last)
	if !ok1 || !ok2 || to < from || to == streams.MaxOffset || c.ends && to >= c.total {
		return c, fmt.Errorf("%.100q: %w", value, errContentRange)
	}
	c.Range = streams.Range{From: from, To: to + 1}
	return c, nil
}

// parseOffset reads digits, and nothing that strconv takes beside them.
func parseOffset(digits string) (int64, bool) {
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	return n, err == nil && n <= streams.MaxOffset
}
