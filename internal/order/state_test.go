// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package order

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	someone = "6f1e0c9b2a7d4853"
	other   = "0c9b2a7d48536f1e"
)

func TestParseStateReadsItsOwnText(t *testing.T) {
	for _, s := range []state{
		{someone, Preparing, 0, 0, ""},
		{someone, Started, 0, math.MaxUint64, other},
		{someone, Ready, 0, 7, ""},
		{someone, Stopping, 0, 8, other},
		{someone, Ended, 255, 0, other},
	} {
		require.LessOrEqual(t, len(s.text()), reservedSize)
		got, err := parseState(string(s.text()))
		require.NoError(t, err)
		require.Equal(t, s, got)
	}
}

func TestParseStateRejectsOtherContent(t *testing.T) {
	good := string(state{someone, Ended, 0, 12, other}.text())
	for name, data := range map[string]string{
		"nothing":                 "",
		"zeros":                   strings.Repeat("\x00", 200),
		"the end is missing":      strings.TrimSuffix(good, "\n"),
		"there is more":           good + "\n",
		"another format":          strings.Replace(good, "order 1", "order 2", 1),
		"no incarnation":          strings.Replace(good, someone, "", 1),
		"a path":                  strings.Replace(good, someone, "../../../../etc/", 1),
		"no phase":                strings.Replace(good, "ended", "done", 1),
		"no code":                 strings.Replace(good, "exit-code 0", "exit-code", 1),
		"a code below zero":       strings.Replace(good, "exit-code 0", "exit-code -1", 1),
		"a code of nine bits":     strings.Replace(good, "exit-code 0", "exit-code 256", 1),
		"a code with a plus":      strings.Replace(good, "exit-code 0", "exit-code +0", 1),
		"too large a beat":        strings.Replace(good, "beat 12", "beat 99999999999999999999", 1),
		"a pipe without a reader": strings.Replace(good, "pipe "+other, "pipe ", 1),
		"a pipe elsewhere":        strings.Replace(good, other, "../../../../etc/", 1),
		"two pipes":               good + "pipe " + other + "\n",
		"carriage returns":        strings.ReplaceAll(good, "\n", "\r\n"),
		"twice the same":          strings.Replace(good, "phase ended\n", "phase started\nphase ended\n", 1),
	} {
		_, err := parseState(data)
		require.ErrorIs(t, err, errFormat, name)
	}
	// An incomplete text is rejected, however little is missing.
	for n := range len(good) {
		_, err := parseState(good[:n])
		require.ErrorIs(t, err, errFormat, good[:n])
	}
}

// FuzzParseState checks that any text is rejected, or is the text of the parsed state.
func FuzzParseState(f *testing.F) {
	f.Add(string(state{someone, Ended, 137, 12, other}.text()))
	f.Add(string(state{someone, Preparing, 0, 0, ""}.text()))
	f.Add(string(state{someone, Stopping, 0, 1, other}.text()))
	f.Add("order 1\nincarnation \nphase ready\nexit-code 0\nbeat 0\n")
	f.Add("")
	f.Fuzz(func(t *testing.T, data string) {
		s, err := parseState(data)
		if err != nil {
			require.Equal(t, state{}, s)
			return
		}
		require.Equal(t, data, string(s.text()))
		require.True(t, isIncarnation(s.incarnation))
	})
}
