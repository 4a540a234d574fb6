// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package logview

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/entrypointer/entrypointer/internal/logreader"
	"github.com/entrypointer/entrypointer/internal/printable"
)

const (
	// mostRows bounds the rows of one response, and mostHTML their HTML in bytes.
	mostRows, mostHTML = 400, 256 << 10
	// pollTime is how long a request waits for a change.
	pollTime = 25 * time.Second
	// writeTime is how long a piece of the text of a log may take to be written.
	writeTime = 30 * time.Second
	// mostNamed bounds the folds and the streams that a request names.
	mostNamed = 2000
)

// errBusy says that no further log can be opened.
var errBusy = errors.New("too many logs are being read: close some of their pages, and try again")

// A handler serves one log.
type handler struct {
	views  *Views
	key    name
	source Source
}

// ServeHTTP implements http.Handler.
//
//	/info?after=V     what is known of the log; with after, once it has changed since that version,
//	                  and of a log that isn't open only that it is closed
//	/rows?row=N       rows from one on; or before=N up to one; or line=N around a record
//	/search?q=T       the records that match, from the record `from` on, up to `to`
//	/find?stream=ID&at=N   the record that has this byte of a stream; passed says that the stream is
//	                  read beyond it
//	/text             the whole log as text
//
// All know a view: hide (the numbers of streams), unfold, open and close (numbers of folds), apart,
// and for marks q, regexp and case.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		http.Error(w, "use GET", http.StatusMethodNotAllowed)
		return
	}
	serve := map[string]func(http.ResponseWriter, *http.Request, *view) error{
		"/info": info, "/rows": rows, "/search": search, "/find": find, "/text": text,
	}[r.URL.Path]
	if serve == nil {
		http.NotFound(w, r)
		return
	}
	v, err := newView(r.URL.Query())
	if err == nil {
		var log *openLog
		if log, err = h.acquire(r); log != nil {
			defer h.views.release(log)
			v.index = log.index
			err = serve(w, r, v)
		} else if err == nil {
			err = respond(w, infoBody{Closed: true, Notes: []string{}, Streams: []streamInfo{}})
		}
	}
	var wrong *requestError
	switch {
	case errors.As(err, &wrong):
		http.Error(w, err.Error(), http.StatusBadRequest)
	case errors.Is(err, logreader.ErrForbidden):
		http.Error(w, err.Error(), http.StatusForbidden)
	case errors.Is(err, errBusy):
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	case err != nil && r.Context().Err() == nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// acquire opens the log, unless the request waits for a change of one that is open already: nothing
// is read for it, so that it takes no more than the time in which it waits.
func (h *handler) acquire(r *http.Request) (*openLog, error) {
	if Waits(r.URL) {
		return h.views.acquireOpen(h.key), nil
	}
	return h.views.acquire(h.key, h.source)
}

// Waits reports whether a request for a log waits for a change, and doesn't open the log.
func Waits(asked *url.URL) bool {
	return path.Base(asked.Path) == "info" && asked.Query().Get("after") != ""
}

// A requestError says what is wrong with a request.
type requestError struct{ error }

func newView(q url.Values) (v *view, err error) {
	v = &view{hidden: map[int]bool{}, opened: map[int]bool{}, closed: map[int]bool{}, unfolded: q.Get("unfold") == "1", apart: q.Get("apart") == "1"}
	for parameter, set := range map[string]map[int]bool{"hide": v.hidden, "open": v.opened, "close": v.closed} {
		if q.Get(parameter) == "" {
			continue
		}
		for text := range strings.SplitSeq(q.Get(parameter), ",") {
			n, err := strconv.Atoi(text)
			if err != nil || len(set) == mostNamed {
				return nil, &requestError{fmt.Errorf("reading %s: use at most %d numbers", parameter, mostNamed)}
			}
			set[n] = true
		}
	}
	return v, nil
}

// queryOf returns what a request searches for, nil for nothing.
func queryOf(r *http.Request) (*query, error) {
	q := r.URL.Query()
	is, err := newQuery(q.Get("q"), q.Get("regexp") == "1", q.Get("case") == "1")
	if err != nil {
		return nil, &requestError{err}
	}
	return is, nil
}

// number returns a parameter that is a number.
func number(r *http.Request, name string, otherwise int64) (int64, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, &requestError{fmt.Errorf("%s is %q: use a number", name, text)}
	}
	return n, nil
}

func respond(w http.ResponseWriter, body any) error {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(body) // the client is gone
	return nil
}

type streamInfo struct {
	ID    string `json:"id"`
	Label string `json:"label"`
	Name  string `json:"name"`
	Lines int64  `json:"lines"`
}

