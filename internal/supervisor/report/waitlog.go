// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package report

import (
	"slices"
	"strings"
	"time"

	"github.com/entrypointer/entrypointer/internal/order"
)

// A WaitStatus is what the supervisor waits for, as the status shows it.
type WaitStatus struct {
	Since time.Time
	Unmet []order.Unmet
}

// ReminderTimes are the times after which a wait is mentioned in the log.
var ReminderTimes = []time.Duration{10 * time.Second, time.Minute, 10 * time.Minute}

// A WaitLog is what the supervisor has already printed about a wait.
type WaitLog struct {
	Began            time.Time
	remindersPrinted int      // how many of ReminderTimes
	problemsPrinted  []string // dependencies whose problem was printed
}

// DueLines returns the lines to print after a wait of this length.
func (p *WaitLog) DueLines(waited time.Duration, unmet []order.Unmet) (list []string) {
	for _, u := range unmet {
		if name := u.String(); u.Problem && !slices.Contains(p.problemsPrinted, name) {
			p.problemsPrinted = append(p.problemsPrinted, name)
			list = append(list, "waiting for "+name+": "+u.Seen+": if this lasts, delete the pod")
		}
	}
	due := p.remindersPrinted
	for due < len(ReminderTimes) && waited >= ReminderTimes[due] {
		due++
	}
	if due > p.remindersPrinted {
		p.remindersPrinted = due
		list = append(list, "waiting for "+DescribeUnmet(unmet)+" for "+ReminderTimes[due-1].String()+" now")
	}
	return list
}

// DescribeUnmet lists dependencies, each with the last observation.
func DescribeUnmet(unmet []order.Unmet) string {
	var b strings.Builder
	for i, u := range unmet {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(u.String() + " (" + u.Seen + ")")
	}
	return b.String()
}

// OnlyFailed returns the dependencies that can't be met any more.
func OnlyFailed(unmet []order.Unmet) (failed []order.Unmet) {
	for _, u := range unmet {
		if u.Failed {
			failed = append(failed, u)
		}
	}
	return failed
}
