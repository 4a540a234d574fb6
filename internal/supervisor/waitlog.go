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
type waitStatus struct {
	since time.Time
	unmet []order.Unmet
}

// reminders are how long somebody has waited who says so.
var reminderTimes = []time.Duration{10 * time.Second, time.Minute, 10 * time.Minute}

// A patience is what somebody who waits has said already.
type waitLog struct {
	began            time.Time
	remindersPrinted int      // how many of the reminders
	problemsPrinted  []string // dependencies of which it was said that nothing can be known
}

// lines are what is to be said after so long.
func (p *waitLog) dueLines(waited time.Duration, unmet []order.Unmet) (list []string) {
	for _, u := range unmet {
		if name := u.String(); u.Problem && !slices.Contains(p.problemsPrinted, name) {
			p.problemsPrinted = append(p.problemsPrinted, name)
			list = append(list, "waiting for "+name+": "+u.Seen+": delete the pod if that lasts")
		}
	}
	due := p.remindersPrinted
	for due < len(reminderTimes) && waited >= reminderTimes[due] {
		due++
	}
	if due > p.remindersPrinted {
		p.remindersPrinted = due
		list = append(list, "waiting for "+describeUnmet(unmet)+" for "+reminderTimes[due-1].String()+" now")
	}
	return list
}

// listed names dependencies, and what was seen of each.
func describeUnmet(unmet []order.Unmet) string {
	var b strings.Builder
	for i, u := range unmet {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(u.String() + " (" + u.Seen + ")")
	}
	return b.String()
}
