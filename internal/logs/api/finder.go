// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/entrypointer/entrypointer/internal/logs/grep"
	"github.com/entrypointer/entrypointer/internal/logs/streams"
	"github.com/entrypointer/entrypointer/internal/logs/times"
)

// A foundLine is a line in the response to a search. Text is in base64, as a stream may have
// any bytes.
type foundLine struct {
	From  int64  `json:"from"`
	To    int64  `json:"to"`
	Time  int64  `json:"time"`
	Match bool   `json:"match"`
	Cut   bool   `json:"cut,omitempty"`
	Text  []byte `json:"text"`
}

// A searchEnd is the end of the response to a search.
type searchEnd struct {
	Complete bool   `json:"complete"`
	Reason   string `json:"reason,omitempty"` // why it isn't complete
	Found    int    `json:"found"`
	Streams  int    `json:"streams"`
	Bytes    int64  `json:"bytes"`
	Unread   int    `json:"unread"` // streams
	Dropped  int64  `json:"dropped"`
	Deleted  int64  `json:"deleted"`
	Missing  int64  `json:"missing"`
}

// A finder is a streams.Searcher that sends the lines that match.
type finder struct {
	*Server
	ctx     context.Context //nolint:containedctx // of the search
	request searchRequest
	out     *searchWriter
	scanner *grep.Scanner
	span    streams.Span
	end     searchEnd

	of       *streams.Listed // the stream, once something of it is sent
	at       *streams.Listed // the stream whose parts come
	marks    []times.Mark    // of the bytes that the scanner holds
	isUnread bool            // bytes of the stream couldn't be read
	isNew    bool            // something was sent since the last flush
	trailing int             // how many lines still come after the last one of the limit
}

func newFinder(ctx context.Context, s *Server, q searchRequest, out *searchWriter) *finder {
	f := &finder{Server: s, ctx: ctx, request: q, out: out, span: streams.Span{Since: q.Since}}
	f.scanner = grep.NewScanner(q.expression, q.before, q.after, f.found)
	return f
}

// Part implements streams.Searcher.
func (f *finder) Part(of *streams.Listed, p streams.Part) error {
	f.at = of
	if p.Data == nil {
		switch {
		case p.Dropped:
			f.end.Dropped += p.Len()
		case p.Deleted:
			f.end.Deleted += p.Len()
		default:
			f.end.Missing += p.Len()
		}
		return f.flushAfter(f.scanner.Break())
	}
	f.note(p.Times)
	for at := 0; at < len(p.Data); at += scannedAtOnce {
		if err := context.Cause(f.ctx); err != nil {
			return err
		}
		data := p.Data[at:min(at+scannedAtOnce, len(p.Data))]
		if err := f.scanner.Write(p.From+int64(at), data); err != nil {
			return err
		}
		f.metrics.searched.Add(float64(len(data)))
		if f.end.Bytes += int64(len(data)); f.end.Bytes >= f.bounds.bytes {
			return errBytes
		}
	}
	return f.flushAfter(nil)
}

// Unread implements streams.Searcher.
func (f *finder) Unread(of *streams.Listed, err error) error {
	f.at = of
	if f.isUnread {
		return nil
	}
	f.isUnread = true
	f.end.Unread++
	f.logger.Error("A stream couldn't be searched", "stream", of.ID, "error", err)
	if err := f.introduce(); err != nil {
		return err
	}
	return f.flushAfter(f.out.event("unread", map[string]bool{"busy": errors.Is(err, streams.ErrBusy)}))
}

// End implements streams.Searcher.
func (f *finder) End(of *streams.Listed) error {
	f.at = of
	err := f.scanner.Break()
	f.marks, f.isUnread = f.marks[:0], false
	f.end.Streams++
	if err == nil && f.end.Found >= f.request.limit {
		err = errLimit
	}
	return f.flushAfter(err)
}

// flushAfter flushes what was sent.
func (f *finder) flushAfter(err error) error {
	if err == nil && f.isNew {
		f.isNew = false
		err = f.out.flush()
	}
	return err
}

// introduce sends which stream the next events are about.
func (f *finder) introduce() error {
	f.isNew = true
	if f.of == f.at {
		return nil
	}
	f.of = f.at
	return f.out.event("stream", listedOf(*f.at))
}

