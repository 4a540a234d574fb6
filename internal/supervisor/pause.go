// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"os"
	"slices"
	"syscall"
	"time"
)

// pauseAt holds everything, if that is asked for at this place, until somebody
// sends SIGCONT ("entrypoint continue" does), or asks for the end: it returns
// that signal, or 0. Where a file asks for the end, the command sees to that.
func (s *supervision) pauseAt(place string) (end syscall.Signal) {
	if !slices.Contains(s.opts.pause, place) {
		return 0
	}
	takePending(syscall.SIGCONT)
	s.paused = place
	defer func() { s.paused = "" }()
	s.setPhase(phasePaused)
	s.event(EventPaused, place, 0)
	say("paused " + place + `: "` + os.Args[0] + ` continue" in this container goes on`)
	err := s.until(func() time.Duration {
		end = pendingEndSignal()
		switch {
		case end != 0, takePending(syscall.SIGCONT), s.opts.wait.Aborts():
			return done
		case len(s.opts.wait.Abort) > 0:
			return abortCheckInterval
		}
		return forever
	})
	if err != nil {
		say(err.Error())
	}
	s.event(EventContinued, "", 0)
	return end
}

// aborted is how often a pause looks for a file that ends it.
const abortCheckInterval = 100 * time.Millisecond

// endingSignals are those whose purpose it is to ask for the end, signal(7). An
// image may declare another one as its STOPSIGNAL, which only the command
// understands, unless -stop-signal has it (expectStop).
var endingSignals = []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGHUP}

// askedToEnd returns an ending signal that has come, 0 for none.
func pendingEndSignal() syscall.Signal {
	for _, sig := range endingSignals {
		if isPending(sig) {
			return sig
		}
	}
	return 0
}

// isToEnd reports whether a signal has come by which the kubelet stops containers.
func (s *supervision) endSignalCame() bool {
	return s.stopSignalCame() || slices.ContainsFunc(endingSignals, signalCame)
}

// stoppedBy is the failure of a command that was not started because somebody
// asked for the end before.
func stoppedBy(sig syscall.Signal, during string) *failure {
	return &failure{128 + int(sig), reasonStopped, "ended by " + signalName(sig) + " during " + during + ": the command was not started"}
}
