// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package capture moves the output of the command into a ring (package ring), from where
// the shipper sends it to the log service (package ship).
//
// The command's stdout and stderr are pipes. The supervisor empties them, and does
// nothing else that could block the command: masking and the network are the shipper's.
// The supervisor starts the shipper at the first byte, and again whenever it ends too
// early.
package capture

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/entrypointer/entrypointer/internal/ring"
	"github.com/entrypointer/entrypointer/internal/signals"
	"github.com/entrypointer/entrypointer/internal/supervisor/cmdline"
	"github.com/entrypointer/entrypointer/internal/supervisor/output"
	"github.com/entrypointer/entrypointer/internal/supervisor/report"
)

// The values of -logs.
const (
	modeStream = "stream"
	modeTee    = "tee"
)

// maxFailure bounds the failure in the status, in bytes: a termination message holds
// 4096.
const maxFailure = 400

// eventsFlush bounds the wait for the log service at the end of a command that has
// printed nothing.
const eventsFlush = time.Second

// defaultFlush is the default of -logs-flush.
const defaultFlush = 10 * time.Second

// A Capture is the output.Output of the binaries in cmd/withlogs.
type Capture struct {
	mode    string        // the value of -logs, "" if it isn't set
	flush   time.Duration // the value of -logs-flush
	grace   time.Duration // the value of -logs-grace: from SIGTERM to SIGKILL, 0 if unknown
	buffer  int64         // the value of -logs-buffer
	brake   brake         // its bound is the value of -logs-when-full
	options []string      // the command-line flags of the shipper
	message string        // the value of -logs-message
	failed  bool          // the container fails
	pointed bool          // the cluster's log says where the output is
	masked  []string      // the values of -mask-files

	ring            *ring.Writer
	pipes           [len(ring.Printed)]*pipe
	shipper         *shipperProcess
	witness         *witness // nil without masked files
	recordedFailure string   // the failure in the last event about sending
	events          events
	lateLines       []byte // the supervisor's lines since End
	losses          losses
}

var _ output.Output = (*Capture)(nil)

// New returns a Capture that does nothing until its flags are set.
func New() *Capture { return &Capture{flush: defaultFlush, buffer: ring.DefaultCapacity} }

// Flags implements output.Output.
func (c *Capture) Flags() []cmdline.Flag {
	return []cmdline.Flag{
		{Name: "logs", Value: modeStream + "|" + modeTee, Help: `Send the output of the command to the log service only (stream), or also to the
container's own stdout and stderr (tee).`, Set: c.setMode},
		{Name: "logs-buffer", Value: "BYTES", Help: `The size of the memory for output that the log service lacks, for each of stdout
and stderr: from 262144 to 67108864, 1048576 by default.`, Set: c.setBuffer},
		{Name: "logs-when-full", Value: "drop|block:DURATION", Help: `When this memory is full, drop its oldest bytes (drop, the default), or let the
command wait until the log service has taken bytes (block). After this time
without a byte taken, drop until the service takes bytes again.`, Set: c.setWhenFull},
		{Name: "logs-flush", Value: "DURATION", Help: `How long to wait for the log service after the command has ended, 10s by default,
and 10s at most if the command was stopped.`, Set: setDuration(&c.flush)},
		{Name: "logs-grace", Value: "DURATION", Help: `The pod's grace period. After a stop signal, the wait for the log service ends two
seconds before the grace period does.`, Set: setDuration(&c.grace)},
		c.shipperFlag("logs-to", "URL", "The URL of the log service."),
		c.shipperFlag("logs-ip", "ADDRESS", "The IP address of the log service, for pods whose DNS doesn't resolve its name."),
		c.shipperFlag("logs-ca", "sha256:HEX", "The SHA-256 of the public key of the log service's CA."),
		c.shipperFlag("logs-token", "PATH", "The file with the service account token for the log service."),
		{Name: "logs-message", Value: "PATH", Help: `If the container fails and this file, its termination message, is empty, write
the masked end of the output to it.`, Set: c.setMessage},
		c.shipperFlag("logs-container", "NAME", "The name of the container at the log service."),
		c.shipperFlag("logs-label", "KEY=VALUE", "A label of the pod by which its logs can be listed. May be repeated."),
		c.shipperFlag("mask-env", "NAME", `Mask the value of this environment variable with asterisks. May be repeated.`),
		c.maskFilesFlag(),
	}
}

