// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package await waits for files: the way in which processes of different
// containers of a pod, which share nothing but volumes, tell each other that
// something has happened. What else is told by files (package order) is a Source,
// too.
//
// The kernel says at once when a directory changes (watch.go), where it can: a
// sandbox (gVisor, Kata) or a network file system may accept the watch and never
// say anything. So what decides is always a look at the files themselves, and
// there is one at intervals as well: short and growing ones where there is no
// watch, long ones where there is.
//
// The package doesn't sleep. Its caller does, and may wait for other things
// meanwhile.
package await

import (
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// A Condition is a file to wait for.
type Condition struct {
	Path string
	// Content asks for a file that isn't empty, as opposed to one that exists.
	// Symbolic links are followed: the downward API's files are some.
	Content bool
	// OrErr takes the same name with .err for it, too.
	OrErr bool
}

// A Source is what a Waiter looks at.
type Source interface {
	// Look looks once. The state is Waiting if there is an error.
	Look() (State, error)
	// Directories are those in which a file gets a name, or is written to if written
	// is true, before a look finds another state; none if the kernel can't be trusted
	// to tell.
	Directories() (paths []string, written bool)
	// Interval is the longest time between two looks.
	Interval() time.Duration
}

// Files says what to wait for.
type Files struct {
	// All must hold at the same time. None hold at once.
	All []Condition
	// Abort ends the waiting as soon as one of them holds.
	Abort []Condition
}

// A State is how far the waiting is.
type State int

const (
	// Waiting is neither Met nor Aborted yet.
	Waiting State = iota
	// Met says that all files are there, whatever else is.
	Met
	// Aborted says that a file is there that ends the waiting.
	Aborted
	// TimedOut says that the limit was reached.
	TimedOut
	// Unknown says that for a while now a file can't be looked at, for another reason
	// than that it isn't there. Err says why.
	Unknown
	// Failed says that what is waited for won't come any more.
	Failed
)

// The times between two looks.
const (
	// watched is for files whose directories are all watched. Tekton's entrypoint,
	// which never watches, looks as often.
	watchedInterval = time.Second
	// Unwatched, they grow from first to last with the time that was waited.
	firstInterval = 20 * time.Millisecond
	lastInterval  = 250 * time.Millisecond
	// settle is the shortest one, in a directory in which much happens.
	minInterval = 2 * time.Millisecond
)

// patience is for how long a file that can't be looked at is looked at again: a
// disk, a server or a mount may come back.
const errorTolerance = 5 * time.Second

// A Waiter waits until its source has another state than Waiting.
type Waiter struct {
	source Source
	limit  time.Duration // 0 is none
	watch  watch

	state        State
	err          error     // of the last look
	firstLook    time.Time // with the first look
	lastLook     time.Time // when the last one was
	postponed    bool      // somebody has asked for one since, too soon after it
	failingSince time.Time // since when looks fail, zero if they don't
}

// NewWaiter returns a Waiter, to be closed. The limit is the longest time to
// wait from the first look on; zero is for ever.
func NewWaiter(s Source, limit time.Duration) *Waiter {
	return &Waiter{source: s, limit: limit, watch: newWatch(s.Directories())}
}

// Look looks at the source and returns the state. Once it is another one than
// Waiting, it stays.
//
// The first look that finds Waiting makes the kernel send SIGCHLD to this
// process as soon as something happens in the source's directories; each that
// follows does so again. After the signal, or after Pause, is the time to look.
func (w *Waiter) Look() State {
	now := time.Now()
	switch {
	case w.state != Waiting:
		return w.state
	case w.firstLook.IsZero():
		w.firstLook = now
		// Most often there is nothing to wait for, or everything.
		if w.look(now) != Waiting {
			return w.state
		}
	case now.Sub(w.lastLook) < minInterval:
		w.postponed = true
		return Waiting
	}
	// Before the look, or what happens in between would be missed.
	w.watch.arm()
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

// Pause returns the time until the next look is due, if no signal comes before:
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

// Err is why a file can't be looked at, nil if it can.
func (w *Waiter) Err() error { return w.err }

// Close ends the watching.
func (w *Waiter) Close() { w.watch.close() }

// Look looks at the files once. The state is Waiting if there is an error.
func (f Files) Look() (State, error) {
	met := true
	for _, c := range f.All {
		holds, err := c.holds()
		if err != nil {
			return Waiting, err
		}
		met = met && holds
	}
	if met {
		return Met, nil
	}
	if f.Aborts() {
		return Aborted, nil
	}
	return Waiting, nil
}

// Aborts reports whether one of the files is there that end the waiting.
func (f Files) Aborts() bool {
	return slices.ContainsFunc(f.Abort, func(c Condition) bool {
		holds, err := c.holds()
		return err == nil && holds
	})
}

// Interval is that of Tekton's entrypoint.
func (f Files) Interval() time.Duration { return watchedInterval }

// Directories are those that the files are in, each once.
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
	for _, c := range f.Abort {
		add(c.Path)
	}
	return list, true
}

func (c Condition) holds() (bool, error) {
	size, there, err := statPath(c.Path)
	if err == nil && !there && c.OrErr {
		size, there, err = statPath(c.Path + ".err")
	}
	return there && (!c.Content || size > 0), err
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

// Error is why a file can't be looked at.
type Error struct {
	Path string
	Err  error
}

// Error names the file.
func (e *Error) Error() string { return "waiting for " + e.Path + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