// found sends a line.
func (f *finder) found(l grep.Line) error {
	printed := f.timeOf(l.From)
	if !f.span.Has(printed) {
		return nil
	}
	if l.Match && f.end.Found == f.request.limit {
		return errLimit
	}
	if err := f.introduce(); err != nil {
		return err
	}
	if err := f.out.event("line", foundLine{l.From, l.To, printed, l.Match, l.IsCut(), l.Text}); err != nil {
		return err
	}
	if f.trailing--; l.Match {
		f.end.Found++
		f.trailing = f.request.after
	}
	if f.end.Found == f.request.limit && f.trailing == 0 {
		return errLimit
	}
	return nil
}

const (
	// trimMarks is from how many marks on those are dropped that aren't needed any more.
	trimMarks = 8 << 10
	// maxMarks bounds the marks: of more, each second one is dropped.
	maxMarks = 64 << 10
)

// note notes the times of the next part.
func (f *finder) note(marks []times.Mark) {
	if len(f.marks) > trimMarks {
		needed := sort.Search(len(f.marks), func(i int) bool { return f.marks[i].At > f.scanner.HeldFrom() }) - 1
		f.marks = slices.Delete(f.marks, 0, max(0, needed))
	}
	f.marks = append(f.marks, marks...)
	if len(f.marks) > maxMarks {
		for i := range len(f.marks) / 2 {
			f.marks[i] = f.marks[2*i]
		}
		f.marks = f.marks[:len(f.marks)/2]
	}
}

// timeOf returns when a byte was printed, in Unix milliseconds.
func (f *finder) timeOf(offset int64) int64 {
	after := sort.Search(len(f.marks), func(i int) bool { return f.marks[i].At > offset })
	if after == 0 {
		return 0
	}
	return f.marks[after-1].Time
}

// A searchWriter writes the response to a search as server-sent events.
type searchWriter struct {
	connection *http.ResponseController
	timing     timing

	mu    sync.Mutex
	w     http.ResponseWriter
	begun bool
	last  time.Time // when something was sent
}

func (o *searchWriter) hasBegun() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.begun
}

// event sends an event. A client that takes none for some time is cut off.
func (o *searchWriter) event(kind string, data any) error {
	text, err := json.Marshal(data)
	if err != nil {
		return err
	}
	return o.write(func() error {
		_, err := fmt.Fprintf(o.w, "event: %s\ndata: %s\n\n", kind, text)
		return err
	})
}

// write writes to the client, or returns errCutOff.
func (o *searchWriter) write(do func() error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.connection.SetWriteDeadline(time.Now().Add(o.timing.reader)); err != nil {
		return errCutOff
	}
	if !o.begun {
		o.begun = true
		o.w.Header().Set("Content-Type", eventStreamType)
		o.w.Header().Set("Cache-Control", "no-store")
		o.w.WriteHeader(http.StatusOK)
	}
	o.last = time.Now()
	return cutOffIfFailed(do())
}

func (o *searchWriter) flush() error { return o.write(o.connection.Flush) }

// keepAlive sends comments while nothing is found, and ends the search when the server stops,
// until wait is called.
func (o *searchWriter) keepAlive(ctx context.Context, stopping <-chan struct{}, stop context.CancelCauseFunc) (wait func()) {
	var running sync.WaitGroup
	o.last = time.Now()
	ended := make(chan struct{})
	running.Go(func() {
		beat := time.NewTicker(o.timing.beat)
		defer beat.Stop()
		for {
			select {
			case <-ended:
				return
			case <-ctx.Done():
				return
			case <-stopping:
				stop(errStopping)
				return
			case <-beat.C:
				if err := o.comment(); err != nil {
					stop(err)
					return
				}
			}
		}
	})
	return func() {
		close(ended)
		running.Wait()
	}
}

// comment sends a comment unless something was sent just now.
func (o *searchWriter) comment() error {
	o.mu.Lock()
	isLate := time.Since(o.last) >= o.timing.beat/2
	o.mu.Unlock()
	if !isLate {
		return nil
	}
	return o.write(func() error {
		if _, err := fmt.Fprint(o.w, ":\n\n"); err != nil {
			return err
		}
		return o.connection.Flush()
	})
}
