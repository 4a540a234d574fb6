// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package capture has the supervisor take what the command prints into a ring
// (package ring), for the shipper to send it to the log service (package ship).
//
// The command's stdout and stderr are pipes. The supervisor moves what comes out of
// them, and does nothing else that could make the command wait: it neither knows
// secrets nor the network. It starts the shipper at the first byte, and again
// whenever that ends before all is done.
package capture

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/entrypointer/entrypointer/internal/ring"
	"github.com/entrypointer/entrypointer/internal/supervisor"
)

// The values of -logs.
const (
	modeStream = "stream"
	modeTee    = "tee"
)

// maxFailure is how much of an explanation is in the status, in bytes, of which a
// termination message has 4096.
const maxFailure = 400

// eventsFlush is how long the end of a command that has printed nothing waits at most.
const eventsFlush = time.Second

// defaultFlush is how long the end waits for the log service.
const defaultFlush = 10 * time.Second

// A Capture implements supervisor.Output.
type Capture struct {
	mode    string        // "" is not to
	flush   time.Duration // how long the end may be held up
	grace   time.Duration // from SIGTERM to SIGKILL, 0 if that isn't known
	options []string      // the shipper's

	ring    *ring.Writer
	pipes   [len(ring.Printed)]*pipe
	shipper *shipper
	told    string // the failure that was told
	events  events
}

var _ supervisor.Output = (*Capture)(nil)

// New returns a capture that isn't asked for yet.
func New() *Capture { return &Capture{flush: defaultFlush} }

// Flags implements supervisor.Output.
func (c *Capture) Flags() []supervisor.Flag {
	return []supervisor.Flag{
		{Name: "logs", Value: modeStream + "|" + modeTee, Help: `Send what the command prints to the log service, and not to where our
own output goes (stream), or to both (tee).`, Set: c.setMode},
		{Name: "logs-flush", Value: "DURATION", Help: `How long to wait for the log service at the end, 10s by default.`, Set: setDuration(&c.flush)},
		{Name: "logs-grace", Value: "DURATION", Help: `The pod's grace period: after a SIGTERM, don't wait into its last two
seconds.`, Set: setDuration(&c.grace)},
		c.shippers("logs-to", "URL", "The log service."),
		c.shippers("logs-ip", "ADDRESS", "Where it is as well, if the name isn't known."),
		c.shippers("logs-ca", "sha256:HEX", "The SHA-256 of the public key of the CA that has signed its certificate."),
		c.shippers("logs-token", "PATH", "The file with the token by which the log service knows the pod."),
		c.shippers("logs-container", "NAME", "What the log service calls this container."),
		c.shippers("logs-label", "KEY=VALUE", "A label of the pod by which what it prints is found. May be repeated."),
		c.shippers("mask-env", "NAME", `Write asterisks over the value of this variable. May be repeated.`),
		c.shippers("mask-files", "PATH", `Write asterisks over the content of this file, or of the files in this
directory. May be repeated.`),
	}
}

