// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/entrypointer/entrypointer/internal/logreader"
	"github.com/entrypointer/entrypointer/internal/logview"
	"github.com/entrypointer/entrypointer/internal/printable"
	"github.com/entrypointer/entrypointer/internal/runs"
	"github.com/entrypointer/entrypointer/internal/target"
	"github.com/entrypointer/entrypointer/internal/timeline"
	"github.com/entrypointer/entrypointer/internal/tracelink"
)

const (
	// runSeconds is after how many seconds a run that goes on is asked for again.
	runSeconds = 2
	// mostSpans bounds the rows of the table of spans.
	mostSpans = 1500
	// mostLabels bounds the labels that are shown.
	mostLabels = 50
)

// A runView is the view of one run.
type runView struct {
	frame

	Run    *runs.Run
	Took   string
	Parts  []link // the labels, with a link to what else has them
	Axes   []axis
	Legend []timeline.Look
	Left   int
	// Spans are those of all axes, in their order.
	Spans    []spanRow
	More     int // spans that aren't in the table
	HandOffs []timeline.HandOff
	Path     []stage
	Notes    []string
	Command  string // that prints the same
	Zoom     int    // how many times as wide as the page charts are
	Zooms    []int
	Log      template.HTML
	Empty    bool
	Trace    *link // of all pods, nil if they have none, or several
	traces   tracelink.Template
	Perfetto *perfettoView
}

// A link is a text with an address.
type link struct{ Text, Href string }

// A stage is a TaskRun on the critical path.
type stage struct {
	timeline.Stage

	Href string
}

// An axis is a chart of pods with the same axis of time.
type axis struct {
	timeline.Axis

	ID   string
	Pods []podView
	Path []bar
}

type podView struct {
	timeline.PodChart

	Href  string // of the page of the pod, "" on that page
	Trace *link  // nil if that of the run leads there, too
	Lanes []lane
}

type lane struct {
	timeline.Lane

	Bars []bar
}

// A bar is a bar of the chart, whose link leads to the row of the table with the same words.
type bar struct {
	timeline.Bar

	ID    string
	Href  string
	Label string
}

// Width returns how much of the axis a bar takes.
func (b *bar) Width() float64 { return max(0, b.To-b.From) }

// A spanRow is a row of the table.
type spanRow struct {
	timeline.Bar

	ID, Pod, Container string
}

func (s *server) serveRun(w http.ResponseWriter, q question) error {
	run, told, err := s.read(q)
	if err != nil {
		return err
	}
	view := &runView{frame: s.frame(q, q.target.String()+" in "+q.client.Namespace), Run: run, HandOffs: told.HandOffs, Notes: told.Notes, Empty: len(told.Pods) == 0}
	view.Zooms, view.Zoom = zooms, zoomOf(q.URL.Query().Get("zoom"))
	view.Command = fmt.Sprintf("kubectl entrypointer timeline -n %s %s", q.client.Namespace, q.target)
	if !run.HasEnded() || told.GoesOn() {
		view.Seconds = runSeconds
	}
	switch {
	case run.State == runs.Gone:
	case run.HasEnded() && !run.Ended.IsZero():
		view.Took = lasted(run.Ended.Sub(run.Began))
	case !run.HasEnded():
		view.Took = lasted(view.Asked.Sub(run.Began)) + " so far"
	}
	for _, key := range slices.Sorted(maps.Keys(run.Labels))[:min(mostLabels, len(run.Labels))] {
		text := key + "=" + run.Labels[key]
		view.Parts = append(view.Parts, link{shortLine(text), s.Path(q.client.Namespace, nil) + "?" + url.Values{"labels": {text}, "parts": {"on"}}.Encode()})
	}
	for _, one := range told.CriticalPath {
		view.Path = append(view.Path, stage{one, s.taskRun(q, one.TaskRun)})
	}
	if s.Logs != nil {
		view.Log = logview.Section(s.Path(q.client.Namespace, &q.target) + "logs/")
	}
	view.traces = s.traces(q, told.Pods)
	view.Trace = view.traceOfAll(told.Pods)
	if view.Perfetto = s.perfettoOf(q); view.Perfetto != nil {
		w.Header().Set(openerPolicy, "same-origin-allow-popups") // or the browser gives no handle of the window
	}
	s.draw(view, q, told.Chart())
	return s.render(w, http.StatusOK, "run", view)
}

// zooms are how many times as wide as the page charts can be.
var zooms = []int{1, 2, 4, 8, 16}

// zoomOf reads one of these, 1 from what is none.
func zoomOf(text string) int {
	if zoom, err := strconv.Atoi(text); err == nil && slices.Contains(zooms, zoom) {
		return zoom
	}
	return 1
}

// read reads a run and its timeline. A pod that is gone is known by the log service alone.
func (s *server) read(q question) (*runs.Run, *timeline.Timeline, error) {
	run, err := (&runs.Reader{Client: q.client}).Get(q.Context(), q.target)
	if err != nil {
		return nil, nil, err
	}
	told, err := s.timeline(q)
	return run, told, err
}

