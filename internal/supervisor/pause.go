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
func (s *supervision) pauseAt(place string) syscall.Signal {
	if !slices.Contains(s.opts.pause, place) {
		return 0
	}
	takePending(syscall.SIGCONT)
	s.paused = place
	defer func() { s.paused = "" }()
	s.report(phasePaused)
	say("paused " + place + `: "` + os.Args[0] + ` continue" in this container goes on`)
	for {
		if sig := askedToEnd(); sig != 0 {
			return sig
		}
		if takePending(syscall.SIGCONT) || s.opts.wait.Aborts() {
			return 0
		}
		time.Sleep(glance)
	}
}

// endingSignals are those whose purpose it is to ask for the end, signal(7). An
// image may declare another one as its STOPSIGNAL, which only the command
// understands.
var endingSignals = []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGHUP}

// askedToEnd returns an ending signal that has come, 0 for none.
func askedToEnd() syscall.Signal {
	for _, sig := range endingSignals {
		if pending(sig) {
			return sig
		}
	}
	return 0
}

// stopped is the failure of a command that was not started because somebody
// asked for the end before.
func stopped(sig syscall.Signal, during string) *failure {
	return &failure{128 + int(sig), reasonStopped, "ended by " + signalName(sig) + " during " + during + ": the command was not started"}
}
