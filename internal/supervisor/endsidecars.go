// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/entrypointer/entrypointer/internal/await"
	"github.com/entrypointer/entrypointer/internal/order"
	"github.com/entrypointer/entrypointer/internal/supervisor/console"
	"github.com/entrypointer/entrypointer/pkg/exitcodes"
)

// sidecarOptions select the sidecars without a supervisor that must end when the pod's
// work is done.
type sidecarOptions struct {
	endSidecars     []order.Target
	endSidecarsOn   exitcodes.Set
	endSidecarsWhen []order.Dependency
}

var endSidecarsFlags = []flag{
	{"end-sidecar", "http://HOST:PORT/PATH", `When the work of the pod is done, send a POST to this URL, so that a sidecar
without a supervisor shuts down. May be repeated.`, addEndSidecar},
	{"end-sidecars-on", "CODE[-CODE][,...]", `The exit codes after which this container isn't restarted, so that its part
of the work is done, such as 0 or 0-255.`, setEndSidecarsOn},
	{"end-sidecars-when", "CONDITION:DIRECTORY", `The work is done only when the container with this -order-dir has completed
or exited, too. May be repeated.`, addEndSidecarsWhen},
}

func addEndSidecar(o *options, value string) string {
	t, ok := order.ParseTarget(value)
	if !ok || !t.IsHTTP() {
		return "not a URL for a POST: use http://HOST:PORT/PATH with an IP address or nothing as the host"
	}
	o.endSidecars = append(o.endSidecars, t)
	return ""
}

func setEndSidecarsOn(o *options, value string) string {
	set, ok := exitcodes.ParseAll(value)
	if !ok {
		return "not exit codes: use codes and ranges from 0 to 255, such as 0,3-5"
	}
	o.endSidecarsOn = set
	return ""
}

func addEndSidecarsWhen(o *options, value string) string {
	d, ok := parseEnd(value)
	if !ok {
		return "not an outcome of another container: use completed or exited, a colon, and an absolute path"
	}
	o.endSidecarsWhen = append(o.endSidecarsWhen, d)
	return ""
}

// checkEndSidecars rejects flags that need another flag.
func (o *options) checkEndSidecars() error {
	switch asks := len(o.endSidecars) > 0; {
	case asks && o.endSidecarsOn == nil:
		return parseFailure("-end-sidecar="+o.endSidecars[0].URL, "it needs the exit codes: use -end-sidecars-on as well")
	case !asks && (o.endSidecarsOn != nil || o.endSidecarsWhen != nil):
		return parseFailure("-end-sidecars-...", "no sidecar is named: use -end-sidecar as well")
	case o.endSidecarsWhen != nil && o.orderDir == "":
		return parseFailure("-end-sidecars-when="+string(o.endSidecarsWhen[0].Condition)+":"+o.endSidecarsWhen[0].Dir, "the other container can't observe this one: use -order-dir as well")
	case asks && o.hold != 0:
		return parseFailure("-hold="+o.hold.String(), "not together with -end-sidecar: only a Tekton step is held, and Tekton stops its sidecars")
	}
	return nil
}

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
	over, pause = true, forever
	for _, r := range requests {
		if done, next := r.Act(); !done {
			over, pause = false, min(pause, max(time.Until(next), 0))
		}
	}
	return over, pause
}

// endSidecars publishes the end of this container. If no other container works any
// more, it asks the sidecars to shut down. It runs last, because this container's own
// output may be delivered through a sidecar.
//
// The container publishes its own end before it looks at the others. So of two
// containers that end at the same time, at least one sees both ends. Duplicate requests
// do no harm.
func (s *supervision) endSidecars() {
	if len(s.opts.endSidecars) == 0 {
		return
	}
	s.publishPhase(order.Ended, s.exitCode)
	s.repeatLastWord()
	if !s.opts.endSidecarsOn.Contains(s.exitCode) {
		return // the kubelet restarts this container
	}
	if state, _ := order.NewDependencies(s.opts.endSidecarsWhen, s.opts.heartbeat).Look(); state != await.Met {
		return
	}
	var asked shutdownRequests
	for _, target := range s.opts.endSidecars {
		r := order.NewShutdownRequest(target)
		defer r.Close()
		asked = append(asked, r)
	}
	s.polled = asked
	deadline, stopped := time.Now().Add(sidecarsWithin), false
	err := s.until(func() time.Duration {
		// If the pod is being stopped, the kubelet has asked the sidecars, too, and will
		// kill this container soon.
		if !stopped && s.stopCame() {
			stopped, deadline = true, time.Now().Add(sidecarsAfterStop)
		}
		over, pause := asked.act()
		left := time.Until(deadline)
		if over || left <= 0 {
			return done
		}
		return min(pause, left)
	})
	s.polled = nil
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
