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
)

// An Output is where the command's stdout and stderr go, if it isn't where ours
// went. It does all that it has to do in our one loop, and starts a process for what
// may take long.
type Output interface {
	// Flags are those by which it is asked for.
	Flags() []Flag
	// Asked reports whether they have asked for it.
	Asked() bool
	// Open puts other descriptors in the place of 1 and 2. Without, the command
	// prints to where we did; the error says why.
	Open(start Starter) error
	// Files are the command's stdout and stderr.
	Files() (stdout, stderr uintptr)
	// Poll adds the descriptors that Take wants to be called for.
	Poll(fds []unix.PollFd) []unix.PollFd
	// Take does what there is to do without waiting, and returns when to be called
	// again if nothing comes before.
	Take() (pause time.Duration)
	// Say prints a line of ours, as if the command had.
	Say(line []byte)
	// Event keeps what happened.
	Event(e Event, text string, number int)
	// End is called when the command has ended. What comes after it isn't taken.
	End()
	// Delivered reports whether all that was taken has come to where it goes.
	Delivered() bool
	// Patience is how long to wait for that after the end, and how much time there is
	// for all of it after a SIGTERM, 0 if that isn't known.
	Patience() (afterEnd, afterTerm time.Duration)
	// Close is called last. It returns what wasn't delivered, and why, or "".
	Close() string
	// News reports whether Status says another thing than the last time.
	News() bool
	// Status is a JSON object.
	Status() string
}

// A Flag is one that takes a value.
type Flag struct {
	Name, Value string
	Help        string
	// Set returns what would be right if the value is wrong.
	Set func(value string) (hint string)
}

// A Starter starts a program beside the command. Its descriptors from 0 on are
// these. The function that it returns reports whether it has ended, and its exit code.
type Starter func(path string, argv, env []string, files []uintptr) (ended func() (bool, int), err error)

// Forever is the pause where only a descriptor or a signal can bring news.
const Forever = forever

// available is the output that can be asked for, nil if there is none.
var availableOutput Output

func capturesOutput() bool { return availableOutput != nil && availableOutput.Asked() }

// openOutput has the command print to the output that was asked for, if one was.
func (s *supervision) openOutput() {
	if !capturesOutput() {
		return
	}
	if err := availableOutput.Open(s.startBeside); err != nil {
		s.message = err.Error()
		say(s.message)
		return
	}
	s.output = availableOutput
	write = s.output.Say
}

// startBeside starts a program that isn't the command, and doesn't outlive us.
func (s *supervision) startBeside(path string, argv, env []string, files []uintptr) (func() (bool, int), error) {
	attr := &syscall.SysProcAttr{}
	if os.Getpid() != 1 {
		attr.Pdeathsig = syscall.SIGKILL // as of the command
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
		return true, exitCode(p.status)
	}, nil
}

// forget leaves out a process that has ended: one that is started again and again
// doesn't fill the list.
func (s *supervision) forget(p *process) {
	s.children = slices.DeleteFunc(s.children, func(q *process) bool { return q == p })
}

// sleep returns after the pause, or earlier if a signal has come since it returned
// the last time. Meanwhile it takes what the command prints.
func (s *supervision) sleep(pause time.Duration) {
	var fds []unix.PollFd
	if s.prober != nil {
		fds = s.prober.Poll(fds)
	}
	if s.startupProber != nil {
		fds = s.startupProber.Poll(fds)
	}
	if s.polled != nil {
		fds = s.polled.Poll(fds)
	}
	if s.output == nil {
		sleep(pause, fds)
		return
	}
	s.noteFirstTerm()
	pause = min(pause, s.output.Take())
	if s.phase != "" && s.output.News() {
		s.setPhase(s.phase)
	}
	sleep(pause, s.output.Poll(fds))
}

// stdio are the first descriptors of what we start in the container.
func (s *supervision) stdio(stdin uintptr) []uintptr {
	stdout, stderr := uintptr(1), uintptr(2)
	if s.output != nil {
		stdout, stderr = s.output.Files()
	}
	return []uintptr{stdin, stdout, stderr}
}

// noteTerm takes note of when we were first told to end.
func (s *supervision) noteFirstTerm() {
	if s.firstTerm.IsZero() && (signalCame(syscall.SIGTERM) || s.stopSignalCame()) {
		s.firstTerm = time.Now()
	}
}

// killMargin is how long before the kubelet kills us we end.
const killMargin = 2 * time.Second

// deliver waits until what the command has printed is where it goes, as long as the
// output has patience, and as the pod's grace period lets us.
func (s *supervision) deliver() {
	if s.output == nil {
		return
	}
	s.output.End()
	s.event(EventFinished, string(s.reason), s.exitCode)
	afterEnd, afterTerm := s.output.Patience()
	deadline := time.Now().Add(afterEnd)
	_ = s.until(func() time.Duration {
		s.noteFirstTerm()
		last := deadline
		if kill := s.firstTerm.Add(afterTerm - killMargin); !s.firstTerm.IsZero() && afterTerm > 0 && kill.Before(last) {
			last = kill
		}
		left := time.Until(last)
		if s.output.Delivered() || left <= 0 {
			return done
		}
		return left
	})
	write = writeToStderr
	if missing := s.output.Close(); missing != "" {
		s.message = missing
		say(missing)
	}
}

// QuoteJSON returns a JSON string.
func QuoteJSON(value string) string {
	var o object
	o.quoted(value)
	return string(o.buf)
}
