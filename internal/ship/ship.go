// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package ship is the shipper: it sends the output of a container to the log service. It
// reads the output from the ring that the supervisor fills (package ring). It is a
// process of its own, so that masking, compression and the network can neither fail nor
// delay the command.
//
// The shipper sends each stream in parts, each of which is a range of bytes, and repeats
// a part until the service has stored it. Because the service identifies bytes by their
// offset, two parts can be in flight, and responses can come in any order. Bytes that the
// ring has overwritten are marked as dropped. The ring also has the progress: the offset
// before which all parts of a stream are done. A shipper that replaces a killed one
// continues there.
//
// One goroutine does everything but wait for responses, so there are no locks.
package ship

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/entrypointer/entrypointer/internal/proc"
	"github.com/entrypointer/entrypointer/internal/ring"
)

// The file descriptors that the supervisor passes to the shipper.
const (
	ringFD     = 3
	wakeFD     = 4 // an eventfd, by which the supervisor wakes the shipper
	newsFD     = 5 // an eventfd, by which the shipper wakes the supervisor
	snapshotFD = 6 // a ring.Snapshot of the supervisor, or /dev/null if it couldn't create one
)

// options are the command-line flags of the shipper.
type options struct {
	address, ip, authority, token, container, start, message string
	labels                                                   labels
	secrets                                                  secretSources
}

// list is the value of a flag that can be repeated.
type list []string

func (l *list) String() string { return strings.Join(*l, ",") }

func (l *list) Set(value string) error {
	*l = append(*l, value)
	return nil
}

// labels is the value of a flag that can be repeated, each time with KEY=VALUE.
type labels map[string]string

func (l *labels) String() string { return fmt.Sprint(map[string]string(*l)) }

func (l *labels) Set(s string) error {
	key, value, both := strings.Cut(s, "=")
	if !both {
		return fmt.Errorf("%.100q isn't KEY=VALUE", s)
	}
	if *l == nil {
		*l = labels{}
	}
	(*l)[key] = value
	return nil
}

func parse(args []string) (*options, error) {
	var o options
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	flags.StringVar(&o.address, "logs-to", "", "")
	flags.StringVar(&o.token, "logs-token", "", "")
	flags.StringVar(&o.container, "logs-container", "", "")
	flags.StringVar(&o.start, "start", "", "")
	flags.StringVar(&o.message, "logs-message", "", "")
	flags.StringVar(&o.ip, "logs-ip", "", "")
	flags.StringVar(&o.authority, "logs-ca", "", "")
	flags.Var(&o.labels, "logs-label", "")
	flags.Var((*list)(&o.secrets.variables), "mask-env", "")
	flags.Var((*list)(&o.secrets.paths), "mask-files", "")
	return &o, flags.Parse(args[1:])
}

// Main sends until all streams are complete, and returns the exit code.
func Main(args []string) int {
	o, err := parse(args)
	if err != nil {
		return 2 // package flag has printed the error
	}
	memory, err := ring.Open(ringFD)
	if err != nil {
		fmt.Fprintf(os.Stderr, "entrypointer: sending logs: %v\n", err)
		return 1
	}
	volunteerForOOMKill()
	r := memory.Reader()
	reason := &failure{ring: r, news: newsFD, text: r.Failure()} // as the former shipper left it
	if err := run(o, r, reason); err != nil {
		reason.set(err.Error())
		return 1
	}
	return 0
}

// volunteerForOOMKill has the kernel kill the shipper rather than the command when the
// container is out of memory. Where the kernel would kill the whole container with it, the
// shipper must not be preferred: the pod or the node may be out of memory because of another
// container. It also keeps the shipper's heap small.
func volunteerForOOMKill() {
	if proc.OOMKillsOne() {
		_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0) // fails where /proc is read-only
	}
	debug.SetGCPercent(25)
}

// run sends until all streams are complete.
func run(o *options, r *ring.Reader, reason *failure) error {
	client, err := newClient(o)
	if err != nil {
		return err
	}
	snapshot, _ := ring.OpenSnapshot(snapshotFD) // nil if the supervisor couldn't create one
	s := newShipper(r, client, newSecrets(o.secrets, os.Environ(), snapshot, reason.set), reason, wakeFD)
	s.message = o.message
	s.run()
	return nil
}

// maxInFlight bounds the requests in flight. While the service stores the first, the
// second travels, and the part after that is masked and compressed.
const maxInFlight = 2

// A shipper sends all streams of a container.
type shipper struct {
	ring       *ring.Reader
	client     *client
	secrets    *secrets
	senders    []*sender
	failure    *failure
	nextSender int    // the index of the sender whose turn it is
	message    string // the path of the termination message, "" to write none

	wake     int // wakeFD
	inFlight int
	outcomes chan outcome
}

// An outcome is the result of a request.
type outcome struct {
	sender   *sender
	part     *part
	id       string        // of the stream, once it is created
	creating bool          // the request had to create the stream first
	created  bool          // the stream exists, so err is about the part
	linger   time.Duration // of the stream from now on
	err      error
}

func newShipper(r *ring.Reader, c *client, known *secrets, reason *failure, wake int) *shipper {
	s := &shipper{ring: r, client: c, secrets: known, failure: reason, wake: wake, outcomes: make(chan outcome, maxInFlight)}
	s.secrets.load()
	for _, stream := range ring.Streams {
		s.senders = append(s.senders, newSender(r, stream, c, s.secrets.masker))
	}
	return s
}

// run sends until all streams are complete.
func (s *shipper) run() {
	defer s.explain() // the last look may have been before the end
	for !s.complete() {
		s.handleOutcomes()
		s.explain()
		if wait := s.send(); wait > 0 && !s.complete() {
			s.wait(wait)
		}
	}
}

