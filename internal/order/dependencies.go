// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package order

import (
	"path"
	"strings"
	"time"

	"github.com/entrypointer/entrypointer/internal/await"
	"github.com/entrypointer/entrypointer/pkg/conditions"
)

// A Dependency is a container and the condition that this container waits for.
type Dependency struct {
	Condition conditions.Condition
	Dir       string // the order directory of that container
	Final     FinalEnds
}

// ParseDependency parses CONDITION:DIR. DIR is an absolute path.
func ParseDependency(value string) (d Dependency, ok bool) {
	condition, dir, _ := strings.Cut(value, ":")
	d = Dependency{Condition: conditions.Condition(condition), Dir: dir}
	if !conditions.All.Has(condition) || !IsDirectory(dir) {
		return Dependency{}, false
	}
	return d, true
}

// Name is the name of the container.
func (d Dependency) Name() string { return path.Base(d.Dir) }

// String has the format of the annotation depends-on.
func (d Dependency) String() string { return d.Name() + ":" + string(d.Condition) }

// judge decides from an observation whether the dependency is met, can still be met, or
// has failed for good.
func (d Dependency) judge(s observation) await.State {
	ended := s.state.phase == Ended
	switch {
	case s.problem != "", s.liveness == absent, s.liveness == undetermined && !ended:
		return await.Waiting
	case ended || s.liveness == dead:
		return d.judgeEnd(s)
	case d.Condition == conditions.Started:
		return metIf(s.state.phase == Started || s.state.phase == Ready)
	default:
		return metIf(d.Condition == conditions.Ready && s.state.phase == Ready)
	}
}

// judgeEnd is judge for a container that has ended. A container that is restarted can
// still meet its condition.
func (d Dependency) judgeEnd(s observation) await.State {
	final := d.Final.include(s)
	switch {
	case d.Condition == conditions.Exited:
		return metIf(final || !d.Final.Known())
	case d.Condition == conditions.Completed && s.state.phase == Ended && s.state.exitCode == 0:
		return await.Met
	case final:
		return await.Failed
	}
	return await.Waiting
}

func metIf(is bool) await.State {
	if is {
		return await.Met
	}
	return await.Waiting
}

// Dependencies is the await.Source for all containers that this container depends on.
// It is met when all dependencies are met in the same look.
type Dependencies struct {
	list       []trackedDependency
	ends       []trackedEnd
	heartbeats bool
}

type trackedDependency struct {
	Dependency
	observer
	state await.State
	seen  observation
}

// NewDependencies returns the source for a list. With heartbeats, liveness is judged by
// heartbeats instead of locks, and directories are polled instead of watched.
func NewDependencies(list []Dependency, heartbeats bool) *Dependencies {
	ds := &Dependencies{heartbeats: heartbeats}
	for _, d := range list {
		ds.list = append(ds.list, trackedDependency{Dependency: d, observer: observer{dir: d.Dir, heartbeats: heartbeats}})
	}
	return ds
}

// AddPipeEnds adds pipe ends, which also must be connected before the source is met.
func (ds *Dependencies) AddPipeEnds(ends []PipeEnd) {
	for _, e := range ends {
		ds.ends = append(ds.ends, trackedEnd{PipeEnd: e})
	}
}

// A trackedEnd is a pipe end and the result of its last tryConnect.
type trackedEnd struct {
	PipeEnd
	state await.State
	unmet Unmet
}

// Look observes each container. It never returns an error: an unreadable directory
// counts as a dependency that isn't met yet.
func (ds *Dependencies) Look() (await.State, error) {
	all, now := await.Met, time.Now()
	for i := range ds.list {
		d := &ds.list[i]
		d.seen = d.observe(now)
		d.state = d.judge(d.seen)
		if d.state == await.Failed || d.state == await.Waiting && all == await.Met {
			all = d.state
		}
	}
	for i := range ds.ends {
		e := &ds.ends[i]
		e.state, e.unmet = e.tryConnect(now)
		if e.state == await.Failed || e.state == await.Waiting && all == await.Met {
			all = e.state
		}
	}
	return all, nil
}

// Directories returns the directories to watch, or none with heartbeats.
func (ds *Dependencies) Directories() (paths []string, written bool) {
	if ds.heartbeats {
		return nil, false
	}
	for _, d := range ds.list {
		paths = append(paths, d.Dir)
	}
	for _, e := range ds.ends {
		paths = append(paths, e.watchedDir())
	}
	return paths, false
}

// lookInterval keeps the detection of a killed container below one second where the
// kernel doesn't report the change.
const lookInterval = 400 * time.Millisecond

// Interval is the longest time between two looks.
func (ds *Dependencies) Interval() time.Duration { return lookInterval }

// An Unmet is a dependency that isn't met, or a target that hasn't answered with
// success.
type Unmet struct {
	Dependency
	URL     string // of a target; "" for a dependency
	Failed  bool   // the condition can't be met any more
	Seen    string // what the last look found, for messages
	Reason  string // which other container made it fail, filtered; "" if none did
	Problem bool   // Seen is an error that keeps the state unknown
}

// String is the URL, or the dependency in the format of the annotation depends-on.
func (u Unmet) String() string {
	if u.URL != "" {
		return u.URL
	}
	return u.Dependency.String()
}

// Unmet returns the dependencies that weren't met at the last look.
func (ds *Dependencies) Unmet() (list []Unmet) {
	for _, d := range ds.list {
		if d.state != await.Met {
			list = append(list, Unmet{Dependency: d.Dependency, Failed: d.state == await.Failed, Seen: d.seen.String(), Reason: d.seen.failedBecause(), Problem: d.seen.problem != ""})
		}
	}
	for _, e := range ds.ends {
		if e.state != await.Met {
			list = append(list, e.unmet)
		}
	}
	return list
}
