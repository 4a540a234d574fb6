// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package order

import (
	"path"
	"slices"
	"time"

	"github.com/entrypointer/entrypointer/internal/await"
)

// Neighbours are the containers that are of interest while this one is being stopped: an
// await.Source, which is met once all that depend on this container have ended.
type Neighbours struct {
	list       []neighbour
	heartbeats bool
	stopping   bool
}

type neighbour struct {
	observer
	dependent bool // on this container
	seen      observation
	observed  bool // at a look that could tell
	ended     bool // at a look, or it was never there
}

// NewNeighbours returns those that have these directories: of the containers that depend
// on this one, and of others. With beats, neither locks nor the kernel's word on changes
// are trusted.
func NewNeighbours(dependents, dependencies []string, heartbeats bool) *Neighbours {
	ns := &Neighbours{heartbeats: heartbeats}
	for _, dir := range dependents {
		ns.list = append(ns.list, neighbour{observer: observer{dir: dir, heartbeats: heartbeats}, dependent: true})
	}
	for _, dir := range dependencies {
		if !slices.Contains(dependents, dir) {
			ns.list = append(ns.list, neighbour{observer: observer{dir: dir, heartbeats: heartbeats}})
		}
	}
	return ns
}

// Look looks at each. A container that has ended is not looked at again: it isn't waited
// for if it is restarted. It has no errors: what can't be read has not ended.
func (ns *Neighbours) Look() (await.State, error) {
	state, now := await.Met, time.Now()
	for i := range ns.list {
		n := &ns.list[i]
		if n.ended {
			continue
		}
		n.seen = n.observe(now)
		n.ended = n.seen.hasEnded()
		if n.seen.saysStopping() || n.ended && n.observed {
			ns.stopping = true
		}
		n.observed = n.observed || n.seen.problem == ""
		if n.dependent && !n.ended {
			state = await.Waiting
		}
	}
	return state, nil
}

// Stopping reports whether one of them was seen to be stopped as well, or to end: then it
// is the pod that is being stopped.
func (ns *Neighbours) Stopping() bool { return ns.stopping }

// Directories are those of the containers.
func (ns *Neighbours) Directories() (paths []string, written bool) {
	if ns.heartbeats {
		return nil, false
	}
	for _, n := range ns.list {
		paths = append(paths, n.dir)
	}
	return paths, false
}

// Interval is that of Dependencies.
func (ns *Neighbours) Interval() time.Duration { return lookInterval }

// Unmet returns the containers that depend on this one and have not ended.
func (ns *Neighbours) Unmet() (list []Unmet) {
	for _, n := range ns.list {
		if n.dependent && !n.ended {
			list = append(list, Unmet{Dependency: Dependency{Condition: HasExited, Dir: n.dir}, Seen: n.seen.String(), Problem: n.seen.problem != ""})
		}
	}
	return list
}

// IsDirectory reports whether a path may be that of a container's directory.
func IsDirectory(dir string) bool {
	return path.IsAbs(dir) && dir == path.Clean(dir) && dir != "/"
}

// stopping reports whether an incarnation has said that it is being stopped. Where locks
// aren't trusted, that was perhaps the last word of one that is over: to wait for it then
// is a delay.
func (s observation) saysStopping() bool {
	return s.problem == "" && s.liveness != dead && s.state.phase == Stopping
}

// ended reports whether a container runs no command, and won't before its next
// incarnation. A lock that nobody holds is enough to know, whatever the state is.
func (s observation) hasEnded() bool {
	switch {
	case s.liveness == dead:
		return true
	case s.problem != "":
		return false
	}
	return s.liveness == absent || s.state.phase == Ended
}
