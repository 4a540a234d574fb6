// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package order

import (
	"errors"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// A Probe describes how to find out whether a command is ready, as the kubelet's probes
// do. Exactly one of Exec, TCP, HTTP and File is set.
type Probe struct {
	Exec    []string // succeeds if the command exits with 0
	TCP     *Endpoint
	HTTP    *Endpoint // succeeds if the response has a code from 200 to 399
	Path    string    // of HTTP, with the query
	Headers []string  // of HTTP, each as NAME: VALUE
	File    string    // succeeds if the file exists, and is not older than Since
	Since   time.Time // zero for any file

	Delay, Period, Timeout time.Duration // Delay precedes the first attempt
}

// Kinds returns how many of Exec, TCP, HTTP and File are set.
func (p *Probe) Kinds() (n int) {
	for _, is := range []bool{p.Exec != nil, p.TCP != nil, p.HTTP != nil, p.File != ""} {
		if is {
			n++
		}
	}
	return n
}

// String names what the probe tries.
func (p *Probe) String() string {
	switch {
	case p.Exec != nil:
		return strconv.Quote(p.Exec[0])
	case p.File != "":
		return p.File
	case p.HTTP != nil:
		return "of port " + strconv.Itoa(p.HTTP.Port)
	}
	return "of port " + strconv.Itoa(p.TCP.Port)
}

// A Runner starts the command of a probe. The function ended reports whether the
// command has ended, and its failure; kill ends the command.
type Runner func(argv []string) (ended func() (over bool, failure error), kill func(), err error)

// A Prober repeats a probe until it succeeds once. It never blocks. Its caller calls
// Act when a descriptor of Poll is ready, and at the time that Act returned last.
type Prober struct {
	probe    *Probe
	method   string // of the HTTP request
	sent     bool   // the last attempt sent its whole request
	run      Runner
	attempt  attempt   // nil between two attempts
	deadline time.Time // of the attempt
	next     time.Time // when the next attempt starts
	began    time.Time // when Act was first called
	failure  error     // of the last finished attempt
	failures int       // number of failed attempts
}

// An attempt is one execution of a probe.
type attempt interface {
	// advance continues without blocking. If the attempt is over, err is its failure,
	// nil for a success.
	advance() (over bool, err error)
	poll(fds []unix.PollFd) []unix.PollFd
	close()
}

// NewProber returns a Prober. The caller closes it.
func NewProber(p *Probe, run Runner) *Prober { return &Prober{probe: p, method: methodGet, run: run} }

// Act starts or continues an attempt. It returns true after a success, and otherwise
// the latest time to call it again.
func (p *Prober) Act() (ready bool, next time.Time) {
	now := time.Now()
	if p.began.IsZero() {
		p.began, p.next = now, now.Add(p.probe.Delay)
	}
	if p.attempt == nil {
		if now.Before(p.next) {
			return false, p.next
		}
		p.deadline, p.next = now.Add(p.probe.Timeout), now.Add(p.probe.Period)
		p.attempt = p.begin()
	}
	over, err := p.attempt.advance()
	if !over && now.Before(p.deadline) {
		return false, p.deadline
	}
	p.Close()
	if !over {
		err = errors.New("it took longer than " + p.probe.Timeout.String())
	}
	p.failure = err
	if err != nil {
		p.failures++
	}
	return err == nil, p.next
}

// Failure returns the time since the first call of Act and the error of the last
// finished attempt, nil if there is none.
func (p *Prober) Failure() (lasting time.Duration, _ error) { return time.Since(p.began), p.failure }

// Failures returns the number of failed attempts.
func (p *Prober) Failures() int { return p.failures }

// Poll appends the descriptors on whose events the caller calls Act.
func (p *Prober) Poll(fds []unix.PollFd) []unix.PollFd {
	if p.attempt == nil {
		return fds
	}
	return p.attempt.poll(fds)
}

// Close ends the current attempt.
func (p *Prober) Close() {
	if p.attempt != nil {
		if c, is := p.attempt.(*connection); is {
			p.sent = c.sent
		}
		p.attempt.close()
		p.attempt = nil
	}
}

func (p *Prober) begin() attempt {
	switch {
	case p.probe.Exec != nil:
		ended, kill, err := p.run(p.probe.Exec)
		return &execAttempt{ended, kill, err}
	case p.probe.File != "":
		return &fileAttempt{p.probe.File, p.probe.Since}
	case p.probe.HTTP != nil:
		c := newConnection(p.probe.HTTP, func(host string) []byte { return formatRequest(p.method, host, p.probe.Path, p.probe.Headers) })
		c.method = p.method
		return c
	default:
		return newConnection(p.probe.TCP, nil)
	}
}

// An execAttempt runs a command.
type execAttempt struct {
	ended func() (over bool, failure error)
	kill  func()
	err   error // why the command was not started
}

func (p *execAttempt) advance() (over bool, err error) {
	if p.err != nil {
		return true, p.err
	}
	over, err = p.ended()
	if over {
		p.kill = nil
	}
	return over, err
}

func (p *execAttempt) poll(fds []unix.PollFd) []unix.PollFd { return fds } // SIGCHLD wakes the caller

func (p *execAttempt) close() {
	if p.kill != nil {
		p.kill()
	}
}

// A fileAttempt checks that a file exists, and that it isn't left from an earlier time.
type fileAttempt struct {
	path  string
	since time.Time
}

var errOldFile = errors.New("the file is older than the command: have the command create it anew")

func (f *fileAttempt) advance() (over bool, err error) {
	var st, link unix.Stat_t
	if err := unix.Stat(f.path, &st); err != nil {
		return true, err
	}
	if f.isNew(&st) || unix.Lstat(f.path, &link) == nil && f.isNew(&link) {
		return true, nil
	}
	return true, errOldFile
}

// isNew looks at the time of the last change (ctime), which a program can't set, and
// which changes when a file is renamed.
func (f *fileAttempt) isNew(st *unix.Stat_t) bool { return !time.Unix(st.Ctim.Unix()).Before(f.since) }

func (*fileAttempt) poll(fds []unix.PollFd) []unix.PollFd { return fds }

func (*fileAttempt) close() {}

// FileTime returns the time that a file would get now. File systems use a clock that
// advances with the kernel's tick, by up to 10 ms, so the clock of time.Now may be ahead
// of the time of a file that was created later.
func FileTime() time.Time {
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &now) != nil {
		return time.Time{} // any file counts
	}
	return time.Unix(now.Unix())
}
