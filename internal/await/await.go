// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package await waits for files: the way in which processes of different
// containers of a pod, which share nothing but volumes, tell each other that
// something has happened.
//
// The kernel says at once when a directory changes (inotify), where it can: a
// limit of watches may be reached, and a sandbox (gVisor, Kata) or a network file
// system may accept the watch and never say anything. So what decides is always a
// look at the files themselves, and there is one at intervals as well: short
// and growing ones where there is no watch, long ones where there is.
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

// Files says what to wait for.
type Files struct {
	// All must hold at the same time. None hold at once.
	All []Condition
	// Abort ends the waiting as soon as one of them holds.
	Abort []Condition
}

// A Waiter waits for files, perhaps several times.
type Waiter struct {
	// Interrupt ends the waiting, too, if it isn't nil. It is asked at each look:
	// once a second or more often.
	Interrupt func() bool

	files    Files
	watching bool // else there was no need to watch yet
	watch    watch
}

// NewWaiter returns one, to be closed. Nothing is watched before its first Wait.
func NewWaiter(f Files) *Waiter { return &Waiter{files: f} }

// Close ends the watching. It may take the kernel 20 ms, for it waits until no
// processor looks at what is watched, so there may be a better moment than the one
// at which the waiting is over.
func (w *Waiter) Close() {
	if w.watching {
		w.watching = false
		w.watch.close()
	}
}

// Result is why the waiting ended.
type Result int

// The results. A file that can't be looked at for another reason than that it
// isn't there is Unknown, at once: waiting doesn't make it better.
const (
	Met Result = iota
	Aborted
	Unknown
	TimedOut
	Interrupted
)

// The times between two looks.
const (
	// watched is for a directory that inotify watches. Tekton's entrypoint,
	// which never watches, looks as often.
	watched = time.Second
	// Unwatched, they grow from first to last by half.
	first = 20 * time.Millisecond
	last  = 250 * time.Millisecond
	// settle is between two looks in a directory in which much happens.
	settle = 2 * time.Millisecond
)

// Wait returns when the waiting is over, and the error that makes it Unknown. The
// limit is the longest time to wait; zero is for ever. Then one may wait again.
func (w *Waiter) Wait(limit time.Duration) (Result, error) {
	var deadline time.Time
	if limit > 0 {
		deadline = time.Now().Add(limit)
	}
	if !w.watching {
		// Most often there is nothing to wait for, or everything.
		if result, done, err := w.look(); done {
			return result, err
		}
		w.watching, w.watch = true, newWatch(w.files.directories())
	}
	changed := false
	for interval := first; ; interval = min(interval*3/2, last) {
		// After the watch began, or what happened before would be missed.
		if result, done, err := w.look(); done {
			return result, err
		}
		if changed {
			time.Sleep(settle)
		}
		pause := interval
		if w.watch.complete() {
			pause = watched
		}
		if limit > 0 {
			left := time.Until(deadline)
			if left <= 0 {
				return TimedOut, nil
			}
			pause = min(pause, left)
		}
		changed = w.watch.sleep(pause)
	}
}

func (w *Waiter) look() (_ Result, done bool, _ error) {
	result, done, err := w.files.look()
	if !done && w.Interrupt != nil && w.Interrupt() {
		return Interrupted, true, nil
	}
	return result, done, err
}

// Aborts reports whether one of the files is there that end the waiting.
func (f Files) Aborts() bool {
	return slices.ContainsFunc(f.Abort, func(c Condition) bool {
		holds, err := c.holds()
		return err == nil && holds
	})
}

// look looks at the files.
func (f Files) look() (_ Result, done bool, _ error) {
	met := true
	for _, c := range f.All {
		holds, err := c.holds()
		if err != nil {
			return Unknown, true, err
		}
		met = met && holds
	}
	if met {
		return Met, true, nil
	}
	if f.Aborts() {
		return Aborted, true, nil
	}
	return 0, false, nil
}

// directories are those that the files are in, each once.
func (f Files) directories() []string {
	var list []string
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
	return list
}

func (c Condition) holds() (bool, error) {
	size, there, err := look(c.Path)
	if err == nil && !there && c.OrErr {
		size, there, err = look(c.Path + ".err")
	}
	return there && (!c.Content || size > 0), err
}

func look(path string) (size int64, there bool, _ error) {
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
