// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"time"

	"github.com/entrypointer/entrypointer/internal/order"
)

// defaultProbe has the default times of the kubelet's probes, except for a shorter
// period.
var defaultProbe = order.Probe{Period: time.Second, Timeout: time.Second}

// orderOptions define the order of containers.
type orderOptions struct {
	orderDir         string
	heartbeat        bool
	ready            order.Probe
	dependsOn        []order.Dependency
	waitFor          []order.Target
	dependsOnTimeout time.Duration // 0 means no limit
	finalEnds        []containerEnds
	startup          startupProbe

	stopOptions
	pipeOptions
}

// containerEnds are the final ends of a container.
type containerEnds struct {
	dir   string // its order directory
	final order.FinalEnds
}

var orderFlags = []flag{
	{
		"depends-on", "CONDITION:DIRECTORY", `Start only when the container with this -order-dir has started, is ready,
has completed (with success), or has exited (for good, see
-final-exit-codes). May be repeated to wait for all of the containers. This
wait precedes everything else, and is repeated after hooks and pauses.`, addDependency,
	},
	{"final-exit-codes", "CODE[-CODE][,...]:DIRECTORY", `The exit codes after which the container with this -order-dir isn't
restarted, such as 0 or 0-255. Only such an end counts as exited, and after
another one a condition can still be met. If a condition can't be met any
more, exit with 123. Without this flag, each end counts as exited, and no
condition is given up. May be repeated for other containers.`, addFinalEnds},
	{
		"depends-on-timeout", "DURATION", `The longest time to wait for -depends-on and -wait-for; unlimited by
default. After it, exit with 124.`,
		setDuration(func(o *options) *time.Duration { return &o.dependsOnTimeout }),
	},
	{
		"order-dir", "DIRECTORY", `Publish this container's state in this directory, for containers that
depend on it. No other container may write to the directory.`,
		setPath(func(o *options) *string { return &o.orderDir }),
	},
	{"order-heartbeat", "", `For containers that don't share a kernel: publish a heartbeat every 5 s,
and take a container without one for 30 s for dead.`, setHeartbeat},
	{"ready-exec", "WORD", `The command is ready once this program exits with 0. Repeat the flag for
each of the program's arguments.`, addProbeWord(readyProbe)},
	{"ready-tcp", "HOST:PORT", `The command is ready once a TCP connection to this address succeeds. HOST
is an IP address, or empty for this pod.`, setProbeTCP(readyProbe)},
	{"ready-http", "http://HOST:PORT/PATH", `The command is ready once a GET of this URL returns a code from 200 to 399.`, setProbeHTTP(readyProbe)},
	{"ready-http-header", "NAME: VALUE", `A header for -ready-http. May be repeated.`, addProbeHeader(readyProbe)},
	{
		"ready-file", "PATH", `The command is ready once this file exists, and was created, changed or
renamed after the command's start.`,
		setPath(func(o *options) *string { return &o.ready.File }),
	},
	{
		"ready-period", "DURATION", `The time from one readiness probe to the next, 1s by default.`,
		setDuration(func(o *options) *time.Duration { return &o.ready.Period }),
	},
	{
		"ready-timeout", "DURATION", `The longest time for each readiness probe, 1s by default.`,
		setDuration(func(o *options) *time.Duration { return &o.ready.Timeout }),
	},
}

// waits reports whether the command's start depends on other containers or targets.
func (o *orderOptions) waits() bool {
	return len(o.dependsOn) > 0 || len(o.waitFor) > 0 || o.isPiped()
}

// inOrder reports whether the command's start or end depends on another container, or
// another container's on this one.
func (o *orderOptions) inOrder() bool {
	return o.orderDir != "" || o.waits() || o.isStopped()
}

