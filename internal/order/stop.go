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
	list     []neighbour
	beats    bool
	stopping bool
}

type neighbour struct {
	observer
	dependent bool // on this container
	seen      sight
	lived     bool // at a look that could tell
	ended     bool // at a look, or it was never there
}

// NewNeighbours returns those that have these directories: of the containers that depend
// on this one, and of others. With beats, neither locks nor the kernel's word on changes
// are trusted.
func NewNeighbours(dependents, others []string, beats bool) *Neighbours {
	ns := &Neighbours{beats: beats}
	for _, dir := range dependents {
		ns.list = append(ns.list, neighbour{observer: observer{dir: dir, beats: beats}, dependent: true})
	}
	for _, dir := range others {
		if !slices.Contains(dependents, dir) {
			ns.list = append(ns.list, neighbour{observer: observer{dir: dir, beats: beats}})
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
		n.seen = n.look(now)
		n.ended = n.seen.ended()
		if n.seen.stopping() || n.ended && n.lived {
			ns.stopping = true
		}
		n.lived = n.lived || n.seen.doubt == ""
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
	if ns.beats {
		return nil, false
	}
	for _, n := range ns.list {
		paths = append(paths, n.dir)
	}
	return paths, false
}

// Interval is that of Dependencies.
func (ns *Neighbours) Interval() time.Duration { return interval }

// Unmet returns the containers that depend on this one and have not ended.
func (ns *Neighbours) Unmet() (list []Unmet) {
	for _, n := range ns.list {
		if n.dependent && !n.ended {
			list = append(list, Unmet{Dependency: Dependency{Condition: HasExited, Dir: n.dir}, Seen: n.seen.String(), Doubt: n.seen.doubt != ""})
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
func (s sight) stopping() bool {
	return s.doubt == "" && s.life != over && s.state.phase == Stopping
}

// ended reports whether a container runs no command, and won't before its next
// incarnation. A lock that nobody holds is enough to know, whatever the state is.
func (s sight) ended() bool {
	switch {
	case s.life == over:
		return true
	case s.doubt != "":
		return false
	}
	return s.life == absent || s.state.phase == Ended
}
