// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// Linux's real-time signals, as container runtimes number them.
const (
	firstRealTime = 34
	lastRealTime  = 64
)

// linuxSignals are the signals from 1 on.
var linuxSignals = strings.Fields("HUP INT QUIT ILL TRAP ABRT BUS FPE KILL USR1 SEGV USR2 PIPE ALRM TERM STKFLT CHLD CONT STOP TSTP TTIN TTOU URG XCPU XFSZ VTALRM PROF WINCH IO PWR SYS")

// signalAliases are alternative names of signals.
var signalAliases = map[string]string{"CLD": "CHLD", "IOT": "ABRT", "POLL": "IO"}

// ParseStopSignal parses a signal in the forms of images and container runtimes: a name,
// with or without SIG, RTMIN+n, RTMAX-n, or Linux's number. It returns one name for each
// signal, such as SIGQUIT or SIGRTMIN+3.
func ParseStopSignal(text string) (name string, ok bool) {
	if number, err := strconv.Atoi(text); err == nil {
		return nameOfSignal(number)
	}
	short := strings.TrimPrefix(strings.ToUpper(text), "SIG")
	if after, found := strings.CutPrefix(short, "RTMIN"); found {
		return realTime(firstRealTime, after, "+")
	}
	if after, found := strings.CutPrefix(short, "RTMAX"); found {
		return realTime(lastRealTime, after, "-")
	}
	if other, found := signalAliases[short]; found {
		short = other
	}
	return nameOfSignal(1 + slices.Index(linuxSignals, short))
}

// realTime returns the signal at a distance from the first or the last real-time signal.
func realTime(from int, steps, sign string) (string, bool) {
	if steps == "" {
		return nameOfSignal(from)
	}
	digits, signed := strings.CutPrefix(steps, sign)
	distance, err := strconv.ParseUint(digits, 10, 8)
	if !signed || err != nil {
		return "", false
	}
	if sign == "-" {
		return nameOfRealTime(from - int(distance))
	}
	return nameOfRealTime(from + int(distance))
}

func nameOfSignal(number int) (string, bool) {
	if number > 0 && number <= len(linuxSignals) {
		return "SIG" + linuxSignals[number-1], true
	}
	return nameOfRealTime(number)
}

func nameOfRealTime(number int) (string, bool) {
	if number < firstRealTime || number > lastRealTime {
		return "", false
	}
	return strings.TrimSuffix("SIGRTMIN+"+strconv.Itoa(number-firstRealTime), "+0"), true
}

// A stopSignal decodes a config's StopSignal, "" if it is invalid, because the command
// line beside it is still valid.
type stopSignal string

// UnmarshalJSON implements json.Unmarshaler.
func (s *stopSignal) UnmarshalJSON(text []byte) error {
	var said string
	*s = ""
	if json.Unmarshal(text, &said) == nil {
		name, _ := ParseStopSignal(said)
		*s = stopSignal(name)
	}
	return nil
}
