// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package logview

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/entrypointer/entrypointer/internal/logreader"
	"github.com/entrypointer/entrypointer/internal/target"
)

// FromService returns the log of a target as the log service has it, read with the rights of the
// client. It follows the target to its end.
func FromService(c *logreader.Client, of target.Target) Source {
	return func(ctx context.Context, to *Recorder) error {
		err := c.Watch(ctx, logreader.Options{Target: of, Warnings: &noteWriter{to: to}}, func(l logreader.Line) error {
			return to.Add(Line{
				Stream: Stream{l.ID, l.Name, l.Pod, l.PodUID, l.Container, l.Start},
				Text:   l.Text, Offset: l.Offset, Time: l.Time, Ended: l.Ended || l.Notice, Gap: l.Notice,
			})
		}, to.Live)
		if cutOff := (*logreader.CutOffError)(nil); errors.As(err, &cutOff) {
			return nil // the notes say which
		}
		if err != nil {
			return fmt.Errorf("reading the log of %s: %w", of, err)
		}
		return nil
	}
}

// A noteWriter adds lines as notes. Goroutines may write at once.
type noteWriter struct {
	to *Recorder

	mu   sync.Mutex
	line []byte
}

func (w *noteWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.line = append(w.line, p...)
	for {
		line, rest, whole := bytes.Cut(w.line, []byte("\n"))
		if !whole {
			return len(p), nil
		}
		w.to.Note(string(line))
		w.line = append([]byte(nil), rest...)
	}
}
