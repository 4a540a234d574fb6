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

// A waitStatus is what the supervisor waits for, as the status shows it.
type waitStatus struct {
	since time.Time
	unmet []order.Unmet
}

// reminderTimes are the times after which a wait is mentioned in the log.
var reminderTimes = []time.Duration{10 * time.Second, time.Minute, 10 * time.Minute}

// A waitLog is what the supervisor has already printed about a wait.
type waitLog struct {
	began            time.Time
	remindersPrinted int      // how many of reminderTimes
	problemsPrinted  []string // dependencies whose problem was printed
}

// dueLines returns the lines to print after a wait of this length.
func (p *waitLog) dueLines(waited time.Duration, unmet []order.Unmet) (list []string) {
	for _, u := range unmet {
		if name := u.String(); u.Problem && !slices.Contains(p.problemsPrinted, name) {
			p.problemsPrinted = append(p.problemsPrinted, name)
			list = append(list, "waiting for "+name+": "+u.Seen+": if this lasts, delete the pod")
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

// describeUnmet lists dependencies, each with the last observation.
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
