// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package order

import (
	"strings"

	"golang.org/x/sys/unix"

	"github.com/entrypointer/entrypointer/internal/files"
)

// Beside its state, an incarnation may publish a reason: why its command isn't ready, or
// which container made it fail. The reason is for people only. Its file has the
// incarnation in the first line and the reason in the second.
const (
	reasonName    = "/reason"
	newReasonName = "/reason.new"
)

// exitDependency is the exit code of a container that failed because of another one.
const exitDependency = 123

// maxReason bounds a reason, in bytes.
const maxReason = 200

// PublishReason publishes a text for containers that depend on this one. A failure has no
// effect but that they don't get it.
func (i *Incarnation) PublishReason(text string) {
	fd, err := createFile(i.dir+newReasonName, worldReadable)
	if err != nil {
		return
	}
	err = files.WriteAll(fd, []byte(i.state.incarnation+"\n"+printable(text)+"\n"), i.write)
	_ = unix.Close(fd)
	if err == nil {
		err = unix.Rename(i.dir+newReasonName, i.dir+reasonName)
	}
	if err != nil {
		_ = unix.Unlink(i.dir + newReasonName)
	}
}

// WithdrawReason removes the reason that PublishReason has published.
func (i *Incarnation) WithdrawReason() { _ = unix.Unlink(i.dir + reasonName) }

// readReason returns the reason that an incarnation has published, "" if there is none.
func readReason(dir, incarnation string) string {
	fd, data, err := readRegular(dir + reasonName)
	if err != nil {
		return ""
	}
	_ = unix.Close(fd)
	text, is := strings.CutPrefix(string(data), incarnation+"\n")
	if !is {
		return ""
	}
	return printable(strings.TrimSuffix(text, "\n"))
}

// printable returns text in a form that can be printed: another container wrote it, and is
// not trusted. It has no control characters, which could change a terminal or add lines to
// a log, no characters beyond ASCII, and at most maxReason bytes.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, text[:min(len(text), maxReason)])
}

// mayHaveReason reports whether the incarnation may have published a reason that still
// applies.
func (s observation) mayHaveReason() bool {
	return s.state.phase == Started || s.state.phase.commandEnded() && s.state.exitCode == exitDependency
}

// failedBecause returns which container made this one fail, "" if none did.
func (s observation) failedBecause() string {
	if s.state.phase.commandEnded() && s.state.exitCode == exitDependency {
		return s.reason
	}
	return ""
}

// Culprit says how the container has ended, or, if it failed because of another one, how
// that one has: "db exited with 1".
func (u Unmet) Culprit() string {
	if u.Reason != "" {
		return u.Reason
	}
	return printable(u.Name() + " " + strings.TrimPrefix(u.Seen, "it "))
}