func (s *server) timeline(q question) (*timeline.Timeline, error) {
	reader := &timeline.Reader{Reader: *s.Statuses(&q.client)}
	reader.Kept = &s.kept
	return reader.Read(q.Context(), q.target, s.Now())
}

// serveLog passes a request on to the log of a run. It may take longer than others: a reader
// waits for what comes next. What went wrong is said as text: a program asks.
func (s *server) serveLog(w http.ResponseWriter, r *http.Request) {
	q, err := s.question(r)
	var access Access
	if err == nil && s.Readable != nil {
		access, err = s.Readable(r.Context(), q.client.Namespace, q.target)
	}
	if err != nil {
		code, title, text := describe(err)
		http.Error(w, title+": "+text, code)
		return
	}
	source := logview.FromService(&logreader.Client{REST: q.client.REST, Namespace: q.client.Namespace}, q.target)
	key := fmt.Sprintf("%q %q %s/%s", access.Identity, access.Rights, q.client.Namespace, q.target)
	log := s.Logs.LogOf(access.Owner, key, source)
	http.StripPrefix(strings.TrimPrefix(s.Path(q.client.Namespace, &q.target), s.Base)+"logs", log).ServeHTTP(w, r)
}

// taskRun returns the address of a TaskRun.
func (s *server) taskRun(q question, name string) string {
	t, err := target.Parse("taskrun/"+name, target.All())
	if err != nil {
		return "" // no API server has it
	}
	return s.Path(q.client.Namespace, &t)
}

// draw adds a chart to the view, and the table that says the same.
func (s *server) draw(v *runView, q question, chart timeline.Chart) {
	v.Legend, v.Left = chart.Legend, chart.Left
	for at, a := range chart.Axes {
		drawn := axis{Axis: a, ID: fmt.Sprintf("axis-%d", at)}
		for _, b := range a.Path {
			drawn.Path = append(drawn.Path, bar{Bar: b, Href: s.taskRun(q, b.For), Label: fmt.Sprintf("%s on the critical path: took %s", b.Word, b.Took)})
		}
		for _, p := range a.Pods {
			drawn.Pods = append(drawn.Pods, s.drawPod(v, q, p, fmt.Sprintf("%d-%d", at, len(drawn.Pods))))
		}
		v.Axes = append(v.Axes, drawn)
	}
}

func (s *server) drawPod(v *runView, q question, p timeline.PodChart, id string) podView {
	drawn := podView{PodChart: p}
	if named, err := target.Parse(target.Pod+"/"+p.Name, target.All()); err == nil && named.String() != q.target.String() {
		drawn.Href = s.Path(q.client.Namespace, &named)
	}
	if v.Trace == nil {
		drawn.Trace = v.traceLink(p.TraceID)
	}
	for row, l := range p.Lanes {
		one := lane{Lane: l}
		for at, b := range l.Bars {
			if len(v.Spans) == mostSpans {
				v.More++
				continue
			}
			name := fmt.Sprintf("%s-%d-%d", id, row, at)
			one.Bars = append(one.Bars, bar{b, "bar-" + name, "#span-" + name, l.Label + " " + b.Title()})
			v.Spans = append(v.Spans, spanRow{b, "span-" + name, p.Name, l.Label})
		}
		drawn.Lanes = append(drawn.Lanes, one)
	}
	return drawn
}

// thick are the kinds in which a process of the container's author runs.
var thick = []timeline.Kind{timeline.Running, timeline.Alive, timeline.Hook, timeline.Stopping}

// isThin reports whether a kind is drawn thin, so that waiting looks different from running
// without colours, too.
func isThin(kind timeline.Kind) bool { return !slices.Contains(thick, kind) }

// perfettoFile is the file of a run that a Perfetto opens.
const perfettoFile = "timeline.pftrace"

// A download is a file of a run.
type download struct {
	media string
	write func(*timeline.Timeline, io.Writer) error
}

var downloads = map[string]download{
	"timeline.svg":  {"image/svg+xml", (*timeline.Timeline).WriteSVG},
	"timeline.json": {"application/json", writeJSON},
	perfettoFile:    {"application/octet-stream", (*timeline.Timeline).WritePerfetto},
}

// writeJSON writes the document of kubectl entrypointer timeline -o json.
func writeJSON(t *timeline.Timeline, w io.Writer) error {
	document, err := json.MarshalIndent(t, "", "  ")
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, printable.JSON(string(document))+"\n")
	return err
}

// serveFile responds with a file that shows the same as the page, to be saved.
func (s *server) serveFile(w http.ResponseWriter, q question) error {
	name := q.PathValue("file")
	file, is := downloads[name]
	if !is {
		return errNoPage
	}
	told, err := s.timeline(q)
	if err != nil {
		return err
	}
	var body bytes.Buffer
	if err := file.write(told, &body); err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	w.Header().Set("Content-Type", file.media)
	w.Header().Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", fileName(q.target.Of, name)))
	_, _ = w.Write(body.Bytes()) // an error is that of a client that is gone
	return nil
}

// fileName returns the name of a file of an object, of characters that every system takes.
func fileName(of, file string) string {
	of = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '.' || r == '-' {
			return r
		}
		return '_'
	}, of)
	return cmp.Or(cut(of, 100), "pod") + "-" + file
}
