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

// The phases, in order.
const (
	Preparing Phase = "preparing" // the supervisor waits, runs hooks, or is paused
	Started   Phase = "started"
	Ready     Phase = "ready"
	Stopping  Phase = "stopping" // the stop signal has arrived
	// Finishing follows the command's end while the supervisor still works: it delivers
	// logs, or is paused. The exit code is final.
	Finishing Phase = "finishing"
	Ended     Phase = "ended"
)

// A state is what a container publishes about one of its incarnations. Its text
// consists of exactly these lines, in this order:
//
//	order 1
//	incarnation 6f1e0c9b2a7d4853
//	phase ended
//	exit-code 3
//	beat 0
//
// If the container's stdout is connected to a pipe, a line with the reader's
// incarnation precedes the last line:
//
//	pipe 0c9b2a7d48536f1e
type state struct {
	incarnation string
	phase       Phase
	exitCode    int    // the container's, in the phases Finishing and Ended
	beat        uint64 // counts heartbeats, where locks don't work across containers
	pipeReader  string // incarnation of the pipe's reader, "" without a pipe
}

// maxFileSize bounds each file of this package, in bytes.
const maxFileSize = 4 << 10

// formatVersion needs no negotiation: all containers of a pod run the same supervisor.
const formatVersion = "1"

func (s state) text() []byte {
	pipe := ""
	if s.pipeReader != "" {
		pipe = "\npipe " + s.pipeReader
	}
	return []byte("order " + formatVersion + "\nincarnation " + s.incarnation + "\nphase " + string(s.phase) +
		"\nexit-code " + strconv.Itoa(s.exitCode) + pipe + "\nbeat " + strconv.FormatUint(s.beat, 10) + "\n")
}

// errFormat is the error for content that no supervisor has written.
var errFormat = errors.New("a supervisor would write other content")

// parseState parses the output of text, and rejects everything else.
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

// incarnationDigits is the length of an incarnation's name: 64 bits in hexadecimal.
const incarnationDigits = 16

func isIncarnation(name string) bool {
	return len(name) == incarnationDigits && strings.Trim(name, "0123456789abcdef") == ""
}

// commandEnded reports whether the command has ended, so that the exit code is known.
func (p Phase) commandEnded() bool { return p == Finishing || p == Ended }

// commandRuns reports whether the command runs.
func (p Phase) commandRuns() bool { return p == Started || p == Ready || p == Stopping }
