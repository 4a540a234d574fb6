// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/entrypointer/entrypointer/internal/signals"
	"github.com/entrypointer/entrypointer/internal/supervisor/console"
	"github.com/entrypointer/entrypointer/internal/supervisor/outcome"
)

// A phase is how far the supervisor has come.
type phase string

const (
	phaseWaiting  phase = "Waiting"     // for other containers or targets, or for files (-wait-file and the like)
	phaseHooks    phase = "BeforeStart" // a before-start hook runs
	phasePaused   phase = "Paused"
	phaseRunning  phase = "Running"
	phaseStopping phase = "Stopping" // the stop signal has arrived, or the supervisor ends the command
	phaseFinished phase = "Finished"
)

// status is the state of the container and its command. docs/reference.md describes its
// JSON.
type status struct {
	phase        phase
	paused       string // the place, in phase Paused
	waiting      waitStatus
	started      time.Time
	startupProbe string // one of the startup constants, "" if the supervisor tries no startupProbe
	finished     time.Time
	ended        bool // the command has ended, and its exit code is known
	exitCode     int  // of the container
	command      int  // exit code of the command
	signal       syscall.Signal
	reason       outcome.Reason
	oomKills     int
	message      string
	logs         string // a JSON object, "" without an Output
}

// maxMessage limits the message, so that a termination message, for which Kubernetes
// allows 4096 bytes, has room for the other fields.
const maxMessage = 1500

// json returns the status as a JSON object in one line. Package encoding/json would
// double the size of the program.
func (s *status) json() []byte {
	var o object
	o.str("phase", string(s.phase))
	if s.paused != "" {
		o.str("paused", s.paused)
	}
	if len(s.waiting.unmet) > 0 {
		o.waitStatus(s.waiting)
	}
	if !s.started.IsZero() {
		o.str("started", s.started.UTC().Format(time.RFC3339Nano))
	}
	if s.startupProbe != "" {
		o.str("startupProbe", s.startupProbe)
	}
	if !s.finished.IsZero() {
		o.str("finished", s.finished.UTC().Format(time.RFC3339Nano))
	}
	if s.reason != "" {
		o.str("reason", string(s.reason))
		o.number("exitCode", s.exitCode)
	}
	if s.ended {
		o.number("commandExitCode", s.command)
	}
	if s.signal != 0 {
		o.str("signal", signals.Name(s.signal))
	}
	if s.oomKills > 0 {
		o.number("oomKills", s.oomKills)
	}
	if s.message != "" {
		o.str("message", s.message[:min(len(s.message), maxMessage)])
	}
	if s.logs != "" {
		o.key("logs")
		o.buf = append(o.buf, s.logs...)
	}
	return o.end()
}

// An object is a JSON object under construction.
type object struct{ buf []byte }

func (o *object) key(name string) {
	if o.buf == nil {
		o.buf = append(o.buf, '{')
	} else {
		o.buf = append(o.buf, ',')
	}
	o.buf = append(o.buf, `"`+name+`":`...)
}

func (o *object) number(name string, value int) {
	o.key(name)
	o.buf = strconv.AppendInt(o.buf, int64(value), 10)
}

// str adds a string field.
func (o *object) str(name, value string) {
	o.key(name)
	o.quoted(value)
}

// maxWaiting limits the number of dependencies in a status, which must not exceed
// maxStatus.
const maxWaiting = 10

// maxSeen limits the length of an observation in a status, for the same reason: another
// container may have written a part of it.
const maxSeen = 120

// maxURL limits the length of a target's URL in a status, for the same reason.
const maxURL = 128

func (o *object) waitStatus(w waitStatus) {
	o.str("waitingSince", w.since.UTC().Format(time.RFC3339Nano))
	o.key("waitingFor")
	for i, u := range w.unmet[:min(len(w.unmet), maxWaiting)] {
		var one object
		if u.URL != "" {
			one.str("url", u.URL[:min(len(u.URL), maxURL)])
		} else {
			one.str("container", u.Name())
			one.str("condition", string(u.Condition))
		}
		one.str("seen", u.Seen[:min(len(u.Seen), maxSeen)])
		o.buf = append(o.buf, "[,"[min(i, 1)])
		o.buf = append(append(o.buf, one.buf...), '}')
	}
	o.buf = append(o.buf, ']')
}

