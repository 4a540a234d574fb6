// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"time"

	"github.com/entrypointer/entrypointer/internal/order"
)

// defaultProbe has the times that the kubelet's probes have by default, but for the
// period.
var defaultProbe = order.Probe{Period: time.Second, Timeout: time.Second}

// orderOptions say which containers wait for which.
type orderOptions struct {
	orderDir         string
	heartbeat        bool
	ready            order.Probe
	dependsOn        []order.Dependency
	dependsOnTimeout time.Duration // 0 is none
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
its arguments.`, addReadyWord},
	{"ready-tcp", "HOST:PORT", `It is ready once one can connect there. The host is an IP address; without
one, it is this pod.`, setReadyTCP},
	{"ready-http", "http://HOST:PORT/PATH", `It is ready once a request is answered there with a code from 200 to 399.`, setReadyHTTP},
	{"ready-http-header", "NAME: VALUE", `A header of that request. May be repeated.`, addReadyHeader},
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

// inOrder reports whether another container depends on this one, or it on another.
func (o *orderOptions) inOrder() bool { return o.orderDir != "" || len(o.dependsOn) > 0 }

// checkOrder finds flags that contradict each other.
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
		return parseFailure("-hold="+o.hold.String(), "not together with -depends-on and -order-dir: one who is held is a Tekton step, whose order is Tekton's")
	}
	return nil
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

func addReadyWord(o *options, value string) string {
	o.ready.Exec = append(o.ready.Exec, value)
	return ""
}

func setReadyTCP(o *options, value string) string {
	e, ok := order.ParseEndpoint(value)
	if !ok {
		return "no endpoint: use HOST:PORT with an IP address or nothing as the host"
	}
	o.ready.TCP = &e
	return ""
}

func setReadyHTTP(o *options, value string) string {
	e, path, ok := order.ParseURL(value)
	if !ok {
		return "no URL to ask: use http://HOST:PORT/PATH with an IP address or nothing as the host"
	}
	o.ready.HTTP, o.ready.Path = &e, path
	return ""
}

func addReadyHeader(o *options, value string) string {
	if !order.IsHeader(value) {
		return "no header: use NAME: VALUE"
	}
	o.ready.Headers = append(o.ready.Headers, value)
	return ""
}
