// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/entrypointer/entrypointer/internal/signals"
	"github.com/entrypointer/entrypointer/internal/supervisor/console"
)

// pauseAt pauses if -pause names this place. The pause lasts until SIGCONT arrives,
// which "entrypoint continue" sends, or an ending signal, which pauseAt returns;
// otherwise it returns 0. A file of -wait-abort ends the pause as well; the command
// then handles that file.
func (s *supervision) pauseAt(place string) (end syscall.Signal) {
	if !slices.Contains(s.opts.pause, place) {
		return 0
	}
	signals.TakePending(syscall.SIGCONT)
	s.paused = place
	defer func() { s.paused = "" }()
	s.setPhase(phasePaused)
	s.event(EventPaused, place, 0)
	console.Say("paused " + place + `: "` + os.Args[0] + ` continue" in this container resumes it`)
	err := s.until(func() time.Duration {
		end = s.pendingEnd()
		switch {
		case end != 0, signals.TakePending(syscall.SIGCONT), s.opts.wait.Aborts():
			return done
		case len(s.opts.wait.Abort) > 0:
			return abortCheckInterval
		}
		return forever
	})
	if err != nil {
		console.Say(err.Error())
	}
	s.event(EventContinued, "", 0)
	return end
}

// abortCheckInterval is the time between two looks for a file that ends a pause.
const abortCheckInterval = 100 * time.Millisecond

// endingSignals ask a process to end, according to signal(7). A STOPSIGNAL of the image
// is added if -stop-signal names it (registerStopSignal); otherwise only the command
// understands it.
var endingSignals = []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGHUP}

// pendingEndSignal returns an ending signal that has arrived and was not forwarded, or
// 0.
func pendingEndSignal() syscall.Signal {
	for _, sig := range endingSignals {
		if signals.IsPending(sig) {
			return sig
		}
	}
	return 0
}

// pendingEnd returns the signal that ends what precedes the command's start: an ending
// signal that has arrived, or SIGTERM if the command isn't needed any more, 0 for none.
func (s *supervision) pendingEnd() syscall.Signal {
	if s.foundUnneeded() {
		return syscall.SIGTERM
	}
	return pendingEndSignal()
}

