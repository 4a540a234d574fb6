// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"os"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/entrypointer/entrypointer/internal/signals"
	"github.com/entrypointer/entrypointer/internal/supervisor/console"
	"github.com/entrypointer/entrypointer/internal/supervisor/outcome"
)

// An Output receives the command's stdout and stderr, if they don't go to the
// container's own. It works in the supervisor's one loop, and starts a process for slow
// work.
type Output interface {
	// Flags are the flags that configure the Output.
	Flags() []Flag
	// Enabled reports whether the flags ask for the Output.
	Enabled() bool
	// Open creates the descriptors that replace 1 and 2. After an error, the command
	// uses the container's own.
	Open(start Starter) error
	// Files returns the command's stdout and stderr.
	Files() (stdout, stderr uintptr)
	// Poll appends the descriptors on whose events the caller calls Take.
	Poll(fds []unix.PollFd) []unix.PollFd
	// Advance works without blocking, and returns the time after which to call it again if
	// no event arrives.
	Advance() (pause time.Duration)
	// WriteLine prints a line of the supervisor, in place of stderr.
	WriteLine(line []byte)
	// Event records an event.
	Event(e Event, text string, number int)
	// End is called when the command has ended. Later output isn't taken.
	End()
	// Delivered reports whether all output has reached its destination.
	Delivered() bool
	// DeliveryTimeouts returns how long to wait for Delivered after the end, and the pod's
	// grace period, 0 if that isn't known.
	DeliveryTimeouts() (afterEnd, grace time.Duration)
	// Close is called last. It returns what wasn't delivered and why, or "".
	Close() string
	// StatusChanged reports whether Status has changed since its last call.
	StatusChanged() bool
	// Status returns a JSON object.
	Status() string
}

// A Flag takes a value.
type Flag struct {
	Name, Value string
	Help        string
	// Set parses value. For an invalid value, it returns a hint that says what is
	// valid.
	Set func(value string) (hint string)
}

// A Starter starts a program in addition to the command, with files as its descriptors
// from 0 on. The returned function reports whether the program has ended, and its exit
// code.
type Starter func(path string, argv, env []string, files []uintptr) (ended func() (bool, int), err error)

// Forever is the pause when only a descriptor or a signal can wake the loop.
const Forever = forever

// availableOutput is the Output of this binary, nil if it has none.
var availableOutput Output

func capturesOutput() bool { return availableOutput != nil && availableOutput.Enabled() }

// openOutput connects the Output if the flags ask for it.
func (s *supervision) openOutput() {
	if !capturesOutput() {
		return
	}
	if err := availableOutput.Open(s.startBeside); err != nil {
		s.message = err.Error()
		console.Say(s.message)
		return
	}
	s.output = availableOutput
	console.Redirect(s.output.WriteLine)
}

// startBeside starts a program in addition to the command. The kernel kills it when the
// supervisor ends.
func (s *supervision) startBeside(path string, argv, env []string, files []uintptr) (func() (bool, int), error) {
	attr := &syscall.SysProcAttr{}
	if os.Getpid() != 1 {
		attr.Pdeathsig = syscall.SIGKILL // as for the command, see childAttr
	}
	pid, err := syscall.ForkExec(path, argv, &syscall.ProcAttr{Env: env, Files: files, Sys: attr})
	if err != nil {
		return nil, err
	}
	p := &process{pid: pid}
	s.children = append(s.children, p)
	return func() (bool, int) {
		if !p.ended {
			return false, 0
		}
		s.forget(p)
		return true, outcome.ExitCode(p.status)
	}, nil
}

// forget removes an ended process from the list of children, which repeated probes
// would otherwise fill.
func (s *supervision) forget(p *process) {
	s.children = slices.DeleteFunc(s.children, func(q *process) bool { return q == p })
}

// sleep returns after the pause, or earlier if a signal has arrived since the last call
// returned. Meanwhile it serves the probes and the Output.
func (s *supervision) sleep(pause time.Duration) {
	var fds []unix.PollFd
	if s.prober != nil {
		fds = s.prober.Poll(fds)
	}
	if s.startupProber != nil {
		fds = s.startupProber.Poll(fds)
	}
	if s.heldStop.aliveProber != nil {
		fds = s.heldStop.aliveProber.Poll(fds)
	}
	if s.polled != nil {
		fds = s.polled.Poll(fds)
	}
	if s.output == nil {
		signals.Sleep(pause, fds)
		return
	}
	pause = min(pause, s.output.Advance())
	if s.phase != "" && s.output.StatusChanged() {
		s.setPhase(s.phase)
	}
	signals.Sleep(pause, s.output.Poll(fds))
}

// stdio returns descriptors 0 to 2 for processes that the supervisor starts.
func (s *supervision) stdio(stdin uintptr) []uintptr {
	stdout, stderr := uintptr(1), uintptr(2)
	if s.output != nil {
		stdout, stderr = s.output.Files()
	}
	return []uintptr{stdin, stdout, stderr}
}

// noteStop notes a signal by which the kubelet may be stopping the container, so that its
// grace period begins. The image chooses this signal (STOPSIGNAL). A signal that the
// container has outlived by a grace period was another one.
func (s *supervision) noteStop(sig syscall.Signal) {
	_, grace := s.output.DeliveryTimeouts()
	if signals.CanHold(sig) && (s.graceBegan.IsZero() || time.Since(s.graceBegan) > grace) {
		s.graceBegan = time.Now()
	}
}

// wasStopped reports whether the kubelet may have stopped the container.
func (s *supervision) wasStopped() bool {
	return s.stopCame() || s.graceLeft() > 0
}

// graceLeft returns the rest of the grace period, 0 if none has begun.
func (s *supervision) graceLeft() time.Duration {
	_, grace := s.output.DeliveryTimeouts()
	if s.graceBegan.IsZero() {
		return 0
	}
	return max(grace-time.Since(s.graceBegan), 0)
}

const (
	// killMargin is the time between the end of the delivery and the kubelet's SIGKILL, if
	// the grace period is at least twice as long.
	killMargin = 2 * time.Second
	// deliveryAfterStop bounds the delivery of a container that was stopped: a preStop hook
	// may have taken most of the grace period.
	deliveryAfterStop = 10 * time.Second
)

// deliver waits until the output is delivered, for as long as the Output's patience and
// the pod's grace period allow. A signal that arrives meanwhile may begin the grace period.
func (s *supervision) deliver() {
	if s.output == nil {
		return
	}
	s.output.End()
	s.event(EventFinished, string(s.reason), s.exitCode)
	afterEnd, grace := s.output.DeliveryTimeouts()
	if s.wasStopped() {
		afterEnd = min(afterEnd, deliveryAfterStop)
	}
	deadline := time.Now().Add(afterEnd)
	_ = s.until(func() time.Duration {
		left := time.Until(deadline)
		if rest := s.graceLeft(); rest > 0 {
			left = min(left, rest-min(killMargin, grace/2))
		}
		if s.output.Delivered() || left <= 0 {
			return done
		}
		return left
	})
	console.Redirect(nil)
	if missing := s.output.Close(); missing != "" {
		s.message = missing
		console.Say(missing)
	}
}

// QuoteJSON returns value as a JSON string.
func QuoteJSON(value string) string {
	var o object
	o.quoted(value)
	return string(o.buf)
}
