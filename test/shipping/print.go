// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package shipping

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/entrypointer/entrypointer/internal/logs/retries"
	"github.com/entrypointer/entrypointer/internal/logs/times"
)

// Line is what a program prints.
func Line(at time.Time, stream, number int) string {
	return fmt.Sprintf(`{"time":%q,"level":"info","msg":"answered","path":"/orders/%d","ms":%d}`+"\n", at.UTC().Format("2006-01-02T15:04:05.000Z07:00"), (number*7919+stream*104729)%1000003, number%97)
}

// A Pace is how streams print: a line at intervals, by a clock that may be faster than the
// real one, and begins earlier by as much.
type Pace struct {
	Every time.Duration
	Speed int
	Began time.Time
	Lasts time.Duration // in real time
	Ends  bool          // the streams end then, rather than go on
}

// At returns the time of the clock.
func (p Pace) At(now time.Time) time.Time {
	return p.First().Add(now.Sub(p.Began) * time.Duration(p.Speed))
}

// First returns the time of the clock when streams begin.
func (p Pace) First() time.Time { return p.Began.Add(-p.Lasts * time.Duration(p.Speed-1)) }

// Text returns the lines of a stream from a number on, up to a time, and when they were
// printed.
func (p Pace) Text(stream, from int, until time.Time, at int64) (text string, marks []times.Mark, next int) {
	var b strings.Builder
	for next = from; ; next++ {
		printed := p.First().Add(time.Duration(next) * p.Every)
		if printed.After(until) {
			return b.String(), marks, next
		}
		marks = append(marks, times.Mark{At: at + int64(b.Len()), Time: printed.UnixMilli()})
		b.WriteString(Line(printed, stream, next))
	}
}

// Print prints to a stream at a pace. If it doesn't end, its last lines aren't sent: all
// streams would send at the same moment.
func (s *Stream) Print(ctx context.Context, p Pace, record *Recorder) error {
	end := p.Began.Add(p.Lasts)
	Sleep(ctx, rand.N(min(max(shortestPhase/time.Duration(p.Speed), p.Every), p.Lasts*4/5))) //nolint:gosec // G404: no secret
	for ctx.Err() == nil {
		now := time.Now()
		if now.After(end) {
			now = end
		}
		if now.Equal(end) && !p.Ends {
			return nil
		}
		text, marks, next := p.Text(s.Number, s.Lines, p.At(now), s.At)
		if text != "" {
			_, _ = s.sum.Write([]byte(text))
			if err := s.write(ctx, record, s.At, []byte(text), marks); err != nil {
				return err
			}
			s.At, s.Lines = s.At+int64(len(text)), next
		}
		if now.Equal(end) {
			return s.end(ctx, record)
		}
		pause := max(s.linger, p.Every/time.Duration(p.Speed))
		Sleep(ctx, min(time.Until(now.Add(pause)), time.Until(end)))
	}
	return ctx.Err()
}

// partSize is the size of a full part, in bytes.
const partSize = 256 << 10

// shortestPhase is over how long streams begin that print more often, in real time.
const shortestPhase = retries.LongestLinger

// Flood prints a number of bytes to a stream at full speed, two full parts at a time, and
// ends it.
func (s *Stream) Flood(ctx context.Context, size int64, record *Recorder) error {
	group, sending := errgroup.WithContext(ctx)
	group.SetLimit(2)
	began := time.Now()
	for s.At < size && sending.Err() == nil {
		var b strings.Builder
		var marks []times.Mark
		for b.Len() < partSize-256 {
			printed := began.Add(time.Duration(s.Lines) * time.Millisecond)
			marks = append(marks, times.Mark{At: s.At + int64(b.Len()), Time: printed.UnixMilli()})
			b.WriteString(Line(printed, s.Number, s.Lines))
			s.Lines++
		}
		data, from := []byte(b.String()), s.At
		_, _ = s.sum.Write(data)
		group.Go(func() error { return s.write(sending, record, from, data, marks) })
		s.At += int64(len(data))
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return s.end(ctx, record)
}
