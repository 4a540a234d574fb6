// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package ship

import (
	"bytes"
	"cmp"
	"os"
	"slices"

	"github.com/entrypointer/entrypointer/internal/logs/times"
	"github.com/entrypointer/entrypointer/internal/mask"
	"github.com/entrypointer/entrypointer/internal/ring"
)

const (
	// The kubelet takes so much of a container's log for terminationMessagePolicy
	// FallbackToLogsOnError.
	messageSize  = 2048
	messageLines = 80
	// messageContext is how much output before the message is masked with it, in bytes: a
	// secret in the message may begin before it.
	messageContext = 64 << 10
)

// explain writes the end of the output of a container that fails into its termination
// message, as the kubelet would do if the cluster's log had the output. It doesn't need
// the log service.
func (s *shipper) explain() {
	if s.message == "" || s.ring.Explained() || !s.ring.Failed() || !s.outputEnded() {
		return
	}
	s.reloadSecrets()
	if before, err := os.Stat(s.message); err == nil && before.Size() == 0 {
		// After an error, the message stays empty, and the supervisor can't do better.
		_ = os.WriteFile(s.message, s.lastOutput(), 0o600)
	}
	s.ring.Explain()
}

// outputEnded reports whether the ring has all that the command has printed.
func (s *shipper) outputEnded() bool {
	return !slices.ContainsFunc(ring.Printed[:], func(stream ring.Stream) bool {
		_, ended := s.ring.Written(stream)
		return !ended
	})
}

// A timedLine is a line of the output.
type timedLine struct {
	time int64 // of its first byte, in Unix milliseconds
	text []byte
}

// lastOutput returns the masked end of the output: the last lines of both streams, in the
// order in which they were printed.
func (s *shipper) lastOutput() []byte {
	var lines []timedLine
	for _, stream := range ring.Printed {
		lines = append(lines, s.lastLines(stream)...)
	}
	slices.SortStableFunc(lines, func(a, b timedLine) int { return cmp.Compare(a.time, b.time) })
	var text []byte
	for i, line := range lines[max(len(lines)-messageLines, 0):] {
		if i > 0 && !bytes.HasSuffix(text, []byte("\n")) {
			text = append(text, '\n')
		}
		text = append(text, line.text...)
	}
	// The API server takes UTF-8 only. Each cut character becomes one byte.
	return bytes.ToValidUTF8(text[max(len(text)-messageSize, 0):], []byte("?"))
}

// lastLines returns the masked end of a stream.
func (s *shipper) lastLines(stream ring.Stream) (lines []timedLine) {
	written, _ := s.ring.Written(stream)
	from := max(written-messageContext, 0)
	data := make([]byte, written-from)
	if n, _ := s.ring.Read(stream, from, data); n < len(data) {
		return nil // the command has written into the ring
	}
	masking := s.secrets.masker.Stream(mask.State{At: from, AfterGap: from > 0})
	text := slices.Clone(masking.Write(data))
	text = append(text, masking.End()...)
	text = text[max(len(text)-messageSize, 0):]
	at := written - int64(len(text))
	marks := s.ring.Marks(stream, at, written)
	for line := range bytes.Lines(text) {
		timed := timedLine{text: line}
		if first := times.Cut(marks, at, written); len(first) > 0 {
			timed.time = first[0].Time
		}
		lines = append(lines, timed)
		at += int64(len(line))
	}
	return lines
}