func (s *shipper) complete() bool {
	for _, sender := range s.senders {
		if !sender.complete {
			return false
		}
	}
	return true
}

// reloadSecrets gives the senders a new masker if files have changed, and reports whether
// it did.
func (s *shipper) reloadSecrets() bool {
	if !s.secrets.reload() {
		return false
	}
	for _, sender := range s.senders {
		sender.masker = s.secrets.masker
	}
	return true
}

// send sends the next part, and returns how long to wait before the one after it: 0 if
// that may be due already.
func (s *shipper) send() time.Duration {
	pause, full := untilWoken, false
	for i := range s.senders {
		next := (s.nextSender + i) % len(s.senders)
		sender := s.senders[next]
		due, wait := sender.prepare(time.Now())
		if sender.needsMore() {
			s.wakeSupervisor()
		}
		// A sender that has to wait for a response has the next turn.
		full = full || due && (s.inFlight >= maxInFlight || s.inFlight > 0 && !sender.isLarge())
		if due && full {
			sender.secretsReloaded = false // the files may change until the part is sent
		}
		switch {
		case !due:
			pause = min(pause, wait)
		case !full:
			s.nextSender = next + 1
			s.sendPart(sender)
			return 0
		}
	}
	// Inspect the files meanwhile as well, or intermediate values are missed.
	if s.mustInspect() {
		s.reloadSecrets()
		pause = min(pause, longestRest)
	}
	return pause
}

// mustInspect reports whether the files may change while bytes wait: for the next attempt
// or, if the supervisor doesn't inspect them, for more bytes.
func (s *shipper) mustInspect() bool {
	isLingering := s.secrets.snapshot == nil && slices.ContainsFunc(s.senders, (*sender).isLingering)
	return len(s.secrets.files.Paths) > 0 && (s.isRetrying() || isLingering)
}

// isRetrying reports whether a part has to be sent again.
func (s *shipper) isRetrying() bool {
	return slices.ContainsFunc(s.senders, func(sender *sender) bool { return sender.retrying })
}

// refusal returns why the last bytes of a stream were refused, "" if none were.
func (s *shipper) refusal() string {
	for _, sender := range s.senders {
		if sender.refusal != "" {
			return sender.refusal
		}
	}
	return ""
}

// sendPart sends the next part of a stream. If the secrets have changed, it sends
// nothing, because the bytes have to be masked again.
func (s *shipper) sendPart(sender *sender) {
	// Files are inspected after the output was read, because a secret is in its file
	// before the command prints it. They are inspected once for each part, so that a file
	// which changes all the time delays nothing.
	if !sender.secretsReloaded && s.reloadSecrets() {
		sender.secretsReloaded, sender.inspectedUntil = true, sender.readAt
		return
	}
	a := outcome{sender: sender, part: sender.nextPart(), id: sender.id, creating: sender.id == ""}
	s.inFlight++
	go func() {
		if a.creating {
			a.id, a.err = s.client.create(sender.stream.Name())
		}
		if a.created = a.err == nil; a.created {
			a.linger, a.err = a.part.send(s.client, a.id)
		}
		s.outcomes <- a
		ring.Wake(s.wake)
	}()
}

// handleOutcomes handles the requests that have ended.
func (s *shipper) handleOutcomes() {
	for {
		select {
		case a := <-s.outcomes:
			s.inFlight--
			now := time.Now()
			if err := a.sender.handleAnswer(a.part, a, now); err != nil {
				s.postponeAll(err, now)
				s.failure.set(err.Error())
			}
			if !s.isRetrying() {
				s.failure.set(s.refusal())
			}
			s.wakeSupervisor()
		default:
			return
		}
	}
}

// wakeSupervisor wakes the supervisor if it waits for room in the ring.
func (s *shipper) wakeSupervisor() {
	if s.ring.ClaimWake() {
		ring.Wake(s.failure.news)
	}
}

// postponeAll has all senders wait for the Retry-After of one response.
func (s *shipper) postponeAll(err error, now time.Time) {
	asked, is := errors.AsType[*retryError](err)
	if !is || asked.wait == 0 {
		return
	}
	for _, sender := range s.senders {
		if until := now.Add(asked.wait); sender.nextTry.Before(until) {
			sender.nextTry, sender.secretsReloaded = until, false
		}
	}
}

// untilWoken is the pause of a shipper that has nothing to do until it is woken.
const untilWoken = time.Hour

// wait returns after a pause, or when the supervisor or a response wakes the shipper.
func (s *shipper) wait(pause time.Duration) {
	for _, sender := range s.senders {
		s.ring.WakeAt(sender.stream, sender.wakeThreshold(time.Now()))
	}
	s.ring.Sleep()
	defer s.ring.Awake()
	if s.checkForWork() {
		return
	}
	fds := []unix.PollFd{{Fd: int32(s.wake), Events: unix.POLLIN}} //nolint:gosec // descriptors are ints of C
	if n, _ := unix.Poll(fds, int(max(pause.Milliseconds(), 1))); n > 0 {
		var count [8]byte
		_, _ = unix.Read(s.wake, count[:])
	}
	s.checkForWork()
}

// checkForWork reports whether there are outcomes or bytes to handle. The end of a stream
// cuts the pause before the next attempt short, once.
func (s *shipper) checkForWork() (news bool) {
	news = len(s.outcomes) > 0
	for _, sender := range s.senders {
		written, ended := s.ring.Written(sender.stream)
		if ended && !sender.triedAtEnd {
			sender.triedAtEnd, sender.nextTry = true, time.Time{}
			news = true
		}
		news = news || written >= sender.wakeThreshold(time.Now())
	}
	return news
}
