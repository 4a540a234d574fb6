// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package logreader

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestControlCharactersInEventsAreEscaped(t *testing.T) {
	for text, want := range map[string]string{
		`{"time":"2026","event":"exited","exitCode":1,"why":"a b"}`: `exited exitCode=1 why="a b"`,
		`{"event":"é","\u001b]0;title\u0007":1}`:                    `é \x1b]0;title\a=1`,
		`{"event":"a\u009b31m","x\ny":"\u0008\u0000","z":"\u001b"}`: `a\u009b31m x\ny=\b\x00 z=\x1b`,
		"{\"event\":\"a\u009b\",\"list\":[\"\u202e\"]}":             `a\u009b list=["\u202e"]`,
		"no event \x1b[2J\r\xff":                                    `no event \x1b[2J\r\xff`,
		"[entrypointer: 5 bytes were dropped]":                      "[entrypointer: 5 bytes were dropped]",
	} {
		require.Equal(t, want, string(readableEvent([]byte(text))))
	}
}

func TestControlCharactersInContainerNamesAreEscaped(t *testing.T) {
	var out strings.Builder
	p := NewPrinter(&out)
	always := true
	p.Prefix = &always
	s := p.sink(Stream{Pod: "pod", Container: "a\n\x1b[2J"})
	require.NoError(t, s.part(part{To: 2, Data: []byte("b\n")}))
	require.Equal(t, "[pod/pod/a\\n\\x1b[2J] b\n", out.String())
}

// jq reads the events of several containers.
func TestEventsOfSeveralContainersAreObjectsOfJSON(t *testing.T) {
	const sources = `"pod":"p","container":"main"}`
	for text, want := range map[string]string{
		`{"time":"x","event":"started"}`:         `{"time":"x","event":"started",` + sources,
		`{}`:                                     `{` + sources,
		`{"pod":"forged"}`:                       `{"pod":"forged",` + sources,
		`[entrypointer: 5 bytes were "dropped"]`: `{"notice":"[entrypointer: 5 bytes were \"dropped\"]",` + sources,
		`}`:                                      `{"notice":"}",` + sources,
		`null`:                                   `{"notice":"null",` + sources,
		`{"a`:                                    `{"notice":"{\"a",` + sources,
	} {
		var out strings.Builder
		p := NewPrinter(&out)
		p.JSON, p.Prefix = true, new(true)
		require.NoError(t, p.sink(Stream{Pod: "p", Container: "main"}).part(part{To: 2, Data: []byte(text + "\n")}))
		require.Equal(t, want+"\n", out.String())
		require.True(t, json.Valid([]byte(out.String())))
	}
	stored := []byte(`{"event":"x"}` + "\n")
	var out strings.Builder
	p := NewPrinter(&out)
	p.JSON = true
	require.NoError(t, p.sink(Stream{Pod: "p", Container: "main"}).part(part{To: 2, Data: stored}))
	require.Equal(t, string(stored), out.String(), "of one container, as it is stored")
}
