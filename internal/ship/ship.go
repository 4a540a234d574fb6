// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package ship sends what a container prints to the log service, out of the ring
// that the supervisor fills (package ring). It runs as a process of its own beside
// the command, so that nothing which may fail or take long is in the command's way:
// secrets, compression, the network.
//
// It sends each stream in order, a range of bytes at a time, and repeats a range
// until the service has said that it is stored: the service knows by the offset
// what it has, so two may be under way, and be answered in any order. What the ring has
// lost meanwhile is marked as dropped. Up to where all of a stream is done is noted in
// the ring, so a shipper that dies is replaced by another.
//
// One goroutine does all but wait for answers, so nothing here has to be locked.
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

	"github.com/entrypointer/entrypointer/internal/ring"
)

// The descriptors that the supervisor gives us.
const (
	ringFD   = 3
	wakeFD   = 4 // an eventfd
	newsFD   = 5 // an eventfd, by which we wake the supervisor
	formerFD = 6 // a ring.Snapshot, or something else where there is none
)

// options are the shipper's flags.
type options struct {
	address, ip, authority, token, container, start string
	labels                                          labels
	secrets                                         secretSources
}

// list is a flag that may be repeated.
type list []string

func (l *list) String() string { return strings.Join(*l, ",") }

func (l *list) Set(value string) error {
	*l = append(*l, value)
	return nil
}

// labels is a flag that may be repeated, with KEY=VALUE.
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
	flags.StringVar(&o.ip, "logs-ip", "", "")
	flags.StringVar(&o.authority, "logs-ca", "", "")
	flags.Var(&o.labels, "logs-label", "")
	flags.Var((*list)(&o.secrets.variables), "mask-env", "")
	flags.Var((*list)(&o.secrets.paths), "mask-files", "")
	return &o, flags.Parse(args[1:])
}

// Main sends until both streams are complete, and returns the code to exit with.
func Main(args []string) int {
	o, err := parse(args)
	if err != nil {
		return 2 // package flag has said why
	}
	memory, err := ring.Open(ringFD)
	if err != nil {
		fmt.Fprintf(os.Stderr, "entrypointer: sending logs: %v\n", err)
		return 1
	}
	leaveMemoryToOthers()
	r := memory.Reader()
	said := &failure{ring: r, news: newsFD, text: r.Failure()} // of the shipper before
	if err := run(o, r, said); err != nil {
		said.set(err.Error())
		return 1
	}
	return 0
}

// leaveMemoryToOthers has the kernel end us, and not the command, if the container
// has no more memory, and keeps our own small.
func leaveMemoryToOthers() {
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0) // a /proc that can't be written to
	debug.SetGCPercent(25)
}

// run sends all that there is, and will be.
func run(o *options, r *ring.Reader, said *failure) error {
	client, err := newClient(o)
	if err != nil {
		return err
	}
	former, _ := ring.OpenSnapshot(formerFD) // nil where the supervisor couldn't make one
	newShipper(r, client, newSecrets(o.secrets, os.Environ(), former, said.set), said, wakeFD).run()
	return nil
}

// atOnce is how many requests are under way at most: while the service stores what one
// has, the next is sent, and the one after that is masked and compressed.
const atOnce = 2

// A shipper sends all streams of a container.
type shipper struct {
	ring    *ring.Reader
	client  *client
	secrets *secrets
	senders []*sender
	said    *failure
	turn    int // which of them comes first

	wake     int // an eventfd
	underWay int
	answers  chan answer
}

// An answer is what a request has come to.
type answer struct {
	sender *sender
	part   *part
	id     string // of the stream
	making bool   // the stream was to be made before
	made   bool   // it is there, so the error is none of making it
	err    error
}

func newShipper(r *ring.Reader, c *client, known *secrets, said *failure, wake int) *shipper {
	s := &shipper{ring: r, client: c, secrets: known, said: said, wake: wake, answers: make(chan answer, atOnce)}
	s.secrets.read()
	for _, stream := range ring.Streams {
		s.senders = append(s.senders, newSender(r, stream, c, s.secrets.masker))
	}
	return s
}