type infoBody struct {
	Epoch   int64 `json:"epoch"`
	Version int64 `json:"version"`
	Records int   `json:"records"`
	Rows    int   `json:"rows"`
	Bytes   int64 `json:"bytes"`
	// Live says that all is read that was there when the log was opened.
	Live bool `json:"live"`
	Done bool `json:"done"`
	// Closed says that the log isn't open, so that nothing else is known of it.
	Closed  bool         `json:"closed,omitempty"`
	Full    string       `json:"full,omitempty"`
	Error   string       `json:"error,omitempty"`
	Notes   []string     `json:"notes"`
	Streams []streamInfo `json:"streams"`
	Folds   int          `json:"folds"`
}

func info(w http.ResponseWriter, r *http.Request, v *view) error {
	after, err := number(r, "after", -1)
	if err != nil {
		return err
	}
	if after >= 0 {
		v.wait(r.Context(), after, pollTime)
	}
	return respond(w, v.info())
}

// info returns what is known of the log.
func (v *view) info() infoBody {
	v.mu.RLock()
	defer v.mu.RUnlock()
	body := infoBody{
		Epoch: v.epoch, Version: v.version, Records: v.records, Rows: v.layout().rows(), Bytes: v.bytes, Live: v.live || v.done, Done: v.done,
		Notes: append([]string{}, v.notes...), Streams: []streamInfo{}, Folds: len(v.folds) - neverShown - 1,
	}
	if v.full {
		body.Full = v.cut()
	}
	if v.err != nil {
		body.Error = v.err.Error()
	}
	for _, s := range v.streams {
		body.Streams = append(body.Streams, streamInfo{s.ID, s.label, s.Name, s.lines})
	}
	return body
}

type rowsBody struct {
	Epoch   int64  `json:"epoch"`
	Version int64  `json:"version"`
	From    int    `json:"from"`
	To      int    `json:"to"`
	Total   int    `json:"total"`
	At      int    `json:"at"` // the row that was asked for
	HTML    string `json:"html"`
}

func rows(w http.ResponseWriter, r *http.Request, v *view) error {
	q, err := queryOf(r)
	if err != nil {
		return err
	}
	count, err := number(r, "count", 200)
	if err != nil {
		return err
	}
	body, err := v.window(r, int(min(count, mostRows)), q)
	if err != nil {
		return err
	}
	return respond(w, body)
}

func (v *view) window(r *http.Request, count int, q *query) (rowsBody, error) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.layout().window(r, count, q)
}

// window returns the rows that a request asks for.
func (l *layout) window(r *http.Request, count int, q *query) (b rowsBody, err error) {
	b = rowsBody{Epoch: l.epoch, Version: l.version, Total: l.rows()}
	backwards := false
	var n int64
	switch parameters := r.URL.Query(); {
	case parameters.Has("line"):
		if n, err = number(r, "line", 0); err == nil {
			b.At, err = l.rowOf(int(min(n, int64(l.records))))
		}
		b.From = max(b.At-count/4, 0)
	case parameters.Has("before"):
		n, err = number(r, "before", 0)
		b.At = int(min(n, int64(b.Total)))
		b.From, backwards = max(b.At-count, 0), true
		count = b.At - b.From
	default:
		n, err = number(r, "row", 0)
		b.From = int(min(n, int64(b.Total)))
		b.At = b.From
	}
	b.To = b.From
	if err != nil || count == 0 {
		return b, err
	}
	return b, l.html(&b, count, backwards, q)
}

// html writes so many rows of the body, or less if they are too long: from the first one on, or
// up to the last one.
func (l *layout) html(b *rowsBody, count int, backwards bool, q *query) error {
	var m markup
	var starts []int
	err := l.each(b.From, func(r row) bool {
		starts = append(starts, m.Len())
		l.row(&m, r, q)
		return len(starts) < count && (backwards || m.Len() < mostHTML || b.From+len(starts) <= b.At)
	})
	if len(starts) == 0 {
		return err
	}
	html := m.Bytes()
	b.To = b.From + len(starts)
	if backwards {
		for len(starts) > 1 && len(html)-starts[0] > mostHTML {
			starts = starts[1:]
			b.From++
		}
		html = html[starts[0]:]
	}
	b.HTML = string(html)
	return err
}

func search(w http.ResponseWriter, r *http.Request, v *view) error {
	q, err := queryOf(r)
	if err != nil {
		return err
	}
	from, err1 := number(r, "from", 0)
	to, err2 := number(r, "to", 1<<40)
	if err := errors.Join(err1, err2); err != nil {
		return &requestError{err}
	}
	body := struct {
		Epoch   int64   `json:"epoch"`
		Matches []match `json:"matches"`
		Next    int     `json:"next"`
		Records int     `json:"records"`
	}{v.epoch, []match{}, int(from), 0}
	if q != nil {
		found, next, err := v.search(r.Context(), q, int(from), int(to))
		if err != nil {
			return err
		}
		body.Next, body.Matches = next, append(body.Matches, found...)
	}
	body.Records = v.count()
	return respond(w, body)
}

