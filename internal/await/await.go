// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package await waits for files. Processes of different containers of a pod share
// nothing but volumes, and notify each other by files. Package order implements a
// Source of its own for the files that it defines.
//
// The kernel notifies of changes in a directory (watch.go). Some sandboxes (gVisor,
// Kata) and network file systems accept the watch and never send a notification. So the
// Waiter always decides by looking at the files, and also looks at intervals: long ones
// if all directories are watched, and short, growing ones otherwise.
//
// The package doesn't sleep. Its caller does, and can wait for other events at the same
// time.
package await

import (
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// A File is what has to exist.
type File struct {
	Path string
	// Content requires a file that isn't empty; otherwise the file only has to exist.
	// Symbolic links are followed, because the files of the downward API are symbolic
	// links.
	Content bool
	// OrErr accepts the path with the suffix .err, too.
	OrErr bool
}

// A Source is what a Waiter waits for.
type Source interface {
	// Look checks the source once. The state is Waiting if there is an error.
	Look() (State, error)
	// Directories returns directories that change before Look can return another state:
	// a file is created in or moved into one of them, or, if written is true, written
	// to. It returns none if the kernel's notifications can't be relied on.
	Directories() (paths []string, written bool)
	// Interval is the longest time between two looks.
	Interval() time.Duration
}

// Files is a Source of files.
type Files struct {
	// All files must be there at the same time. An empty list is satisfied
	// immediately.
	All []File
	// Instead stands for All: once all of its files are there, the files of All needn't
	// be. An empty list stands for nothing.
	Instead []File
	// Abort ends the wait as soon as one of its files is there.
	Abort []File
}

// A State is the result of a look.
type State int

const (
	// Waiting means that neither Met nor Aborted applies yet.
	Waiting State = iota
	// Met means that all files are there. It takes precedence over Aborted.
	Met
	// Aborted means that a file is there that ends the wait.
	Aborted
	// TimedOut means that the time limit has passed.
	TimedOut
	// Unknown means that looks have failed for some time, for another reason than a
	// missing file. Err returns the reason.
	Unknown
	// Failed means that the source can't be met any more.
	Failed
)

// The times between two looks.
const (
	// watchedInterval applies if all directories are watched. Tekton's entrypoint polls
	// as often, without a watch.
	watchedInterval = time.Second
	// Without a watch, the interval grows from firstInterval to lastInterval with the
	// time waited.
	firstInterval = 20 * time.Millisecond
	lastInterval  = 250 * time.Millisecond
	// minInterval bounds the rate of looks in a directory that changes often.
	minInterval = 2 * time.Millisecond
)

// errorTolerance is the time for which a Waiter repeats a failing look: a disk, a
// server or a mount may come back.
const errorTolerance = 5 * time.Second

// A Waiter looks at its source until the state is another one than Waiting.
type Waiter struct {
	source Source
	limit  time.Duration // 0 means none
	watch  Watch

	state        State
	err          error // of the last look
	firstLook    time.Time
	lastLook     time.Time
	postponed    bool      // a look was requested less than minInterval after the last
	failingSince time.Time // zero if the last look succeeded
}

// NewWaiter returns a Waiter. The caller closes it. The limit is the longest wait, from
// the first look on; 0 means no limit.
func NewWaiter(s Source, limit time.Duration) *Waiter {
	return &Waiter{source: s, limit: limit, watch: NewWatch(s.Directories())}
}

// Look looks at the source and returns its state. Any state but Waiting is final.
//
// While the state is Waiting, each call arms the watch: the kernel sends SIGCHLD to
// this process at the next change in the source's directories. The caller calls Look
// again after that signal, or after Pause.
func (w *Waiter) Look() State {
	now := time.Now()
	switch {
	case w.state != Waiting:
		return w.state
	case w.firstLook.IsZero():
		w.firstLook = now
		// Most sources are met, or not needed, at the first look; no watch is set up
		// for them.
		if w.look(now) != Waiting {
			return w.state
		}
	case now.Sub(w.lastLook) < minInterval:
		w.postponed = true
		return Waiting
	}
	// The watch comes before the look. Otherwise a change between the two would be
	// missed.
	w.watch.Arm()
	return w.look(now)
}

func (w *Waiter) look(now time.Time) State {
	w.lastLook, w.postponed = now, false
	w.state, w.err = w.source.Look()
	if w.err == nil {
		w.failingSince = time.Time{}
	} else if w.failingSince.IsZero() {
		w.failingSince = now
	}
	switch {
	case w.state != Waiting:
	case w.err != nil && now.Sub(w.failingSince) >= errorTolerance:
		w.state = Unknown
	case w.limit > 0 && now.Sub(w.firstLook) >= w.limit:
		w.state = TimedOut
	}
	return w.state
}

// Pause returns the time until the next look is due, if no signal arrives before. It is
// a second or less.
func (w *Waiter) Pause() time.Duration {
	interval := w.source.Interval()
	switch {
	case w.postponed:
		interval = minInterval
	case !w.watch.complete() || w.err != nil:
		interval = min(max(time.Since(w.firstLook)/3, firstInterval), lastInterval)
	}
	if w.limit > 0 {
		interval = min(interval, w.limit-w.lastLook.Sub(w.firstLook))
	}
	return max(interval-time.Since(w.lastLook), 0)
}

// Err is the error of the last look, nil if it succeeded.
func (w *Waiter) Err() error { return w.err }

// Close removes the watch.
func (w *Waiter) Close() { w.watch.close() }

// Look checks the files once. The state is Waiting if there is an error.
func (f Files) Look() (State, error) {
	met, err := all(f.All)
	if !met && len(f.Instead) > 0 {
		if instead, failed := all(f.Instead); instead && failed == nil {
			return Met, nil
		}
	}
	switch {
	case err != nil:
		return Waiting, err
	case met:
		return Met, nil
	}
	if f.Aborts() {
		return Aborted, nil
	}
	return Waiting, nil
}

// all reports whether all files are there.
func all(files []File) (met bool, _ error) {
	met = true
	for _, c := range files {
		holds, err := c.holds()
		if err != nil {
			return false, err
		}
		met = met && holds
	}
	return met, nil
}

// Aborts reports whether a file of Abort is there.
func (f Files) Aborts() bool {
	return slices.ContainsFunc(f.Abort, func(c File) bool {
		holds, err := c.holds()
		return err == nil && holds
	})
}

// Interval is that of Tekton's entrypoint.
func (f Files) Interval() time.Duration { return watchedInterval }

// Directories returns the directories of all files, without duplicates.
func (f Files) Directories() (list []string, written bool) {
	add := func(path string) {
		dir := filepath.Dir(path)
		if !slices.Contains(list, dir) {
			list = append(list, dir)
		}
	}
	for _, c := range f.All {
		add(c.Path)
	}
	for _, c := range f.Instead {
		add(c.Path)
	}
	for _, c := range f.Abort {
		add(c.Path)
	}
	return list, true
}

func (f File) holds() (bool, error) {
	size, there, err := statPath(f.Path)
	if err == nil && !there && f.OrErr {
		size, there, err = statPath(f.Path + ".err")
	}
	return there && (!f.Content || size > 0), err
}

func statPath(path string) (size int64, there bool, _ error) {
	var st unix.Stat_t
	for {
		switch err := unix.Stat(path, &st); err {
		case nil:
			return st.Size, true, nil
		case unix.ENOENT:
			return 0, false, nil
		case unix.EINTR:
		default:
			return 0, false, &Error{path, err}
		}
	}
}

// Error is a failure to look at a file.
type Error struct {
	Path string
	Err  error
}

// Error names the file and the cause.
func (e *Error) Error() string { return "waiting for " + e.Path + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
