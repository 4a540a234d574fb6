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
// what it has. What the ring has lost meanwhile is marked as dropped. How far each
// stream has come is noted in the ring, so a shipper that dies is replaced by
// another.
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
	"unicode"

	"golang.org/x/sys/unix"

	"github.com/entrypointer/entrypointer/internal/ring"
)

// The descriptors that the supervisor gives us.
const (
	ringFD = 3
	wakeFD = 4 // an eventfd
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
	if err := run(o, memory.Reader()); err != nil {
		memory.Reader().SetFailure(printable(err.Error()))
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
func run(o *options, r *ring.Reader) error {
	client, err := newClient(o)
	if err != nil {
		return err
	}
	s := &shipper{ring: r, client: client, secrets: &secrets{sources: o.secrets, environ: os.Environ()}}
	s.secrets.read()
	for _, stream := range ring.Streams {
		s.senders = append(s.senders, newSender(r, stream, s.client, s.secrets.masker, s.renewSecrets))
	}
	for !s.complete() {
		wait := s.send()
		if wait > 0 {
			s.wait(wait)
		}
	}
	return nil
}

// A shipper sends all streams of a container.
type shipper struct {
	ring    *ring.Reader
	client  *client
	secrets *secrets
	senders []*sender
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

// send sends what is due, and returns when more may be: 0 for now.
func (s *shipper) send() time.Duration {
	pause := forever
	for _, sender := range s.senders {
		now := time.Now()
		wait, err := sender.advance(now)
		if err != nil {
			sender.failed(err, now)
			s.heed(err, now)
			s.ring.SetFailure(printable(err.Error()))
			wait = time.Until(sender.next)
		}
		pause = min(pause, wait)
	}
	if !slices.ContainsFunc(s.senders, func(sender *sender) bool { return sender.failing }) {
		s.ring.SetFailure("")
	}
	return pause
}

// heed has all senders wait as long as the service has asked one of them to.
func (s *shipper) heed(err error, now time.Time) {
	asked, is := errors.AsType[*again](err)
	if !is || asked.after == 0 {
		return
	}
	for _, sender := range s.senders {
		if until := now.Add(asked.after); sender.next.Before(until) {
			sender.next = until
		}
	}
}

// printable is a text of one line: what a service answers may be anything.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, text)
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
	fds := []unix.PollFd{{Fd: wakeFD, Events: unix.POLLIN}}
	if n, _ := unix.Poll(fds, int(max(pause.Milliseconds(), 1))); n > 0 {
		var count [8]byte
		_, _ = unix.Read(wakeFD, count[:])
	}
	s.hasNews()
}

// hasNews reports whether there is something to do that there wasn't before. That
// nothing more will come of a stream is: what is left is tried at once then.
func (s *shipper) hasNews() (news bool) {
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