func (c *Capture) setMessage(value string) string {
	c.message = value
	return c.shipperFlag("logs-message", "", "").Set(value)
}

func (c *Capture) maskFilesFlag() cmdline.Flag {
	f := c.shipperFlag("mask-files", "PATH", `Mask the content of this file, or of all files in this directory, with
asterisks. May be repeated.`)
	pass := f.Set
	f.Set = func(given string) string {
		c.masked = append(c.masked, given)
		return pass(given)
	}
	return f
}

// shipperFlag returns a flag that the supervisor passes on to the shipper.
func (c *Capture) shipperFlag(name, value, help string) cmdline.Flag {
	return cmdline.Flag{Name: name, Value: value, Help: help, Set: func(given string) string {
		if given == "" {
			return "it needs a value"
		}
		c.options = append(c.options, "-"+name+"="+given)
		return ""
	}}
}

func (c *Capture) setMode(value string) string {
	if value != modeStream && value != modeTee {
		return "use " + modeStream + " or " + modeTee
	}
	c.mode = value
	return ""
}

func (c *Capture) setBuffer(value string) string {
	size, err := strconv.ParseInt(value, 10, 64)
	if err != nil || size < ring.MinCapacity || size > ring.MaxCapacity {
		return "use a number of bytes from " + strconv.Itoa(ring.MinCapacity) + " to " + strconv.Itoa(ring.MaxCapacity)
	}
	c.buffer = size
	return ""
}

func (c *Capture) setWhenFull(value string) string {
	if value == "drop" {
		c.brake.bound = 0
		return ""
	}
	bound, blocks := strings.CutPrefix(value, "block:")
	if !blocks {
		return "use drop, or block and a duration, such as block:30s"
	}
	return setDuration(&c.brake.bound)(bound)
}

func setDuration(into *time.Duration) func(string) string {
	return func(value string) string {
		d, err := time.ParseDuration(value)
		if err != nil || d < 0 {
			return "no duration: use one such as 10s"
		}
		*into = d
		return ""
	}
}

// Enabled implements output.Output.
func (c *Capture) Enabled() bool { return c.mode != "" }

// Open implements output.Output.
func (c *Capture) Open(start output.Starter) error {
	for _, s := range ring.Printed {
		if isTerminal(descriptorOf(s)) {
			return errors.New("sending logs: " + s.Name() + " is a terminal, which takes it: set tty: false in the container, or logs to off")
		}
	}
	shared, err := newShared(c.buffer)
	if err != nil {
		return captureError(err)
	}
	for _, s := range ring.Printed {
		if c.pipes[s], err = openPipe(s, c.mode == modeTee); err != nil {
			for _, open := range c.pipes[:s] {
				open.close()
			}
			shared.close()
			return captureError(err)
		}
	}
	c.ring = shared.ring.Writer()
	if len(c.masked) > 0 {
		if c.witness, err = newWitness(c.masked, shared.snapshot); err == nil {
			c.ring.Hold()
		}
	}
	// A fixed width, so that the starts of a container sort in their order.
	c.options = append(c.options, "-start="+time.Now().UTC().Format("2006-01-02T15:04:05.000000000Z"))
	c.shipper = &shipperProcess{start: start, options: c.options, shared: shared}
	return nil
}

func captureError(err error) error {
	return errors.New("sending logs: " + err.Error() + ": what the command prints goes where it went before")
}

