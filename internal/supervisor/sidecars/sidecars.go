// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package sidecars asks sidecars without a supervisor to shut down when the pod's work is
// done.
package sidecars

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/entrypointer/entrypointer/internal/await"
	"github.com/entrypointer/entrypointer/internal/order"
	"github.com/entrypointer/entrypointer/internal/supervisor/cmdline"
	"github.com/entrypointer/entrypointer/internal/supervisor/console"
	"github.com/entrypointer/entrypointer/internal/supervisor/life"
	"github.com/entrypointer/entrypointer/internal/supervisor/presence"
	"github.com/entrypointer/entrypointer/pkg/conditions"
	"github.com/entrypointer/entrypointer/pkg/exitcodes"
)

// Options select the sidecars without a supervisor that must end when the pod's work is
// done.
type Options struct {
	Targets []order.Target
	On      exitcodes.Set
	When    []order.Dependency
}

// Flags adds the flags that set o.
func (o *Options) Flags(f *cmdline.Flags) {
	f.Add("end-sidecar", "http://HOST:PORT/PATH", `When the work of the pod is done, send a POST to this URL, so that a sidecar
without a supervisor shuts down. May be repeated.`, o.add)
	f.Add("end-sidecars-on", "CODE[-CODE][,...]", `The exit codes after which this container isn't restarted, so that its part
of the work is done, such as 0 or 0-255.`, o.setOn)
	f.Add("end-sidecars-when", "CONDITION:DIRECTORY", `The work is done only when the container with this -order-dir has completed
or exited, too. May be repeated.`, o.addWhen)
}

func (o *Options) add(value string) string {
	t, ok := order.ParseTarget(value)
	if !ok || !t.IsHTTP() {
		return "not a URL for a POST: use http://HOST:PORT/PATH with an IP address or nothing as the host"
	}
	o.Targets = append(o.Targets, t)
	return ""
}

func (o *Options) setOn(value string) string {
	set, ok := exitcodes.ParseAll(value)
	if !ok {
		return "not exit codes: use codes and ranges from 0 to 255, such as 0,3-5"
	}
	o.On = set
	return ""
}

func (o *Options) addWhen(value string) string {
	d, ok := cmdline.ParseEnd(value)
	if !ok {
		return "not an outcome of another container: use " + conditions.Ends.String() + ", a colon, and an absolute path"
	}
	o.When = append(o.When, d)
	return ""
}

// Check rejects flags that need another flag.
func (o *Options) Check(p *presence.Options) error {
	switch asks := len(o.Targets) > 0; {
	case asks && o.On == nil:
		return cmdline.Failure("-end-sidecar="+o.Targets[0].URL, "it needs the exit codes: use -end-sidecars-on as well")
	case !asks && (o.On != nil || o.When != nil):
		return cmdline.Failure("-end-sidecars-...", "no sidecar is named: use -end-sidecar as well")
	case o.When != nil && p.Dir == "":
		return cmdline.Failure("-end-sidecars-when="+string(o.When[0].Condition)+":"+o.When[0].Dir, "the other container can't observe this one: use -order-dir as well")
	}
	return nil
}

// Sidecars are asked to shut down at the end of a life.
type Sidecars struct {
	life      *life.Life
	opts      *Options
	heartbeat bool
	presence  *presence.Presence
	asked     shutdownRequests // while they last
}

// New returns the sidecars that the options name.
func New(l *life.Life, opts *Options, heartbeat bool, p *presence.Presence) *Sidecars {
	s := &Sidecars{life: l, opts: opts, heartbeat: heartbeat, presence: p}
	if len(opts.Targets) > 0 {
		l.Add(s)
	}
	return s
}

// Act has nothing to do: End serves the requests.
func (s *Sidecars) Act() time.Duration { return life.Forever }

// Poll appends the descriptors of the requests.
func (s *Sidecars) Poll(fds []unix.PollFd) []unix.PollFd { return s.asked.Poll(fds) }

const (
	// sidecarsWithin limits the time for the requests. A sidecar that has just started
	// may not listen yet.
	sidecarsWithin = 10 * time.Second
	// sidecarsAfterStop replaces sidecarsWithin after a stop signal, which the kubelet
	// also sends to the sidecars.
	sidecarsAfterStop = time.Second
)

// shutdownRequests are the concurrent shutdown requests.
type shutdownRequests []*order.ShutdownRequest

// Poll appends the descriptors on whose events the caller calls act.
func (requests shutdownRequests) Poll(fds []unix.PollFd) []unix.PollFd {
	for _, r := range requests {
		fds = r.Poll(fds)
	}
	return fds
}

// act continues the requests. It returns true if all are finished, and otherwise the
// time until the next call.
func (requests shutdownRequests) act() (over bool, pause time.Duration) {
	over, pause = true, life.Forever
	for _, r := range requests {
		if finished, next := r.Act(); !finished {
			over, pause = false, min(pause, life.Left(next))
		}
	}
	return over, pause
}

// End publishes the end of this container. If no other container works any
// more, it asks the sidecars to shut down. It runs last, because this container's own
// output may be delivered through a sidecar.
//
// The container publishes its own end before it looks at the others. So of two
// containers that end at the same time, at least one sees both ends. Duplicate requests
// do no harm.
func (s *Sidecars) End() {
	if len(s.opts.Targets) == 0 {
		return
	}
	s.presence.Publish(order.Ended, s.life.ExitCode)
	s.presence.RepeatLastWord()
	if !s.opts.On.Contains(s.life.ExitCode) {
		return // the kubelet restarts this container
	}
	if state, _ := order.NewDependencies(s.opts.When, s.heartbeat).Look(); state != await.Met {
		return
	}
	var asked shutdownRequests
	for _, target := range s.opts.Targets {
		r := order.NewShutdownRequest(target)
		defer r.Close()
		asked = append(asked, r)
	}
	s.asked = asked
	deadline, stopped := time.Now().Add(sidecarsWithin), false
	err := s.life.Until(func() time.Duration {
		// If the pod is being stopped, the kubelet has asked the sidecars, too, and will
		// kill this container soon.
		if !stopped && s.life.StopCame() {
			stopped, deadline = true, time.Now().Add(sidecarsAfterStop)
		}
		over, pause := asked.act()
		left := time.Until(deadline)
		if over || left <= 0 {
			return life.Done
		}
		return min(pause, left)
	})
	s.asked = nil
	if err != nil {
		console.Say("shutting down sidecars: " + err.Error())
	}
	for _, r := range asked {
		if err := r.Err(); err != nil {
			console.Say("shutting down a sidecar by POST " + r.URL + ": " + err.Error() + whyGivenUp(stopped))
		}
	}
}

// whyGivenUp continues a sentence about a request that has failed.
func whyGivenUp(stopped bool) string {
	if stopped {
		return ": given up " + sidecarsAfterStop.String() + " after the stop signal, because the kubelet stops the sidecars of a pod, too"
	}
	return ": the pod runs for as long as the sidecar: check that the sidecar listens there and supports shutdown requests (docs/order.md)"
}
