// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package startup is the container's startupProbe, which the supervisor tries in place of the
// kubelet.
package startup

import (
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/entrypointer/entrypointer/internal/order"
	"github.com/entrypointer/entrypointer/internal/supervisor/cmdline"
	"github.com/entrypointer/entrypointer/internal/supervisor/ending"
	"github.com/entrypointer/entrypointer/internal/supervisor/life"
	"github.com/entrypointer/entrypointer/internal/supervisor/report"
	"github.com/entrypointer/entrypointer/internal/supervisor/stoporder"
)

// The kubelet allows one startupProbe per container. While this container waits for
// others, that is a probe which runs "entrypoint started", so that the kubelet neither
// kills the container nor calls it ready. The startupProbe of the manifest starts with
// the command; the supervisor tries it itself.

// Options are the startupProbe of the container's manifest.
type Options struct {
	order.Probe
	Failures int           // in a row, after which the command is ended
	Grace    time.Duration // of the command after that
}

// Defaults are the default values of the kubelet's probes
// (https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/#Probe).
func Defaults() Options {
	return Options{Probe: order.Probe{Period: 10 * time.Second, Timeout: time.Second}, Failures: 3, Grace: ending.DefaultGrace}
}

// Flags adds the flags that set o.
func (o *Options) Flags(f *cmdline.Flags) {
	f.Add("startup-exec", "WORD", `Until this program exits with 0, "entrypoint started" fails. If it fails too
often, end the command, as the kubelet's startupProbe would. Repeat the flag
for each of the program's arguments.`, cmdline.ProbeWord(&o.Probe))
	f.Add("startup-tcp", "HOST:PORT", `As -startup-exec, until a TCP connection to this address succeeds. HOST is
an IP address, or empty for this pod.`,
		cmdline.ProbeTCP(&o.Probe))
	f.Add("startup-http", "http://HOST:PORT/PATH", `As -startup-exec, until a GET of this URL returns a code from 200 to 399.`,
		cmdline.ProbeHTTP(&o.Probe))
	f.Add("startup-http-header", "NAME: VALUE", `A header for -startup-http. May be repeated.`,
		cmdline.ProbeHeader(&o.Probe))
	f.Add("startup-delay", "DURATION", `The time from the command's start to the first startup probe, 0 by default.`,
		cmdline.Duration(&o.Delay))
	f.Add("startup-period", "DURATION", `The time from one startup probe to the next, 10s by default.`,
		cmdline.Duration(&o.Period))
	f.Add("startup-timeout", "DURATION", `The longest time for each startup probe, 1s by default.`,
		cmdline.Duration(&o.Timeout))
	f.Add("startup-failures", "COUNT", `The number of failed startup probes that ends the command, 3 by default.`, o.setFailures)
	f.Add("startup-grace", "DURATION", `The time between the stop signal and SIGKILL after failed startup probes,
30s by default.`,
		cmdline.Duration(&o.Grace))
}

// Check rejects flags that can't work together.
func (o *Options) Check() error { return cmdline.CheckProbe(&o.Probe, "startup", "startupProbe") }

func (o *Options) setFailures(value string) string {
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 {
		return "not a count: use a number above 0"
	}
	o.Failures = n
	return ""
}

// A Startup is the startupProbe of a command. Without one, it does nothing.
type Startup struct {
	life   *life.Life
	opts   *Options
	brake  *stoporder.Brake
	prober *order.Prober // non-nil from the command's start until the probe has succeeded or failed
}

// New returns the startupProbe that the options ask for. After its failure, b ends the
// command.
func New(l *life.Life, opts *Options, b *stoporder.Brake) *Startup {
	s := &Startup{life: l, opts: opts, brake: b}
	if opts.Kinds() > 0 {
		l.Add(s)
	}
	return s
}

// Poll appends the descriptors of the probe.
func (s *Startup) Poll(fds []unix.PollFd) []unix.PollFd {
	if s.prober != nil {
		fds = s.prober.Poll(fds)
	}
	return fds
}

// Expect makes the status show a pending startupProbe from the command's
// start on.
func (s *Startup) Expect() {
	if s.opts.Kinds() > 0 {
		s.life.StartupProbe = report.StartupPending
	}
}

// Starts starts the probe, right after the command.
func (s *Startup) Starts(env []string) {
	if s.life.StartupProbe == report.StartupPending {
		s.prober = order.NewProber(&s.opts.Probe, s.life.ProbeRunner(env))
	}
}

// Act continues the startupProbe, and returns the time until the next call.
func (s *Startup) Act() time.Duration {
	if s.prober == nil {
		return life.Forever
	}
	if s.life.StopSignalCame() { // like the kubelet, which doesn't probe a container that it stops
		s.Stop()
		return life.Forever
	}
	succeeded, next := s.prober.Act()
	switch {
	case succeeded:
		s.life.StartupProbe = report.StartupSucceeded
	case s.prober.Failures() >= s.opts.Failures:
		_, err := s.prober.Failure()
		s.life.StartupProbe = report.StartupFailed
		s.life.Tell("the startupProbe has failed " + strconv.Itoa(s.prober.Failures()) + " times, the last time with: " + err.Error() + ": stopping the command")
	default:
		return life.Left(next)
	}
	s.Stop()
	s.life.SetPhase(s.life.Phase)
	return 0
}

// Stop ends the probe.
func (s *Startup) Stop() {
	if s.prober != nil {
		s.prober.Close()
		s.prober = nil
	}
}

// EndAfterFailure ends a command whose startupProbe has failed, as the kubelet
// would. The container exits with the command's exit code.
func (s *Startup) EndAfterFailure() {
	if s.life.StartupProbe == report.StartupFailed && !s.life.StopSignalCame() {
		s.brake.End(ending.NotStarted, s.life.StopSignal, s.opts.Grace, stoporder.ReleaseStartupFailed)
	}
}