// traceLabel is the label of a stream with its trace (pkg/loglabels). Of several values of a
// label, the last counts.
const traceLabel = "entrypointer.dev/traceparent"

// SetTrace implements output.Output. All streams have the span as their label, in place of
// the one above it.
func (c *Capture) SetTrace(traceparent, parent string) {
	c.options = append(c.options, "-logs-label="+traceLabel+"="+traceparent)
	c.events.traceparent, c.events.parentSpan = traceparent, parent
}

// Files implements output.Output.
func (c *Capture) Files() (stdout, stderr uintptr) {
	return uintptr(c.pipes[ring.Stdout].write), uintptr(c.pipes[ring.Stderr].write)
}

// restore has the supervisor's own stdout and stderr lead to their original files.
func (c *Capture) restore() {
	for _, p := range c.pipes {
		p.restore()
	}
}

func isTerminal(fd int) bool {
	_, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	return err == nil
}

// Poll implements output.Output.
func (c *Capture) Poll(fds []unix.PollFd) []unix.PollFd {
	for _, p := range c.pipes {
		fds = p.poll(c.ring, fds)
	}
	if c.witness != nil {
		fds = c.witness.poll(fds)
	}
	return c.shipper.poll(fds)
}

// maxReads bounds the reads from a pipe at a time, 1 MiB in total, so that the supervisor
// gets to its other work.
const maxReads = 16

// Advance implements output.Output.
func (c *Capture) Advance() time.Duration {
	c.shipper.hearNews()
	c.brake.look(c.ring)
	pause := c.takeAll()
	c.pointToOutput()
	c.reportLoss(time.Now())
	if c.witness != nil {
		pause = min(pause, c.witness.advance(c.ring))
	}
	pause = min(pause, c.shipper.maintain(c.ring))
	if c.Flushed() {
		return 0 // whoever waits for Flushed checks again at once
	}
	return pause
}

// WriteLine implements output.Output.
func (c *Capture) WriteLine(line []byte) {
	if c.pipes[ring.Stderr].ending {
		c.lateLines = append(c.lateLines, line...) // the stream has its length already
		return
	}
	c.ring.Write(ring.Stderr, line)
}

// End implements output.Output.
func (c *Capture) End() {
	for _, p := range c.pipes {
		p.markEnd(c.ring, c.shipper.shared.nothing)
	}
	c.Advance()
}

// Flushed implements output.Output.
func (c *Capture) Flushed() bool {
	for _, p := range c.pipes { // no pipe is ended before End
		if !p.ended || p.teeLag(c.ring) > 0 {
			return false
		}
	}
	if c.lacksExplanation() && c.shipper.pollExit != nil {
		return false // the shipper writes the termination message
	}
	return c.shipper.isDone(c.ring)
}

// FlushTimeouts implements output.Output.
func (c *Capture) FlushTimeouts() (afterEnd, grace time.Duration) {
	if !printed(c.ring) {
		return min(c.flush, eventsFlush), c.grace
	}
	return c.flush, c.grace
}

// Close implements output.Output.
func (c *Capture) Close() string {
	var missing []string
	c.brake.released = true // the time for the log service is over
	for _, p := range c.pipes {
		if lacks := p.teeDropped + p.teeLag(c.ring); lacks > 0 {
			missing = append(missing, "the cluster's log lacks "+strconv.FormatInt(lacks, 10)+" bytes of "+p.stream.Name())
		}
		for p.tee = -1; !p.ended; { // the time for the reader of the tee is over
			p.take(c.ring, &c.brake)
		}
		if p.noteLate(); p.afterEnd > 0 {
			missing = append(missing, "the log service lacks "+strconv.FormatInt(p.afterEnd, 10)+" bytes that other processes have printed to "+p.stream.Name()+" since the command ended")
		}
	}
	c.restore()
	c.explainAbsence()
	if len(c.lateLines) > 0 {
		_, _ = signals.Write(descriptorOf(ring.Stderr), c.lateLines) // an error can't be reported anywhere
	}
	if missing = append(missing, c.missingFromService()...); missing == nil {
		return ""
	}
	return "sending logs: " + strings.Join(missing, "; ")
}

