// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package order

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// A Probe is how to find out whether a command is ready, as the kubelet would: one of
// Exec, TCP, HTTP and File.
type Probe struct {
	Exec    []string // a command that exits with 0
	TCP     *Endpoint
	HTTP    *Endpoint // that answers with a code from 200 to 399
	Path    string    // of HTTP, and its query
	Headers []string  // NAME: VALUE
	File    string    // that exists

	Delay, Period, Timeout time.Duration // Delay is what comes before the first try
}

// Kinds is how many there are of Exec, TCP, HTTP and File.
func (p *Probe) Kinds() (n int) {
	for _, is := range []bool{p.Exec != nil, p.TCP != nil, p.HTTP != nil, p.File != ""} {
		if is {
			n++
		}
	}
	return n
}

// A Runner starts a command of a probe. It returns what says whether that has ended, and
// with which failure if it has, and what ends it.
type Runner func(argv []string) (ended func() (over bool, failure error), kill func(), err error)

// A Prober tries a probe until it succeeds once. It waits for nothing: its caller calls
// Act when one of the descriptors of Poll is ready, and when it is time to.
type Prober struct {
	probe    *Probe
	method   string // of an HTTP request
	sent     bool   // the last one was, as a whole
	run      Runner
	attempt  attempt   // nil between two
	deadline time.Time // of the attempt
	next     time.Time // when the next attempt begins
	began    time.Time // with the first
	failure  error     // of the last one that is over
	failures int       // attempts that failed
}

// An attempt is one try.
type attempt interface {
	// advance does what can be done at once. The error is why it is over, if it failed.
	advance() (over bool, err error)
	poll(fds []unix.PollFd) []unix.PollFd
	close()
}

// NewProber returns a Prober, to be closed.
func NewProber(p *Probe, run Runner) *Prober { return &Prober{probe: p, method: methodGet, run: run} }

// Act does what is due, and returns whether the command is ready, or else when to be
// called again at the latest.
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

// Failure is for how long attempts have failed, and how the last one did; nil if none is
// over.
func (p *Prober) Failure() (lasting time.Duration, _ error) { return time.Since(p.began), p.failure }

// Failures is how many attempts have failed.
func (p *Prober) Failures() int { return p.failures }

// Poll adds the descriptors that may bring news.
func (p *Prober) Poll(fds []unix.PollFd) []unix.PollFd {
	if p.attempt == nil {
		return fds
	}
	return p.attempt.poll(fds)
}

// Close ends the attempt that is under way.
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
		return fileAttempt(p.probe.File)
	case p.probe.HTTP != nil:
		c := newConnection(p.probe.HTTP, func(host string) []byte { return formatRequest(p.method, host, p.probe.Path, p.probe.Headers) })
		c.method = p.method
		return c
	default:
		return newConnection(p.probe.TCP, nil)
	}
}

// A program is an attempt by a command.
type execAttempt struct {
	ended func() (over bool, failure error)
	kill  func()
	err   error // why it wasn't started
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

func (p *execAttempt) poll(fds []unix.PollFd) []unix.PollFd { return fds } // a signal tells

func (p *execAttempt) close() {
	if p.kill != nil {
		p.kill()
	}
}

// A file is an attempt by a look at one.
type fileAttempt string

func (f fileAttempt) advance() (over bool, err error) {
	var st unix.Stat_t
	return true, unix.Stat(string(f), &st)
}

func (fileAttempt) poll(fds []unix.PollFd) []unix.PollFd { return fds }

func (fileAttempt) close() {}
