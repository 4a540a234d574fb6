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
	startup          startupProbe

	stopOptions
	pipeOptions
}

var orderFlags = []flag{
	{
		"depends-on", "CONDITION:DIRECTORY", `Start only when the container that has this -order-dir is started, ready,
completed (with a success) or exited (however). May be repeated; all are
waited for, before anything else is done.`, addDependency(false),
	},
	{"depends-on-final", "CONDITION:DIRECTORY", `The same of a container that isn't restarted: if it ends in another way,
exit with 123.`, addDependency(true)},
	{
		"depends-on-timeout", "DURATION", `Wait no longer than that for other containers, and then exit with 124.
By default there is no limit.`,
		setDuration(func(o *options) *time.Duration { return &o.dependsOnTimeout }),
	},
	{
		"order-dir", "DIRECTORY", `Tell those that depend on this container there how far it is. Nobody else
may write there.`,
		setPath(func(o *options) *string { return &o.orderDir }),
	},
	{"order-heartbeat", "", `Where containers don't share a kernel: tell them every 5 s that this one
lives, and take others for dead that say nothing for 30 s.`, setHeartbeat},
	{"ready-exec", "WORD", `The command is ready once this program exits with 0. Repeated for each of
its arguments.`, addProbeWord(readyProbe)},
	{"ready-tcp", "HOST:PORT", `It is ready once one can connect there. The host is an IP address; without
one, it is this pod.`, setProbeTCP(readyProbe)},
	{"ready-http", "http://HOST:PORT/PATH", `It is ready once a request is answered there with a code from 200 to 399.`, setProbeHTTP(readyProbe)},
	{"ready-http-header", "NAME: VALUE", `A header of that request. May be repeated.`, addProbeHeader(readyProbe)},
	{
		"ready-file", "PATH", `It is ready once this file exists.`,
		setPath(func(o *options) *string { return &o.ready.File }),
	},
	{
		"ready-period", "DURATION", `The time from one such try to the next, 1s by default.`,
		setDuration(func(o *options) *time.Duration { return &o.ready.Period }),
	},
	{
		"ready-timeout", "DURATION", `The longest time that each may take, 1s by default.`,
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
		return parseFailure("-ready-...", "one way to find out whether it is ready is enough: use one of -ready-exec, -ready-tcp, -ready-http and -ready-file")
	case kinds > 0 && o.orderDir == "":
		return parseFailure("-ready-...", "nobody is told: use -order-dir as well")
	case o.ready.Headers != nil && o.ready.HTTP == nil:
		return parseFailure("-ready-http-header="+o.ready.Headers[0], "it belongs to no request: use -ready-http as well")
	case o.hold != 0 && o.inOrder():
		return parseFailure("-hold="+o.hold.String(), "not together with -depends-on, -wait-for and -order-dir: one who is held is a Tekton step, whose order is Tekton's")
	}
	if err := o.checkEndSidecars(); err != nil {
		return err
	}
	if err := o.checkStop(); err != nil {
		return err
	}
	return o.checkPipes()
}

func addDependency(final bool) func(*options, string) string {
	return func(o *options, value string) string {
		d, ok := order.ParseDependency(value)
		if !ok {
			return "no dependency: use started, ready, completed or exited, a colon, and an absolute path"
		}
		d.Final = final
		o.dependsOn = append(o.dependsOn, d)
		return ""
	}
}

func setHeartbeat(o *options, _ string) string {
	o.heartbeat = true
	return ""
}

// A probeOf returns the probe that a flag configures.
type probeOf func(*options) *order.Probe

func readyProbe(o *options) *order.Probe { return &o.ready }

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
			return "no endpoint: use HOST:PORT with an IP address or nothing as the host"
		}
		of(o).TCP = &e
		return ""
	}
}

func setProbeHTTP(of probeOf) func(*options, string) string {
	return func(o *options, value string) string {
		e, path, ok := order.ParseURL(value)
		if !ok {
			return "no URL to ask: use http://HOST:PORT/PATH with an IP address or nothing as the host"
		}
		of(o).HTTP, of(o).Path = &e, path
		return ""
	}
}

func addProbeHeader(of probeOf) func(*options, string) string {
	return func(o *options, value string) string {
		if !order.IsHeader(value) {
			return "no header: use NAME: VALUE"
		}
		of(o).Headers = append(of(o).Headers, value)
		return ""
	}
}
