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
	"github.com/entrypointer/entrypointer/internal/supervisor"
)

// events are what is known of what happened before. docs/logs.md says what each is
// called, and what is said of it.
type events struct {
	began   map[supervisor.Event]time.Time
	hooks   int // how many were started
	pid     int // of the command while it runs
	signals int // how many were told
	ended   bool
}

// maxSignals is how many events there are of signals: who sends many doesn't push the
// others out.
const maxSignals = 100

// Event implements supervisor.Output.
func (c *Capture) Event(e supervisor.Event, text string, number int) {
	line := c.events.describe(e, text, number)
	if e != supervisor.EventFinished {
		c.tell(line)
		return
	}
	line.raw("logs", c.Status())
	c.tell(line)
	c.events.ended = true
	c.ring.End(ring.Events)
	c.shipper.wanted = true // also of a command that has printed nothing
	c.Take()
}

// describe is an event as JSON, but for its end; nil if it isn't to be told.
func (ev *events) describe(e supervisor.Event, text string, number int) (l eventLine) {
	switch e {
	case supervisor.EventDependsOn:
		l.begin("waiting").text("dependency", text)
		ev.begins(supervisor.EventWaiting)
	case supervisor.EventWaiting:
		l.begin("waiting").text("file", text)
		ev.begins(e)
	case supervisor.EventWaited:
		l.begin("waited").text("outcome", outcome(number)).since(ev, supervisor.EventWaiting)
	case supervisor.EventHookStarted:
		ev.hooks++
		l.begin("hookStarted").number("hook", ev.hooks).number("pid", number).text("argv0", text)
		ev.begins(e)
	case supervisor.EventHookEnded:
		l.begin("hookEnded").number("hook", ev.hooks).end(number).since(ev, supervisor.EventHookStarted)
	case supervisor.EventPaused:
		l.begin("paused").text("at", text)
		ev.begins(e)
	case supervisor.EventContinued:
		l.begin("continued").since(ev, supervisor.EventPaused)
	case supervisor.EventStarted:
		ev.pid = number
		l.begin("started").number("pid", number).text("argv0", text)
		ev.begins(e)
	case supervisor.EventSignal:
		l = ev.signal(syscall.Signal(number))
	case supervisor.EventTimeout:
		l.begin("timeout").since(ev, supervisor.EventStarted)
	case supervisor.EventStopHeld, supervisor.EventStopPassed, supervisor.EventStopWhen:
		l = ev.stop(e, text, number)
	case supervisor.EventExited:
		ev.pid = 0
		l.begin("exited").end(number).since(ev, supervisor.EventStarted)
	case supervisor.EventOOMKilled:
		l.begin("oomKilled").number("processes", number)
	case supervisor.EventFinished:
		l.begin("finished").text("reason", text).number("exitCode", number)
	}
	return l
}

// stop is an event of the order in which containers stop.
func (ev *events) stop(e supervisor.Event, text string, number int) (l eventLine) {
	switch e {
	case supervisor.EventStopHeld:
		l.begin("stopHeld").text("dependency", text)
		ev.begins(e)
	case supervisor.EventStopPassed:
		l.begin("stopPassed").text("outcome", text).since(ev, supervisor.EventStopHeld)
	default:
		l.begin("stopWhen").text("outcome", outcome(number))
	}
	return l
}

// outcome is an await.State, as a word.
func outcome(state int) string {
	return map[await.State]string{
		await.Met: "met", await.Aborted: "aborted", await.TimedOut: "timedOut", await.Unknown: "unknown", await.Failed: "failed",
	}[await.State(state)]
}

func (ev *events) signal(sig syscall.Signal) (l eventLine) {
	if ev.signals++; ev.signals > maxSignals {
		return nil
	}
	l.begin("signal").text("signal", supervisor.SignalName(sig))
	if ev.pid != 0 {
		l.number("pid", ev.pid)
	}
	return l
}

// tellSending tells when nothing can be sent, and when it can be again.
func (c *Capture) tellSending(failure string) {
	var l eventLine
	switch {
	case failure != "" && c.told == "":
		l.begin("sendingFailed").text("failure", failure)
	case failure == "" && c.told != "":
		l.begin("sendingResumed")
	default:
		return
	}
	c.tell(l)
}

func (c *Capture) tell(l eventLine) {
	if l != nil && !c.events.ended {
		c.ring.Write(ring.Events, append(l, '}', '\n'))
	}
}

func (ev *events) begins(e supervisor.Event) {
	if ev.began == nil {
		ev.began = map[supervisor.Event]time.Time{}
	}
	ev.began[e] = time.Now()
}

// An eventLine is an event as JSON.
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
	return l.raw(name, supervisor.QuoteJSON(value))
}

func (l *eventLine) number(name string, value int) *eventLine {
	return l.raw(name, strconv.Itoa(value))
}

// end says how a process ended: by its exit code, as a shell has it, and the signal if
// that was one.
func (l *eventLine) end(wait int) *eventLine {
	status := syscall.WaitStatus(wait) //nolint:gosec // G115: it was one
	if !status.Signaled() {
		return l.number("exitCode", status.ExitStatus())
	}
	return l.number("exitCode", 128+int(status.Signal())).text("signal", supervisor.SignalName(status.Signal()))
}

// since says how long ago another event was, if it was.
func (l *eventLine) since(ev *events, e supervisor.Event) {
	if began, was := ev.began[e]; was {
		l.number("milliseconds", int(time.Since(began).Milliseconds()))
	}
}
