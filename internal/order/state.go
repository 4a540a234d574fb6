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
type state struct {
	incarnation string
	phase       Phase
	exitCode    int    // the container's, once it has ended
	beat        uint64 // grows while it lives, where locks can't be trusted
}

// maxFile bounds the files of this package, in bytes.
const maxFile = 4 << 10

// version is that of the format. All containers of a pod run the same program.
const version = "1"

func (s state) text() []byte {
	return []byte("order " + version + "\nincarnation " + s.incarnation + "\nphase " + string(s.phase) +
		"\nexit-code " + strconv.Itoa(s.exitCode) + "\nbeat " + strconv.FormatUint(s.beat, 10) + "\n")
}

// errGarbage is the error of what no supervisor has written.
var errGarbage = errors.New("it is not what a supervisor writes")

// parseState reads what text has written, and nothing else.
func parseState(data string) (s state, err error) {
	rest, ok := strings.CutPrefix(data, "order "+version+"\n")
	field := func(name string) (value string) {
		var is, ends bool
		rest, is = strings.CutPrefix(rest, name+" ")
		value, rest, ends = strings.Cut(rest, "\n")
		ok = ok && is && ends
		return value
	}
	s.incarnation, s.phase = field("incarnation"), Phase(field("phase"))
	code, failed := strconv.Atoi(field("exit-code"))
	beat, failedToo := strconv.ParseUint(field("beat"), 10, 64)
	s.exitCode, s.beat = code, beat
	switch s.phase {
	case Preparing, Started, Ready, Ended:
	default:
		ok = false
	}
	if !ok || failed != nil || failedToo != nil || code < 0 || code > 255 || !isIncarnation(s.incarnation) || string(s.text()) != data {
		return state{}, errGarbage
	}
	return s, nil
}

// incarnationDigits is how long the name of an incarnation is: 64 bits.
const incarnationDigits = 16

func isIncarnation(name string) bool {
	return len(name) == incarnationDigits && strings.Trim(name, "0123456789abcdef") == ""
}
