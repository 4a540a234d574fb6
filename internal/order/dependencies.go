// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package order

import (
	"path"
	"strings"
	"time"

	"github.com/entrypointer/entrypointer/internal/await"
)

// A Condition is what has to be true of a container before another one starts.
type Condition string

// The conditions.
const (
	IsStarted   Condition = "started"
	IsReady     Condition = "ready"
	IsCompleted Condition = "completed" // ended with a success
	HasExited   Condition = "exited"    // however
)

// A Dependency is one condition of one container.
type Dependency struct {
	Condition Condition
	Dir       string // of the container
	// Final says that it isn't restarted when it has failed.
	Final bool
}

// ParseDependency reads CONDITION:DIR, the latter an absolute path.
func ParseDependency(value string) (d Dependency, ok bool) {
	condition, dir, _ := strings.Cut(value, ":")
	d = Dependency{Condition: Condition(condition), Dir: dir}
	switch d.Condition {
	case IsStarted, IsReady, IsCompleted, HasExited:
		return d, IsDirectory(dir)
	}
	return Dependency{}, false
}

// Name is the container's.
func (d Dependency) Name() string { return path.Base(d.Dir) }

// String is as in the annotation depends-on.
func (d Dependency) String() string { return d.Name() + ":" + string(d.Condition) }

// judge says whether a dependency is met by what was seen, or never will be.
func (d Dependency) judge(s observation) await.State {
	ended := s.state.phase == Ended
	switch {
	case s.problem != "", s.liveness == absent, s.liveness == undetermined && !ended:
		return await.Waiting
	case d.Condition == HasExited:
		return metIf(ended || s.liveness == dead)
	case d.Condition == IsCompleted && ended && s.state.exitCode == 0:
		return await.Met
	case ended || s.liveness == dead:
		// It comes back, or it doesn't.
		if d.Final {
			return await.Failed
		}
		return await.Waiting
	case d.Condition == IsStarted:
		return metIf(s.state.phase == Started || s.state.phase == Ready)
	default:
		return metIf(d.Condition == IsReady && s.state.phase == Ready)
	}
}

func metIf(is bool) await.State {
	if is {
		return await.Met
	}
	return await.Waiting
}

// Dependencies are all that a container depends on: an await.Source. They have to be
// met at the same time.
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

// NewDependencies returns those of a list. With beats, neither locks nor the kernel's
// word on changes are trusted.
func NewDependencies(list []Dependency, heartbeats bool) *Dependencies {
	ds := &Dependencies{heartbeats: heartbeats}
	for _, d := range list {
		ds.list = append(ds.list, trackedDependency{Dependency: d, observer: observer{dir: d.Dir, heartbeats: heartbeats}})
	}
	return ds
}

// Connect adds ends of pipes, which have to be connected as well.
func (ds *Dependencies) AddPipeEnds(ends []PipeEnd) {
	for _, e := range ends {
		ds.ends = append(ds.ends, trackedEnd{PipeEnd: e})
	}
}

// A crossing is an end of a pipe, and what the last look across it has found.
type trackedEnd struct {
	PipeEnd
	state await.State
	unmet Unmet
}

// Look looks at each. It has no errors: what can't be read is waited for.
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

// Directories are those of the containers.
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

// interval is within the second in which a death without a word is to be noticed, of
// which the kernel doesn't tell.
const lookInterval = 400 * time.Millisecond

// Interval is the same for all.
func (ds *Dependencies) Interval() time.Duration { return lookInterval }

// An Unmet is a dependency that isn't met, or a target that hasn't succeeded.
type Unmet struct {
	Dependency
	URL     string // of a target, or else ""
	Failed  bool   // it never will be
	Seen    string // of the container, at the last look
	Problem bool   // that is why nothing can be known
}

// String is the URL, or as in the annotation depends-on.
func (u Unmet) String() string {
	if u.URL != "" {
		return u.URL
	}
	return u.Dependency.String()
}

// Unmet returns those that weren't at the last look.
func (ds *Dependencies) Unmet() (list []Unmet) {
	for _, d := range ds.list {
		if d.state != await.Met {
			list = append(list, Unmet{Dependency: d.Dependency, Failed: d.state == await.Failed, Seen: d.seen.String(), Problem: d.seen.problem != ""})
		}
	}
	for _, e := range ds.ends {
		if e.state != await.Met {
			list = append(list, e.unmet)
		}
	}
	return list
}
