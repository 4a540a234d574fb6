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

// A contentRange is the value of a Content-Range: a range, and the length of the stream
// if the client knows it.
type contentRange struct {
	streams.Range // empty for "*"
	total         int64
	isLast        bool // total is known
}

var errContentRange = errors.New("use bytes 0-5/* for a range, bytes 0-5/6 for the last range of a stream of 6 bytes, or bytes */6 for the end alone")

// parseContentRange parses a Content-Range (RFC 9110, 14.4).
func parseContentRange(value string) (c contentRange, err error) {
	rest, ok := strings.CutPrefix(value, "bytes ")
	where, total, found := strings.Cut(rest, "/")
	if !ok || !found {
		return c, fmt.Errorf("%.100q: %w", value, errContentRange)
	}
	if total != "*" {
		c.isLast = true
		if c.total, ok = parseOffset(total); !ok {
			return c, fmt.Errorf("%.100q: %w", value, errContentRange)
		}
	}
	if where == "*" {
		if !c.isLast {
			return c, fmt.Errorf("%.100q: %w", value, errContentRange)
		}
		return c, nil
	}
	first, last, _ := strings.Cut(where, "-")
	from, ok1 := parseOffset(first)
	to, ok2 := parseOffset(last)
	if !ok1 || !ok2 || to < from || to == streams.MaxOffset || c.isLast && to >= c.total {
		return c, fmt.Errorf("%.100q: %w", value, errContentRange)
	}
	c.Range = streams.Range{From: from, To: to + 1}
	return c, nil
}

// parseOffset parses an offset. Unlike strconv, it accepts nothing but digits.
func parseOffset(digits string) (int64, bool) {
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	return n, err == nil && n <= streams.MaxOffset
}
