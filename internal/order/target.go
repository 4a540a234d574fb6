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

// A Target is a server or a file of the pod that publishes no state, because it doesn't
// run under a supervisor. Probes find out whether it is up.
type Target struct {
	URL   string // as the user wrote it
	probe Probe
}

// ParseTarget parses http://HOST:PORT/PATH, tcp://HOST:PORT and file:///PATH. HOST is
// as in ParseEndpoint.
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

// IsHTTP reports whether the target is an HTTP URL.
func (t Target) IsHTTP() bool { return t.probe.HTTP != nil }

// Targets are the targets that a container waits for, until the probe of each has
// succeeded once. Like a Prober, Targets never block.
type Targets []*trackedTarget

type trackedTarget struct {
	*Prober
	url string
	met bool
}

// NewTargets returns the probes of a list. The caller closes them.
func NewTargets(list []Target) (ts Targets) {
	for i := range list {
		ts = append(ts, &trackedTarget{Prober: NewProber(&list[i].probe, nil), url: list[i].URL})
	}
	return ts
}

// Act starts or continues the probes. It returns the latest time to call it again, zero
// if all targets have succeeded.
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

// Unmet returns the targets that haven't succeeded yet.
func (ts Targets) Unmet() (list []Unmet) {
	for _, t := range ts {
		if t.met {
			continue
		}
		u := Unmet{URL: t.url, Seen: "no attempt has finished yet"}
		if _, err := t.Failure(); err != nil {
			u.Seen = err.Error()
		}
		list = append(list, u)
	}
	return list
}

// Poll appends the descriptors on whose events the caller calls Act.
func (ts Targets) Poll(fds []unix.PollFd) []unix.PollFd {
	for _, t := range ts {
		fds = t.Prober.Poll(fds)
	}
	return fds
}

// Close ends the current attempts.
func (ts Targets) Close() {
	for _, t := range ts {
		t.Prober.Close()
	}
}
