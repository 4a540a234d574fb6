// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package capture

import (
	"strconv"
	"syscall"
	"time"

	"github.com/entrypointer/entrypointer/internal/await"
	"github.com/entrypointer/entrypointer/internal/ring"
	"github.com/entrypointer/entrypointer/internal/signals"
	"github.com/entrypointer/entrypointer/internal/supervisor/output"
	"github.com/entrypointer/entrypointer/internal/supervisor/report"
)

// events are the state from which events are described. docs/reference.md documents each event
// and its fields.
type events struct {
	startTimes map[output.Event]time.Time
	hooks      int // the number of started hooks
	pid        int // of the command, 0 if it doesn't run
	signals    int // the number of signals so far
	ended      bool

	traceparent, parentSpan string // of the command, "" without a trace
	toldTrace               bool
}

// maxSignals bounds the events about signals, so that a storm of signals doesn't push
// other events out of the ring.
const maxSignals = 100

// Event implements output.Output.
func (c *Capture) Event(e output.Event, text string, number int) {
	line := c.events.describe(e, text, number)
	c.events.addTrace(e, &line)
	if e != output.EventFinished {
		c.writeEvent(line)
		return
	}
	line.raw("logs", c.endStatus())
	c.writeEvent(line)
	c.events.ended = true
	if c.failed = number != 0; c.failed {
		c.ring.Fail()
	}
	c.ring.End(ring.Events)
	c.shipper.needed = true // even if the command has printed nothing
	c.Advance()
}

// describe returns an event as JSON without its closing brace, nil if the event isn't
// recorded.
func (ev *events) describe(e output.Event, text string, number int) (l eventLine) {
	switch e {
	case output.EventDependsOn:
		l.begin("waiting").text("dependency", text)
		ev.noteStart(output.EventWaiting)
	case output.EventWaiting:
		l.begin("waiting").text("file", text)
		ev.noteStart(e)
	case output.EventWaited:
		l.begin("waited").text("outcome", outcome(number)).since(ev, output.EventWaiting)
	case output.EventHookStarted:
		ev.hooks++
		l.begin("hookStarted").number("hook", ev.hooks).number("pid", number).text("argv0", text)
		ev.noteStart(e)
	case output.EventHookEnded:
		l.begin("hookEnded").number("hook", ev.hooks).end(number).since(ev, output.EventHookStarted)
	case output.EventPaused:
		l.begin("paused").text("at", text)
		ev.noteStart(e)
	case output.EventContinued:
		l.begin("continued").since(ev, output.EventPaused)
	case output.EventStarted:
		ev.pid = number
		l.begin("started").number("pid", number).text("argv0", text)
		ev.noteStart(e)
	case output.EventSignal:
		l = ev.signal(syscall.Signal(number))
	case output.EventTimeout:
		l.begin("timeout").since(ev, output.EventStarted)
	case output.EventStopHeld, output.EventStopPassed, output.EventStopWhen:
		l = ev.stop(e, text, number)
	case output.EventExited:
		ev.pid = 0
		l.begin("exited").end(number).since(ev, output.EventStarted)
	case output.EventOOMKilled:
		l.begin("oomKilled").number("processes", number)
	case output.EventFinished:
		l.begin("finished").text("reason", text).number("exitCode", number)
	}
	return l
}

// addTrace adds the span of this run to its first event, because the command may never be
// started, and to the one of the command's start.
func (ev *events) addTrace(e output.Event, l *eventLine) {
	if ev.traceparent == "" || *l == nil || ev.toldTrace && e != output.EventStarted {
		return
	}
	ev.toldTrace = true
	if l.text("traceparent", ev.traceparent); ev.parentSpan != "" {
		l.text("parentSpanId", ev.parentSpan)
	}
}

// stop describes an event of the order in which containers stop.
func (ev *events) stop(e output.Event, text string, number int) (l eventLine) {
	switch e {
	case output.EventStopHeld:
		l.begin("stopHeld").text("dependency", text)
		ev.noteStart(e)
	case output.EventStopPassed:
		l.begin("stopPassed").text("outcome", text).since(ev, output.EventStopHeld)
	default:
		l.begin("stopWhen").text("outcome", outcome(number))
	}
	return l
}

// outcome returns the name of an await.State.
func outcome(state int) string {
	return map[await.State]string{
		await.Met: "met", await.Aborted: "aborted", await.TimedOut: "timedOut", await.Unknown: "unknown", await.Failed: "failed",
	}[await.State(state)]
}

func (ev *events) signal(sig syscall.Signal) (l eventLine) {
	if ev.signals++; ev.signals > maxSignals {
		return nil
	}
	l.begin("signal").text("signal", signals.Name(sig))
	if ev.pid != 0 {
		l.number("pid", ev.pid)
	}
	return l
}

// recordSendingChange writes an event when sending begins to fail, and when it works
// again.
func (c *Capture) recordSendingChange(failure string) {
	var l eventLine
	switch {
	case failure != "" && c.recordedFailure == "":
		l.begin("sendingFailed").text("failure", failure)
	case failure == "" && c.recordedFailure != "":
		l.begin("sendingResumed")
	default:
		return
	}
	c.writeEvent(l)
}

func (c *Capture) writeEvent(l eventLine) {
	if l != nil && !c.events.ended {
		c.ring.Write(ring.Events, append(l, '}', '\n'))
	}
}

func (ev *events) noteStart(e output.Event) {
	if ev.startTimes == nil {
		ev.startTimes = map[output.Event]time.Time{}
	}
	ev.startTimes[e] = time.Now()
}

// An eventLine is an event as JSON, up to its last field.
type eventLine []byte

func (l *eventLine) begin(kind string) *eventLine {
	*l = append(*l, `{"time":"`+time.Now().UTC().Format(time.RFC3339Nano)+`","event":"`+kind+`"`...)
	return l
}

func (l *eventLine) raw(name, value string) *eventLine {
	*l = append(*l, `,"`+name+`":`+value...)
	return l
}

func (l *eventLine) text(name, value string) *eventLine {
	return l.raw(name, report.QuoteJSON(value))
}

func (l *eventLine) number(name string, value int) *eventLine {
	return l.raw(name, strconv.Itoa(value))
}

// end adds how a process ended: the exit code as a shell reports it, and the signal if
// one killed the process.
func (l *eventLine) end(wait int) *eventLine {
	status := syscall.WaitStatus(wait) //nolint:gosec // G115: it was converted from a WaitStatus
	if !status.Signaled() {
		return l.number("exitCode", status.ExitStatus())
	}
	return l.number("exitCode", 128+int(status.Signal())).text("signal", signals.Name(status.Signal()))
}

// since adds the time since an earlier event, if that has occurred.
func (l *eventLine) since(ev *events, e output.Event) {
	if began, was := ev.startTimes[e]; was {
		l.number("milliseconds", int(time.Since(began).Milliseconds()))
	}
}
