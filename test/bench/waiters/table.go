// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of /proc/stat, which Linux fixes for user space (USER_HZ).
const tick = 10 * time.Millisecond

// busyTime is the CPU time that this machine has spent on anything, of all cores.
func busyTime() (time.Duration, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return parseBusy(line)
}

// parseBusy reads the first line of /proc/stat: user, nice, system, idle, iowait, irq,
// softirq, steal and others (proc_stat(5)).
func parseBusy(line string) (time.Duration, error) {
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return 0, fmt.Errorf("reading %q of /proc/stat: it has no times of all CPUs", line)
	}
	var ticks int64
	for _, at := range []int{1, 2, 3, 6, 7} {
		n, err := strconv.ParseInt(fields[at], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("reading %q of /proc/stat: %w", line, err)
		}
		ticks += n
	}
	return time.Duration(ticks) * tick, nil
}

func (b *bench) render() string {
	var s strings.Builder
	fmt.Fprintf(&s, "Median of %d runs of %d s each, of pods with %d containers. A core is 1000 millicores.\n\n", len(b.kinds[0].busy), int(b.long.Seconds()), b.containers)
	s.WriteString("| containers | CPU of the whole node (range) | for each waiting container |\n| --- | ---: | ---: |\n")
	asleep := b.kinds[0].median()
	for _, k := range b.kinds {
		each := ""
		if k.waits {
			each = fmt.Sprintf("%.1f millicores", 1000*(k.median()-asleep)/float64(b.containers))
		}
		fmt.Fprintf(&s, "| %s | %.0f millicores (%.0f to %.0f) | %s |\n", k.name, 1000*k.median(), 1000*slices.Min(k.busy), 1000*slices.Max(k.busy), each)
	}
	return s.String()
}