// count returns how many records there are.
func (x *index) count() int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.records
}

func find(w http.ResponseWriter, r *http.Request, v *view) error {
	at, err := number(r, "at", 0)
	if err != nil {
		return err
	}
	body := struct {
		Found  bool  `json:"found"`
		Line   int   `json:"line"`
		Folds  []int `json:"folds"`
		Passed bool  `json:"passed"`
	}{}
	body.Line, body.Folds, body.Found, body.Passed, err = v.named(r.URL.Query().Get("stream"), at)
	if err != nil {
		return err
	}
	return respond(w, body)
}

// named returns the record that has a byte of a stream, with the folds around it. Passed says that
// it can't come any more.
func (v *view) named(id string, at int64) (line int, folds []int, found, passed bool, err error) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	folds, passed = []int{}, v.done
	stream, is := v.byID[id]
	if !is {
		return 0, folds, false, passed, nil
	}
	line, is, err = v.find(stream, at)
	if err != nil || !is {
		return 0, folds, false, passed, err
	}
	own, err := v.record(line)
	if err != nil {
		return 0, folds, false, false, err
	}
	found = own.offset <= at && at < own.offset+int64(len(own.text))+1
	passed = passed || own.offset > at || v.streams[stream].at > at
	return line, append(folds, v.around(own.fold)...), found, passed, nil
}

// text writes the log, once all is indexed that was there when it was opened, and says at its end
// what is missing.
func text(w http.ResponseWriter, r *http.Request, v *view) error {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	if r.Method == http.MethodHead {
		return nil
	}
	control := http.NewResponseController(w)
	extend := func(by time.Duration) { _ = control.SetWriteDeadline(time.Now().Add(by)) } // where it can't be set, that of the server counts
	for version, ready := v.ready(); !ready; version, ready = v.ready() {
		extend(pollTime + writeTime)
		v.wait(r.Context(), version, pollTime)
		if err := r.Context().Err(); err != nil {
			return err
		}
	}
	extend(writeTime)
	blocks, last, err := v.ending()
	if blocks == 0 && err != nil {
		return err
	}
	out := textWriter{Writer: bufio.NewWriter(w)}
	var buffer []byte
	var labels []string
	for at := range blocks {
		if buffer, labels, err = v.labelled(at, buffer); err != nil {
			return err
		}
		extend(writeTime)
		if err := out.block(buffer, labels); err != nil {
			return nil //nolint:nilerr // the client is gone
		}
	}
	out.end(last)
	return nil
}

// ready reports whether all is indexed that was there, and in which version.
func (x *index) ready() (version int64, ready bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.version, x.live || x.done
}

// ending returns how many blocks there are, and what the text says behind them.
func (x *index) ending() (blocks int, last string, err error) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	switch {
	case x.err != nil:
		last = printable.Line("The log ends here, because it couldn't be read on: " + x.err.Error())
	case x.full:
		last = x.cut()
	case !x.done:
		last = "The log goes on. This is what there was when this text was asked for."
	}
	return x.blockCount(), last, x.err
}

// cut says where a log ends that has reached a bound.
func (x *index) cut() string {
	return fmt.Sprintf("The page shows the first %s of this log, because more doesn't fit on its disk. kubectl entrypointer logs prints all of it.", sized(x.bytes))
}

// labelled reads a block, and returns the names of the streams so far.
func (x *index) labelled(at int, buffer []byte) (block []byte, labels []string, err error) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	block, err = x.read(at, buffer)
	labels = make([]string, len(x.streams))
	for n, s := range x.streams {
		labels[n] = s.label
	}
	return block, labels, err
}

// A textWriter writes records as text. A line of the text has records of one stream only.
type textWriter struct {
	*bufio.Writer

	several bool // containers
	open    bool // the last line has no newline yet
	stream  int  // of the last record
}

// block writes the records of a block, with the names of their containers if there are several.
func (w *textWriter) block(block []byte, labels []string) error {
	for _, label := range labels {
		w.several = w.several || label != labels[0]
	}
	var r record
	for len(block) > 0 {
		block = r.next(block)
		if !w.open || w.stream != r.stream || r.flags&isPiece == 0 {
			w.begin()
			if w.several {
				_, _ = w.WriteString("[" + labels[r.stream] + "] ")
			}
		}
		_, _ = w.Write(r.shown())
		w.open, w.stream = true, r.stream
		if r.flags&unended == 0 {
			w.begin()
		}
	}
	return w.Flush()
}

// begin ends the line that is open.
func (w *textWriter) begin() {
	if w.open {
		_ = w.WriteByte('\n')
	}
	w.open = false
}

// end writes a last line, which isn't one of the log, if there is something to say.
func (w *textWriter) end(text string) {
	if text != "" {
		w.begin()
		_, _ = w.WriteString("[entrypointer: " + text + "]\n")
	}
	_ = w.Flush() // the client is gone
}