// checkOrder rejects combinations of flags that can't work together.
func (o *options) checkOrder() error {
	kinds := o.ready.Kinds()
	switch {
	case kinds > 1:
		return parseFailure("-ready-...", "more than one readiness probe: use one of -ready-exec, -ready-tcp, -ready-http and -ready-file")
	case kinds > 0 && o.orderDir == "":
		return parseFailure("-ready-...", "no container can read the result: use -order-dir as well")
	case o.ready.Headers != nil && o.ready.HTTP == nil:
		return parseFailure("-ready-http-header="+o.ready.Headers[0], "no request has this header: use -ready-http as well")
	case o.hold != 0 && o.inOrder():
		return parseFailure("-hold="+o.hold.String(), "not together with -depends-on, -wait-for and -order-dir: only a Tekton step is held, and Tekton orders the steps")
	}
	if err := o.assignFinalEnds(); err != nil {
		return err
	}
	if err := o.checkEndSidecars(); err != nil {
		return err
	}
	if err := o.checkStop(); err != nil {
		return err
	}
	return o.checkPipes()
}

func addDependency(o *options, value string) string {
	d, ok := order.ParseDependency(value)
	if !ok {
		return "not a dependency: use started, ready, completed or exited, a colon, and an absolute path"
	}
	o.dependsOn = append(o.dependsOn, d)
	return ""
}

func addFinalEnds(o *options, value string) string {
	dir, final, ok := order.ParseFinalEnds(value)
	if !ok {
		return "not exit codes of a container: use codes and ranges from 0 to 255 such as 0,3-5, a colon, and an absolute path"
	}
	o.finalEnds = append(o.finalEnds, containerEnds{dir, final})
	return ""
}

// assignFinalEnds gives each container that this one observes its final ends.
func (o *options) assignFinalEnds() error {
	for _, e := range o.finalEnds {
		found := false
		assign := func(dir string, final *order.FinalEnds) {
			if dir == e.dir {
				*final, found = e.final, true
			}
		}
		for _, list := range [][]order.Dependency{o.dependsOn, o.stopWhen, o.endSidecarsWhen} {
			for at := range list {
				assign(list[at].Dir, &list[at].Final)
			}
		}
		for _, p := range []*order.Partner{&o.stdinFrom, &o.stdoutTo} {
			assign(p.Dir, &p.Final)
		}
		if !found {
			return parseFailure("-final-exit-codes="+e.final.Codes.String()+":"+e.dir, "no other flag names this container: use -depends-on, -stop-when, -stdin-from, -stdout-to or -end-sidecars-when as well")
		}
	}
	return nil
}

func setHeartbeat(o *options, _ string) string {
	o.heartbeat = true
	return ""
}

// A probeOf returns the probe that a flag configures.
type probeOf func(*options) *order.Probe

func readyProbe(o *options) *order.Probe { return &o.ready }

// checkProbe rejects flags of a probe, whose names begin with prefix, that can't work
// together.
func checkProbe(p *order.Probe, prefix, probe string) error {
	flags := "-" + prefix + "-"
	switch {
	case p.Kinds() > 1:
		return parseFailure(flags+"...", "more than one "+probe+": use one of "+flags+"exec, "+flags+"tcp and "+flags+"http")
	case p.Headers != nil && p.HTTP == nil:
		return parseFailure(flags+"http-header="+p.Headers[0], "no request has this header: use "+flags+"http as well")
	}
	return nil
}

func addProbeWord(of probeOf) func(*options, string) string {
	return func(o *options, value string) string {
		of(o).Exec = append(of(o).Exec, value)
		return ""
	}
}

func setProbeTCP(of probeOf) func(*options, string) string {
	return func(o *options, value string) string {
		e, ok := order.ParseEndpoint(value)
		if !ok {
			return "not an endpoint: use HOST:PORT with an IP address or nothing as the host"
		}
		of(o).TCP = &e
		return ""
	}
}

func setProbeHTTP(of probeOf) func(*options, string) string {
	return func(o *options, value string) string {
		e, path, ok := order.ParseURL(value)
		if !ok {
			return "not a URL to probe: use http://HOST:PORT/PATH with an IP address or nothing as the host"
		}
		of(o).HTTP, of(o).Path = &e, path
		return ""
	}
}

func addProbeHeader(of probeOf) func(*options, string) string {
	return func(o *options, value string) string {
		if !order.IsHeader(value) {
			return "not a header: use NAME: VALUE"
		}
		of(o).Headers = append(of(o).Headers, value)
		return ""
	}
}
