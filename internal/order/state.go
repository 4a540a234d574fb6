// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package order

import (
	"errors"
	"strconv"
	"strings"
)

// A Phase is how far a container has come.
type Phase string

// The phases, in their order.
const (
	Preparing Phase = "preparing" // it waits itself, runs hooks, or is paused
	Started   Phase = "started"
	Ready     Phase = "ready"
	Stopping  Phase = "stopping" // its stop signal has come
	// Finishing is the phase of a command that has ended in a container that goes on: it
	// delivers logs, or is paused. The exit code is known.
	Finishing Phase = "finishing"
	Ended     Phase = "ended"
)

// A state is what a container says of one of its incarnations. As text it is these
// lines, in this order, and no others:
//
//	order 1
//	incarnation 6f1e0c9b2a7d4853
//	phase ended
//	exit-code 3
//	beat 0
//
// One that writes to a pipe has another line before the last, with the incarnation that
// reads:
//
//	pipe 0c9b2a7d48536f1e
type state struct {
	incarnation string
	phase       Phase
	exitCode    int    // the container's, once it has ended
	beat        uint64 // grows while it lives, where locks can't be trusted
	pipeReader  string // whose, "" if its command doesn't write to one
}

// maxFile bounds the files of this package, in bytes.
const maxFileSize = 4 << 10

// version is that of the format. All containers of a pod run the same program.
const formatVersion = "1"

func (s state) text() []byte {
	pipe := ""
	if s.pipeReader != "" {
		pipe = "\npipe " + s.pipeReader
	}
	return []byte("order " + formatVersion + "\nincarnation " + s.incarnation + "\nphase " + string(s.phase) +
		"\nexit-code " + strconv.Itoa(s.exitCode) + pipe + "\nbeat " + strconv.FormatUint(s.beat, 10) + "\n")
}

// errGarbage is the error of what no supervisor has written.
var errFormat = errors.New("it is not what a supervisor writes")

// parseState reads what text has written, and nothing else.
func parseState(data string) (s state, err error) {
	rest, ok := strings.CutPrefix(data, "order "+formatVersion+"\n")
	field := func(name string) (value string) {
		var is, ends bool
		rest, is = strings.CutPrefix(rest, name+" ")
		value, rest, ends = strings.Cut(rest, "\n")
		ok = ok && is && ends
		return value
	}
	s.incarnation, s.phase = field("incarnation"), Phase(field("phase"))
	code, failed := strconv.Atoi(field("exit-code"))
	if strings.HasPrefix(rest, "pipe ") {
		s.pipeReader = field("pipe")
		ok = ok && isIncarnation(s.pipeReader)
	}
	beat, failedToo := strconv.ParseUint(field("beat"), 10, 64)
	s.exitCode, s.beat = code, beat
	switch s.phase {
	case Preparing, Started, Ready, Stopping, Finishing, Ended:
	default:
		ok = false
	}
	if !ok || failed != nil || failedToo != nil || code < 0 || code > 255 || !isIncarnation(s.incarnation) || string(s.text()) != data {
		return state{}, errFormat
	}
	return s, nil
}

// incarnationDigits is how long the name of an incarnation is: 64 bits.
const incarnationDigits = 16

func isIncarnation(name string) bool {
	return len(name) == incarnationDigits && strings.Trim(name, "0123456789abcdef") == ""
}

// commandEnded reports whether the command has, so that the exit code is known.
func (p Phase) commandEnded() bool { return p == Finishing || p == Ended }

// commandRuns reports whether the command has been started, and goes on.
func (p Phase) commandRuns() bool { return p == Started || p == Ready || p == Stopping }
