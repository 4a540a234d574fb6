// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A record tells when a part was measured, and what else the machine did then.
type record struct {
	Part  string
	Began time.Time
	Took  time.Duration
	Cores int
	// LoadBefore and LoadAfter are the load averages of a minute: those of the whole machine,
	// with this run.
	LoadBefore, LoadAfter float64
	// Others are the cores that other programs, and other virtual machines, used meanwhile.
	Others float64
	// Beside are the namespaces that existed when the part began.
	Beside int
	// Failed is why the part ended early. The figures that it has are of this run.
	Failed string `json:",omitempty"`
}

// measureRecorded measures a part, and records it.
func (p part) measureRecorded(ctx context.Context, w *world, f *figures) error {
	r := record{Part: p.name, Began: time.Now().UTC().Truncate(time.Second), Cores: runtime.NumCPU()}
	began := time.Now()
	if w.cluster != nil {
		var err error
		if r.Beside, err = countKeys(ctx, "/registry/namespaces/"); err != nil {
			return err
		}
	}
	before, err := w.machine()
	if err != nil {
		return err
	}
	failed := p.measure(ctx, w, f)
	if failed != nil {
		r.Failed = firstLine(failed.Error())
	}
	after, err := w.machine()
	if err != nil {
		return errors.Join(failed, err)
	}
	r.Took = time.Since(began)
	r.LoadBefore, r.LoadAfter = before.load, after.load
	r.Others = max(0, ((after.busy-before.busy)-(after.ours-before.ours)).Seconds()/r.Took.Seconds())
	f.Parts = slices.DeleteFunc(f.Parts, func(former record) bool { return former.Part == p.name })
	f.Parts = append(f.Parts, r)
	slices.SortFunc(f.Parts, func(a, b record) int { return a.Began.Compare(b.Began) })
	log.Printf("measured %s in %v; other programs used %.2f cores", p.name, r.Took.Round(time.Second), r.Others)
	return failed
}

// maxCause bounds the cause of a failure in the page, in bytes.
const maxCause = 200

// firstLine returns the beginning of a text, for a cell of a table.
func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return strings.ReplaceAll(strings.ToValidUTF8(line[:min(len(line), maxCause)], ""), "|", "/")
}

// A machine is what all programs have used so far.
type machine struct {
	load       float64
	busy, ours time.Duration // processor time
}

// machine reads the state of the machine.
func (w *world) machine() (m machine, err error) {
	average, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return m, err
	}
	if m.load, err = loadOf(string(average)); err != nil {
		return m, err
	}
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return m, err
	}
	if m.busy, err = busyOf(string(stat)); err != nil {
		return m, err
	}
	m.ours, err = w.ours()
	return m, err
}

// loadOf returns the load average of a minute of /proc/loadavg.
func loadOf(average string) (float64, error) {
	first, _, _ := strings.Cut(average, " ")
	load, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return 0, fmt.Errorf("reading the load average: %w", err)
	}
	return load, nil
}

// tick is the unit of /proc/stat, USER_HZ, which is the same on all of Go's platforms.
const tick = time.Second / 100

// busyOf returns the processor time that programs, and other virtual machines, have used, by
// /proc/stat: user, nice and system time, and that which was stolen. What interrupts take is
// nobody's.
func busyOf(stat string) (busy time.Duration, _ error) {
	first, _, _ := strings.Cut(stat, "\n")
	fields := strings.Fields(first)
	const user, nice, system, stolen = 1, 2, 3, 8
	if len(fields) <= stolen || fields[0] != "cpu" {
		return 0, fmt.Errorf("reading the processor time of the machine: /proc/stat begins with %q", first)
	}
	for _, i := range []int{user, nice, system, stolen} {
		ticks, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("reading the processor time of the machine: %w", err)
		}
		busy += time.Duration(ticks) * tick
	}
	return busy, nil
}

// ours returns the processor time of this process, of its children that have ended, and of
// those that run.
func (w *world) ours() (total time.Duration, err error) {
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var used unix.Rusage
		if err := unix.Getrusage(who, &used); err != nil {
			return 0, fmt.Errorf("reading the processor time of the run: %w", err)
		}
		total += time.Duration(used.Utime.Nano() + used.Stime.Nano())
	}
	for _, p := range w.running() {
		used, err := p.Usage()
		if err != nil {
			return 0, err
		}
		total += used.CPU
	}
	return total, nil
}
