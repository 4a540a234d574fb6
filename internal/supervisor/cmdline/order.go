// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cmdline

import (
	"strconv"
	"strings"
	"syscall"

	"github.com/entrypointer/entrypointer/internal/ascii"
	"github.com/entrypointer/entrypointer/internal/order"
	"github.com/entrypointer/entrypointer/internal/signals"
	"github.com/entrypointer/entrypointer/internal/supervisor/outcome"
	"github.com/entrypointer/entrypointer/pkg/conditions"
)

// ParseEnd parses a dependency on the end of a container.
func ParseEnd(value string) (d order.Dependency, ok bool) {
	d, ok = order.ParseDependency(value)
	return d, ok && conditions.Ends.Has(string(d.Condition))
}

// ParseSignal parses a signal name, with or without SIG, or a number.
func ParseSignal(s string) (syscall.Signal, error) {
	for sig := syscall.Signal(1); sig <= signals.Last; sig++ {
		name := signals.Name(sig)
		if ascii.EqualFold(s, name) || ascii.EqualFold(s, strings.TrimPrefix(name, "SIG")) || s == strconv.Itoa(int(sig)) {
			return sig, nil
		}
	}
	return 0, outcome.Own("parsing " + strconv.Quote(s) + ": not a signal: use a name such as TERM or RTMIN+3, or a number from 1 to " + strconv.Itoa(signals.Last))
}
