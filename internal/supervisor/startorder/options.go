// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package startorder

import (
	"time"

	"github.com/entrypointer/entrypointer/internal/order"
	"github.com/entrypointer/entrypointer/internal/supervisor/cmdline"
	"github.com/entrypointer/entrypointer/pkg/conditions"
)

// Options are what the command's start waits for.
type Options struct {
	DependsOn []order.Dependency
	WaitFor   []order.Target
	Timeout   time.Duration // 0 means no limit
	FinalEnds []ContainerEnds
}

// ContainerEnds are the final ends of a container.
type ContainerEnds struct {
	Dir   string // its order directory
	Final order.FinalEnds
}

// Flags adds the flags that set dependencies.
func (o *Options) Flags(f *cmdline.Flags) {
	f.Add("depends-on", "CONDITION:DIRECTORY", `Start only when the container with this -order-dir meets the condition,
such as started; docs/order-reference.md describes them. May be repeated to wait
for all of the containers. This wait precedes everything else, and is
repeated after hooks and pauses.`, o.addDependency)
	f.Add("final-exit-codes", "CODE[-CODE][,...]:DIRECTORY", `The exit codes after which the container with this -order-dir isn't
restarted, such as 0 or 0-255. Only such an end counts as exited, and after
another one a condition can still be met. If a condition can't be met any
more, exit with 123. Without this flag, each end counts as exited, and no
condition is given up. May be repeated for other containers.`, o.addFinalEnds)
	f.Add("depends-on-timeout", "DURATION", `The longest time to wait for -depends-on and -wait-for; unlimited by
default. After it, exit with 124.`,
		cmdline.Duration(&o.Timeout))
}

// TargetFlags adds the flags that set targets.
func (o *Options) TargetFlags(f *cmdline.Flags) {
	f.Add("wait-for", "URL", `Start only when a probe of this URL has succeeded once:
http://HOST:PORT/PATH (a code from 200 to 399), tcp://HOST:PORT (a
connection) or file:///PATH (the file exists). The URL is probed once a
second, and again after hooks and pauses. May be repeated to wait for all of
the URLs, in addition to -depends-on, and for as long as -depends-on-timeout.`, o.addWaitFor)
}

// Waits reports whether the command's start depends on other containers or targets.
func (o *Options) Waits() bool { return len(o.DependsOn) > 0 || len(o.WaitFor) > 0 }

func (o *Options) addDependency(value string) string {
	d, ok := order.ParseDependency(value)
	if !ok {
		return "not a dependency: use " + conditions.All.String() + ", a colon, and an absolute path"
	}
	o.DependsOn = append(o.DependsOn, d)
	return ""
}

func (o *Options) addFinalEnds(value string) string {
	dir, final, ok := order.ParseFinalEnds(value)
	if !ok {
		return "not exit codes of a container: use codes and ranges from 0 to 255 such as 0,3-5, a colon, and an absolute path"
	}
	o.FinalEnds = append(o.FinalEnds, ContainerEnds{dir, final})
	return ""
}

// AssignFinalEnds gives each container that this one observes its final ends: those that
// it waits for, and those of other features.
func (o *Options) AssignFinalEnds(lists [][]order.Dependency, partners []*order.Partner) error {
	for _, e := range o.FinalEnds {
		found := false
		assign := func(dir string, final *order.FinalEnds) {
			if dir == e.Dir {
				*final, found = e.Final, true
			}
		}
		for _, list := range append(lists, o.DependsOn) {
			for at := range list {
				assign(list[at].Dir, &list[at].Final)
			}
		}
		for _, p := range partners {
			assign(p.Dir, &p.Final)
		}
		if !found {
			return cmdline.Failure("-final-exit-codes="+e.Final.Codes.String()+":"+e.Dir, "no other flag names this container: use -depends-on, -stop-when, -stdin-from, -stdout-to or -end-sidecars-when as well")
		}
	}
	return nil
}

func (o *Options) addWaitFor(value string) string {
	t, ok := order.ParseTarget(value)
	if !ok {
		return "not a URL to wait for: use http://HOST:PORT/PATH, tcp://HOST:PORT with an IP address or nothing as the host, or file:///PATH"
	}
	o.WaitFor = append(o.WaitFor, t)
	return ""
}