// missingFromService says what the log service lacks, nil if it has everything.
func (c *Capture) missingFromService() []string {
	if c.shipper.isDone(c.ring) {
		return nil
	}
	var streams []string
	for _, s := range ring.Printed {
		written := c.ring.Written(s)
		if done, closed := c.ring.ReaderProgress(s); !closed {
			streams = append(streams, strconv.FormatInt(written-done.At, 10)+" of "+strconv.FormatInt(written, 10)+" bytes of "+s.Name())
		}
	}
	why := c.failure()
	if patience, _ := c.FlushTimeouts(); why == "" {
		why = "it has taken no more within " + patience.String()
	}
	if !printed(c.ring) || streams == nil {
		return []string{"the log service lacks the events of the container: " + why}
	}
	return []string{"the log service lacks " + strings.Join(streams, " and ") + ", and their end: " + why}
}

// failure returns why nothing is sent at the moment, "" if all is well.
func (c *Capture) failure() string {
	failure := c.shipper.failure(c.ring)
	if failure == "" && c.witness != nil {
		failure = c.witness.failure
	}
	return failure
}

// StatusChanged implements output.Output.
func (c *Capture) StatusChanged() bool {
	if failure := c.failure(); failure != c.recordedFailure {
		c.recordSendingChange(failure)
		c.recordedFailure = failure
		c.shipper.wakeIfDue(c.ring)
		return true
	}
	return false
}

// Status implements output.Output.
func (c *Capture) Status() string {
	var b strings.Builder
	b.WriteString(`{"mode":"` + c.mode + `"`)
	for _, s := range ring.Printed {
		done, closed := c.ring.ReaderProgress(s)
		dropped := done.Dropped
		if !closed { // the log service doesn't know yet of the latest
			dropped = max(dropped, c.ring.Lost(s))
		}
		b.WriteString(c.printedStatus(s) + `,"stored":` + strconv.FormatInt(done.At-done.Dropped, 10) + `,"dropped":` + strconv.FormatInt(dropped, 10))
		if closed {
			b.WriteString(`,"complete":true`)
		}
		if late := c.pipes[s].afterEnd; late > 0 {
			b.WriteString(`,"afterEnd":` + strconv.FormatInt(late, 10))
		}
		b.WriteString("}")
	}
	if failure := c.failure(); failure != "" {
		b.WriteString(`,"failure":` + report.QuoteJSON(failure[:min(len(failure), maxFailure)]))
	}
	b.WriteString("}")
	return b.String()
}

// printedStatus returns the beginning of the status of a stream: what is known of it
// without the log service.
func (c *Capture) printedStatus(s ring.Stream) string {
	text := `,"` + s.Name() + `":{"printed":` + strconv.FormatInt(c.pipes[s].printed(c.ring), 10)
	if c.pipes[s].heldOpen {
		text += `,"heldOpen":true`
	}
	return text
}

// endStatus is Status for the last event. It leaves out what is stored and dropped: by the
// time when somebody reads the event, more is.
func (c *Capture) endStatus() string {
	text := `{"mode":"` + c.mode + `"`
	for _, s := range ring.Printed {
		text += c.printedStatus(s) + "}"
	}
	return text + "}"
}

// shipperName is the argv[0] that makes the program a shipper.
const shipperName = "entrypointer-shipper"

// IsShipper reports whether a process with these arguments is a shipper.
func IsShipper(args []string) bool { return len(args) > 0 && args[0] == shipperName }

// ownPath returns the path of the running program.
func ownPath() string {
	if path, err := os.Readlink("/proc/self/exe"); err == nil {
		return path
	}
	return os.Args[0]
}