// shippers is a flag that the shipper has as well.
func (c *Capture) shippers(name, value, help string) supervisor.Flag {
	return supervisor.Flag{Name: name, Value: value, Help: help, Set: func(given string) string {
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

// Asked implements supervisor.Output.
func (c *Capture) Asked() bool { return c.mode != "" }

// Open implements supervisor.Output.
func (c *Capture) Open(start supervisor.Starter) error {
	for _, s := range ring.Printed {
		if isTerminal(fileOf(s)) {
			return errors.New("sending logs: " + s.Name() + " is a terminal, which takes it: set tty: false in the container, or logs to off")
		}
	}
	shared, err := share()
	if err != nil {
		return uncaptured(err)
	}
	for _, s := range ring.Printed {
		if c.pipes[s], err = openPipe(s, c.mode == modeTee); err != nil {
			for _, open := range c.pipes[:s] {
				open.close()
			}
			shared.close()
			return uncaptured(err)
		}
	}
	c.ring = shared.ring.Writer()
	// Of two lives of a container, the later one sorts behind the other.
	c.options = append(c.options, "-start="+time.Now().UTC().Format("2006-01-02T15:04:05.000000000Z"))
	c.shipper = &shipper{start: start, options: c.options, shared: shared}
	return nil
}

func uncaptured(err error) error {
	return errors.New("sending logs: " + err.Error() + ": what the command prints goes where it went before")
}

// Files implements supervisor.Output.
func (c *Capture) Files() (stdout, stderr uintptr) {
	return uintptr(c.pipes[ring.Stdout].write), uintptr(c.pipes[ring.Stderr].write)
}

// restore has our descriptors lead to where they led before.
func (c *Capture) restore() {
	for _, p := range c.pipes {
		p.restore()
	}
}

func isTerminal(fd int) bool {
	_, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	return err == nil
}

// Poll implements supervisor.Output.
func (c *Capture) Poll(fds []unix.PollFd) []unix.PollFd {
	for _, p := range c.pipes {
		fds = p.poll(c.ring, fds)
	}
	return c.shipper.poll(fds)
}

// rounds bound how much is taken at a time, so that the supervisor comes to do
// something else as well: 1 MiB of each stream.
const rounds = 16

// Take implements supervisor.Output.
func (c *Capture) Take() time.Duration {
	pause := supervisor.Forever
	for _, p := range c.pipes {
		pause = min(pause, p.take(c.ring, rounds))
	}
	pause = min(pause, c.shipper.care(c.ring))
	if c.Delivered() {
		return 0 // which is news for whoever waits for the end
	}
	return pause
}

// Say implements supervisor.Output.
func (c *Capture) Say(line []byte) { c.ring.Write(ring.Stderr, line) }

// End implements supervisor.Output.
func (c *Capture) End() {
	for _, p := range c.pipes {
		p.finish(c.ring)
	}
	c.Take()
}

// Delivered implements supervisor.Output.
func (c *Capture) Delivered() bool {
	for _, p := range c.pipes { // none has ended before End
		if !p.ended || p.behind(c.ring) > 0 {
			return false
		}
	}
	return c.shipper.done(c.ring)
}

// Patience implements supervisor.Output.
func (c *Capture) Patience() (afterEnd, afterTerm time.Duration) {
	if !printed(c.ring) {
		return min(c.flush, eventsFlush), c.grace
	}
	return c.flush, c.grace
}

// Close implements supervisor.Output.
func (c *Capture) Close() string {
	var missing []string
	for _, p := range c.pipes {
		if lacks := p.untold + p.behind(c.ring); lacks > 0 {
			missing = append(missing, "the cluster's log lacks "+strconv.FormatInt(lacks, 10)+" bytes of "+p.stream.Name())
		}
		for p.tee = -1; !p.ended; { // whoever reads there has had its time
			p.take(c.ring, rounds)
		}
	}
	c.restore()
	if missing = append(missing, c.unsent()...); missing == nil {
		return ""
	}
	return "sending logs: " + strings.Join(missing, "; ")
}

// unsent says what the log service lacks, if that is something.
func (c *Capture) unsent() []string {
	if c.shipper.done(c.ring) {
		return nil
	}
	var streams []string
	for _, s := range ring.Printed {
		written := c.ring.Written(s)
		if done, closed := c.ring.Done(s); !closed {
			streams = append(streams, strconv.FormatInt(written-done.At, 10)+" of "+strconv.FormatInt(written, 10)+" bytes of "+s.Name())
		}
	}
	why := c.shipper.failure(c.ring)
	if patience, _ := c.Patience(); why == "" {
		why = "it has taken no more within " + patience.String()
	}
	if !printed(c.ring) || streams == nil {
		return []string{"the log service lacks what happened to the container: " + why}
	}
	return []string{"the log service lacks " + strings.Join(streams, " and ") + ", and their end: " + why}
}

// News implements supervisor.Output.
func (c *Capture) News() bool {
	if failure := c.shipper.failure(c.ring); failure != c.told {
		c.tellSending(failure)
		c.told = failure
		c.shipper.wakeIfDue(c.ring)
		return true
	}
	return false
}

// Status implements supervisor.Output.
func (c *Capture) Status() string {
	var b strings.Builder
	b.WriteString(`{"mode":"` + c.mode + `"`)
	for _, s := range ring.Printed {
		done, closed := c.ring.Done(s)
		b.WriteString(`,"` + s.Name() + `":{"printed":` + strconv.FormatInt(c.ring.Written(s), 10) +
			`,"stored":` + strconv.FormatInt(done.At-done.Dropped, 10) + `,"dropped":` + strconv.FormatInt(done.Dropped, 10))
		if closed {
			b.WriteString(`,"complete":true`)
		}
		b.WriteString("}")
	}
	if failure := c.shipper.failure(c.ring); failure != "" {
		b.WriteString(`,"failure":` + supervisor.QuoteJSON(failure[:min(len(failure), maxFailure)]))
	}
	b.WriteString("}")
	return b.String()
}

// shipperName is the argv[0] by which the program knows that it is the shipper.
const shipperName = "entrypointer-shipper"

// IsShipper reports whether a process with these arguments is one.
func IsShipper(args []string) bool { return len(args) > 0 && args[0] == shipperName }

// itself is the program that runs.
func itself() string {
	if path, err := os.Readlink("/proc/self/exe"); err == nil {
		return path
	}
	return os.Args[0]
}