// shortEscapes are the characters with an escape of one letter in JSON.
const shortEscapes = "\b\f\n\r\t"

// quoted appends a string. Invalid UTF-8 becomes the replacement character.
func (o *object) quoted(value string) {
	o.buf = append(o.buf, '"')
	for _, r := range value {
		switch {
		case r == '"' || r == '\\':
			o.buf = append(o.buf, '\\', byte(r))
		case strings.ContainsRune(shortEscapes, r): // like other JSON encoders, so that masking finds a secret in it
			o.buf = append(o.buf, '\\', "bfnrt"[strings.IndexRune(shortEscapes, r)])
		case r < ' ':
			const hex = "0123456789abcdef"
			o.buf = append(o.buf, '\\', 'u', '0', '0', hex[r>>4], hex[r&15])
		default:
			o.buf = append(o.buf, string(r)...)
		}
	}
	o.buf = append(o.buf, '"')
}

func (o *object) end() []byte { return append(o.buf, '}', '\n') }

// A publisher publishes the status in -status-file and in a memfd. "entrypoint status"
// reads the memfd, because a container may have no writable file system. The zero value
// publishes nothing.
type publisher struct {
	memory     int // descriptor of the memfd, 0 if there is none
	file       string
	complained bool
}

// memoryName is the memfd's name, with which its link in /proc begins.
const memoryName = "entrypointer-status"

// openPublisher creates a publisher. It skips the memfd if no option needs a status, to
// save start-up time.
func openPublisher(opts *options) publisher {
	p := publisher{file: opts.statusFile}
	if opts.reports() {
		// Without a memfd, "entrypoint status" derives the status from /proc.
		p.memory, _ = unix.MemfdCreate(memoryName, unix.MFD_CLOEXEC)
		p.memory = max(p.memory, 0)
	}
	return p
}

// reports returns whether the status can contain more than that the command runs.
func (o *options) reports() bool {
	return capturesOutput() || o.waits() || len(o.stopAfter) > 0 || len(o.stopWhen) > 0 || o.startup.Kinds() > 0 || o.hold != 0 || len(o.hooks) > 0 || o.pause != nil || o.timeout != 0 || o.successes != nil ||
		o.statusFile != "" || o.terminationMessage != ""
}

// maxStatus limits a status to the size that Kubernetes allows for a termination
// message.
const maxStatus = 4096

func (p *publisher) publish(json []byte) {
	if p.memory > 0 {
		_ = p.remember(json) // on failure, "entrypoint status" shows the status before
	}
	if p.file == "" {
		return
	}
	// A failed write must not affect the command.
	if err := writeFile(p.file, json); err != nil && !p.complained {
		p.complained = true
		console.Say("writing the status to " + strconv.Quote(p.file) + ": " + err.Error() + ": set status-file to a path in a volume that the container's user may write to")
	}
}

// remember replaces the memfd's content atomically, as a rename does in a directory:
// readers see the content before or after, and all of it.
func (p *publisher) remember(json []byte) error {
	fd, err := unix.MemfdCreate(memoryName, unix.MFD_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := writeAll(fd, json); err != nil {
		return err
	}
	return unix.Dup3(fd, p.memory, unix.O_CLOEXEC)
}

// LeaveTerminationMessage writes a text to the file from which the kubelet reads the
// container's termination message, unless the command has written to it.
func LeaveTerminationMessage(path string, text []byte) {
	if path == "" {
		return
	}
	var st unix.Stat_t
	if unix.Stat(path, &st) == nil && st.Size > 0 {
		return
	}
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CREAT|unix.O_CLOEXEC|unix.O_NONBLOCK, 0o644)
	if err == nil {
		err = writeAll(fd, text)
		_ = unix.Close(fd)
	}
	if err != nil {
		console.Say("writing the termination message to " + strconv.Quote(path) + ": " + err.Error())
	}
}
