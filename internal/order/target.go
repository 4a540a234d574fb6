// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package order

import (
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A Target is something of the pod that tells nobody by a directory how it is doing: it
// can only be asked.
type Target struct {
	URL   string // as it was given
	probe Probe
}

// ParseTarget reads http://HOST:PORT/PATH, tcp://HOST:PORT, of hosts as of ParseEndpoint,
// and file:///PATH.
func ParseTarget(value string) (t Target, ok bool) {
	t = Target{URL: value, probe: Probe{Period: time.Second, Timeout: time.Second}}
	kind, rest, _ := strings.Cut(value, "://")
	var e Endpoint
	switch kind {
	case "http":
		e, t.probe.Path, ok = ParseURL(value)
		t.probe.HTTP = &e
	case "tcp":
		e, ok = ParseEndpoint(rest)
		t.probe.TCP = &e
	case "file":
		t.probe.File, ok = rest, path.IsAbs(rest)
	}
	if !ok {
		return Target{}, false
	}
	return t, true
}

// IsHTTP reports whether it is asked by HTTP.
func (t Target) IsHTTP() bool { return t.probe.HTTP != nil }

// Targets are those that a container waits for: until each has succeeded once. As a
// Prober, they wait for nothing themselves.
type Targets []*trackedTarget

type trackedTarget struct {
	*Prober
	url string
	met bool
}

// NewTargets returns those of a list, to be closed.
func NewTargets(list []Target) (ts Targets) {
	for i := range list {
		ts = append(ts, &trackedTarget{Prober: NewProber(&list[i].probe, nil), url: list[i].URL})
	}
	return ts
}

// Act does what is due, and returns when to be called again at the latest. It is zero
// when all have succeeded.
func (ts Targets) Act() (next time.Time) {
	for _, t := range ts {
		if t.met {
			continue
		}
		met, due := t.Prober.Act()
		t.met = met
		if !met && (next.IsZero() || due.Before(next)) {
			next = due
		}
	}
	return next
}

// Unmet returns those that haven't succeeded yet.
func (ts Targets) Unmet() (list []Unmet) {
	for _, t := range ts {
		if t.met {
			continue
		}
		u := Unmet{URL: t.url, Seen: "it wasn't reached yet"}
		if _, err := t.Failure(); err != nil {
			u.Seen = err.Error()
		}
		list = append(list, u)
	}
	return list
}

// Poll adds the descriptors that may bring news.
func (ts Targets) Poll(fds []unix.PollFd) []unix.PollFd {
	for _, t := range ts {
		fds = t.Prober.Poll(fds)
	}
	return fds
}

// Close ends what is under way.
func (ts Targets) Close() {
	for _, t := range ts {
		t.Prober.Close()
	}
}
