// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"strconv"
	"time"

	"github.com/entrypointer/entrypointer/internal/order"
	"github.com/entrypointer/entrypointer/internal/supervisor/console"
)

// The kubelet allows one startupProbe per container. While this container waits for
// others, that is a probe which runs "entrypoint started", so that the kubelet neither
// kills the container nor calls it ready. The startupProbe of the manifest starts with
// the command; the supervisor tries it itself.

// defaultStartupProbe has the default values of the kubelet's probes
// (https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/#Probe).
var defaultStartupProbe = startupProbe{Probe: order.Probe{Period: 10 * time.Second, Timeout: time.Second}, failures: 3, grace: defaultGracePeriod}

// A startupProbe is the startupProbe of the container's manifest.
type startupProbe struct {
	order.Probe
	failures int           // failures in a row after which the command is ended
	grace    time.Duration // grace period of the command after that
}

var startupFlags = []flag{
	{"startup-exec", "WORD", `Until this program exits with 0, "entrypoint started" fails. If it fails too
often, end the command, as the kubelet's startupProbe would. Repeat the flag
for each of the program's arguments.`, addProbeWord(startupProbeOf)},
	{
		"startup-tcp", "HOST:PORT", `As -startup-exec, until a TCP connection to this address succeeds. HOST is
an IP address, or empty for this pod.`,
		setProbeTCP(startupProbeOf),
	},
	{
		"startup-http", "http://HOST:PORT/PATH", `As -startup-exec, until a GET of this URL returns a code from 200 to 399.`,
		setProbeHTTP(startupProbeOf),
	},
	{
		"startup-http-header", "NAME: VALUE", `A header for -startup-http. May be repeated.`,
		addProbeHeader(startupProbeOf),
	},
	{
		"startup-delay", "DURATION", `The time from the command's start to the first startup probe, 0 by default.`,
		setDuration(func(o *options) *time.Duration { return &o.startup.Delay }),
	},
	{
		"startup-period", "DURATION", `The time from one startup probe to the next, 10s by default.`,
		setDuration(func(o *options) *time.Duration { return &o.startup.Period }),
	},
	{
		"startup-timeout", "DURATION", `The longest time for each startup probe, 1s by default.`,
		setDuration(func(o *options) *time.Duration { return &o.startup.Timeout }),
	},
	{"startup-failures", "COUNT", `The number of failed startup probes that ends the command, 3 by default.`, setStartupFailures},
	{
		"startup-grace", "DURATION", `The time between the stop signal and SIGKILL after failed startup probes,
30s by default.`,
		setDuration(func(o *options) *time.Duration { return &o.startup.grace }),
	},
}

func setStartupFailures(o *options, value string) string {
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 {
		return "not a count: use a number above 0"
	}
	o.startup.failures = n
	return ""
}

func startupProbeOf(o *options) *order.Probe { return &o.startup.Probe }

// The states of a startupProbe in the status.
const (
	startupPending   = "pending"
	startupSucceeded = "succeeded"
	startupFailed    = "failed"
)

// expectStartupProbe makes the status show a pending startupProbe from the command's
// start on.
func (s *supervision) expectStartupProbe() {
	if s.opts.startup.Kinds() > 0 {
		s.startupProbe = startupPending
	}
}

// startStartupProbe starts the probe, right after the command.
func (s *supervision) startStartupProbe(env []string) {
	if s.startupProbe == startupPending {
		s.startupProber = order.NewProber(&s.opts.startup.Probe, s.probeRunner(env))
	}
}

// tryStartupProbe continues the startupProbe, and returns the time until the next call.
func (s *supervision) tryStartupProbe() time.Duration {
	if s.startupProber == nil {
		return forever
	}
	if s.stopSignalCame() { // like the kubelet, which doesn't probe a container that it stops
		s.stopStartupProbe()
		return forever
	}
	succeeded, next := s.startupProber.Act()
	switch {
	case succeeded:
		s.startupProbe = startupSucceeded
	case s.startupProber.Failures() >= s.opts.startup.failures:
		_, err := s.startupProber.Failure()
		s.startupProbe = startupFailed
		s.message = "the startupProbe has failed " + strconv.Itoa(s.startupProber.Failures()) + " times, the last time with: " + err.Error() + ": stopping the command"
		console.Say(s.message)
	default:
		return max(time.Until(next), 0)
	}
	s.stopStartupProbe()
	s.setPhase(s.phase)
	return 0
}

func (s *supervision) stopStartupProbe() {
	if s.startupProber != nil {
		s.startupProber.Close()
		s.startupProber = nil
	}
}

// endAfterStartupFailure ends a command whose startupProbe has failed, as the kubelet
// would. The container exits with the command's exit code.
func (s *supervision) endAfterStartupFailure() {
	if s.startupProbe == startupFailed && !s.stopSignalCame() {
		s.endCommand(notStarted, s.opts.stoppedWith(), s.opts.startup.grace, releaseStartupFailed)
	}
}
