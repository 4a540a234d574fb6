// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"time"

	"github.com/entrypointer/entrypointer/internal/await"
	"github.com/entrypointer/entrypointer/internal/order"
)

var waitForFlags = []flag{{
	"wait-for", "URL", `Start only when a probe of this URL has succeeded once:
http://HOST:PORT/PATH (a code from 200 to 399), tcp://HOST:PORT (a
connection) or file:///PATH (the file exists). The URL is probed once a
second, and again after hooks and pauses. May be repeated to wait for all of
the URLs, in addition to -depends-on, and for as long as -depends-on-timeout.`, addWaitFor,
}}

func addWaitFor(o *options, value string) string {
	t, ok := order.ParseTarget(value)
	if !ok {
		return "not a URL to wait for: use http://HOST:PORT/PATH, tcp://HOST:PORT with an IP address or nothing as the host, or file:///PATH"
	}
	o.waitFor = append(o.waitFor, t)
	return ""
}

// conditions are a Waiter's source: the dependencies and targets that the command's
// start needs.
type conditions struct {
	*order.Dependencies
	targets order.Targets
}

func (s *supervision) newConditions() *conditions {
	c := &conditions{order.NewDependencies(s.opts.dependsOn, s.opts.heartbeat), order.NewTargets(s.opts.waitFor)}
	s.polled = c.targets
	return c
}

// Look returns Met once all dependencies are met and all targets have succeeded.
func (c *conditions) Look() (await.State, error) {
	state, err := c.Dependencies.Look()
	if state == await.Met && len(c.targets.Unmet()) > 0 {
		state = await.Waiting
	}
	return state, err
}

// try continues the probes of the targets, and returns the time until the next call.
func (c *conditions) try() time.Duration {
	next := c.targets.Act()
	if next.IsZero() {
		return forever
	}
	return max(time.Until(next), 0)
}

// unmet returns the unmet dependencies and targets.
func (c *conditions) unmet() []order.Unmet { return append(c.Unmet(), c.targets.Unmet()...) }

func (s *supervision) closeConditions(c *conditions) {
	c.targets.Close()
	s.polled = nil
}