// run sends until all streams are complete.
func (s *shipper) run() {
	for !s.complete() {
		s.takeAnswers()
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

// renewSecrets has those masked as well that came since, and reports whether some did.
func (s *shipper) renewSecrets() bool {
	if !s.secrets.renew() {
		return false
	}
	for _, sender := range s.senders {
		sender.masker = s.secrets.masker
	}
	return true
}

// send sends a part that is due, and returns when another one may be: 0 for now.
func (s *shipper) send() time.Duration {
	pause, full := forever, false
	for i := range s.senders {
		next := (s.turn + i) % len(s.senders)
		sender := s.senders[next]
		due, wait := sender.due(time.Now())
		// Who has to wait for an answer is the first after it.
		full = full || due && (s.underWay >= atOnce || s.underWay > 0 && !sender.isLarge())
		if due && full {
			sender.renewed = false // more is read until it is sent
		}
		switch {
		case !due:
			pause = min(pause, wait)
		case !full:
			s.turn = next + 1
			s.sendPart(sender)
			return 0
		}
	}
	// Files may change several times before anything is sent.
	if s.failing() && len(s.secrets.files.paths) > 0 {
		s.renewSecrets()
		pause = min(pause, linger)
	}
	return pause
}

// failing reports whether something has to be sent again.
func (s *shipper) failing() bool {
	return slices.ContainsFunc(s.senders, func(sender *sender) bool { return sender.failing })
}

// refusal is why what a sender has sent last wasn't taken, "" if all of it was.
func (s *shipper) refusal() string {
	for _, sender := range s.senders {
		if sender.refusal != "" {
			return sender.refusal
		}
	}
	return ""
}

// sendPart sends what is due of a stream, or nothing, if it is to be masked anew.
func (s *shipper) sendPart(sender *sender) {
	// After it was read: a secret that is in a file is there before it is printed. Once,
	// so that a file which changes all the time holds nothing up.
	if !sender.renewed && s.renewSecrets() {
		sender.renewed = true
		return
	}
	a := answer{sender: sender, part: sender.part(), id: sender.id, making: sender.id == ""}
	s.underWay++
	go func() {
		if a.making {
			a.id, a.err = s.client.create(sender.stream.Name())
		}
		if a.made = a.err == nil; a.made {
			a.err = a.part.send(s.client, a.id)
		}
		s.answers <- a
		ring.Wake(s.wake)
	}()
}

// takeAnswers takes note of the requests that have ended.
func (s *shipper) takeAnswers() {
	for {
		select {
		case a := <-s.answers:
			s.underWay--
			now := time.Now()
			if err := a.sender.answered(a.part, a, now); err != nil {
				s.heed(err, now)
				s.said.set(err.Error())
			}
			if !s.failing() {
				s.said.set(s.refusal())
			}
		default:
			return
		}
	}
}

// heed has all senders wait as long as the service has asked one of them to.
func (s *shipper) heed(err error, now time.Time) {
	asked, is := errors.AsType[*again](err)
	if !is || asked.after == 0 {
		return
	}
	for _, sender := range s.senders {
		if until := now.Add(asked.after); sender.next.Before(until) {
			sender.next, sender.renewed = until, false
		}
	}
}

// forever is the pause of one who has nothing to do until it is woken.
const forever = time.Hour

// wait returns when the time is up, or when the supervisor has woken us.
func (s *shipper) wait(pause time.Duration) {
	for _, sender := range s.senders {
		s.ring.WakeAt(sender.stream, sender.wakeAt(time.Now()))
	}
	s.ring.Sleep()
	defer s.ring.Awake()
	if s.hasNews() {
		return
	}
	fds := []unix.PollFd{{Fd: int32(s.wake), Events: unix.POLLIN}} //nolint:gosec // descriptors are ints of C
	if n, _ := unix.Poll(fds, int(max(pause.Milliseconds(), 1))); n > 0 {
		var count [8]byte
		_, _ = unix.Read(s.wake, count[:])
	}
	s.hasNews()
}

// hasNews reports whether there is something to do that there wasn't before. That
// nothing more will come of a stream is: what is left is tried at once then.
func (s *shipper) hasNews() (news bool) {
	news = len(s.answers) > 0
	for _, sender := range s.senders {
		written, ended := s.ring.Written(sender.stream)
		if ended && !sender.hurried {
			sender.hurried, sender.next = true, time.Time{}
			news = true
		}
		news = news || written >= sender.wakeAt(time.Now())
	}
	return news
}
