// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"slices"
	"strings"
	"time"

	"github.com/entrypointer/entrypointer/internal/order"
)

// waiting is who is waited for.
type waiting struct {
	since time.Time
	unmet []order.Unmet
}

// reminders are how long somebody has waited who says so.
var reminders = []time.Duration{10 * time.Second, time.Minute, 10 * time.Minute}

// A patience is what somebody who waits has said already.
type patience struct {
	began    time.Time
	reminded int      // how many of the reminders
	doubted  []string // dependencies of which it was said that nothing can be known
}

// lines are what is to be said after so long.
func (p *patience) lines(waited time.Duration, unmet []order.Unmet) (list []string) {
	for _, u := range unmet {
		if name := u.String(); u.Doubt && !slices.Contains(p.doubted, name) {
			p.doubted = append(p.doubted, name)
			list = append(list, "waiting for "+name+": "+u.Seen+": delete the pod if that lasts")
		}
	}
	due := p.reminded
	for due < len(reminders) && waited >= reminders[due] {
		due++
	}
	if due > p.reminded {
		p.reminded = due
		list = append(list, "waiting for "+listed(unmet)+" for "+reminders[due-1].String()+" now")
	}
	return list
}

// listed names dependencies, and what was seen of each.
func listed(unmet []order.Unmet) string {
	var b strings.Builder
	for i, u := range unmet {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(u.String() + " (" + u.Seen + ")")
	}
	return b.String()
}
