// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package order

import (
	"path"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/entrypointer/entrypointer/internal/await"
)

// Neighbours are the containers that a supervisor observes after its stop signal has
// arrived: those that depend on its container, and those that its container depends on.
// As an await.Source, they are met once all dependents have ended.
type Neighbours struct {
	list       []neighbour
	heartbeats bool
	stopping   bool
	stoppedAt  time.Time // when the first neighbour was stopped, as far as known
}

type neighbour struct {
	observer
	dependent bool // on this container
	seen      observation
	observed  bool // a look before succeeded
	ended     bool // at a look, or it was absent at the first look
}

// NewNeighbours returns the containers with these directories. With heartbeats,
// liveness is judged by heartbeats instead of locks, and directories are polled instead
// of watched.
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

// Look observes each container until it has ended. A restarted container doesn't delay
// the stop again. Look never returns an error: a container with an unreadable directory
// counts as running.
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
		if n.seen.saysStopping() && !ns.heartbeats { // each heartbeat is a new state
			ns.noteStop(n.dir)
		}
		n.observed = n.observed || n.seen.problem == ""
		if n.dependent && !n.ended {
			state = await.Waiting
		}
	}
	return state, nil
}

// Stopping reports whether a neighbour was seen to stop or to end. In that case the
// whole pod is being stopped.
func (ns *Neighbours) Stopping() bool { return ns.stopping }

// noteStop notes when a container published that it is being stopped.
func (ns *Neighbours) noteStop(dir string) {
	var st unix.Stat_t
	if unix.Lstat(dir+stateName, &st) != nil {
		return
	}
	if at := time.Unix(st.Mtim.Unix()); ns.stoppedAt.IsZero() || at.Before(ns.stoppedAt) {
		ns.stoppedAt = at
	}
}

// StoppedFor returns the time since the first neighbour was stopped, by the state that
// it has published. It is 0 if that is unknown or lies in the future.
func (ns *Neighbours) StoppedFor(now time.Time) time.Duration {
	if ns.stoppedAt.IsZero() {
		return 0
	}
	return max(now.Sub(ns.stoppedAt), 0)
}

// Directories returns the directories to watch, or none with heartbeats.
func (ns *Neighbours) Directories() (paths []string, written bool) {
	if ns.heartbeats {
		return nil, false
	}
	for _, n := range ns.list {
		paths = append(paths, n.dir)
	}
	return paths, false
}

// Interval is the longest time between two looks.
func (ns *Neighbours) Interval() time.Duration { return lookInterval }

// Unmet returns the dependents that have not ended.
func (ns *Neighbours) Unmet() (list []Unmet) {
	for _, n := range ns.list {
		if n.dependent && !n.ended {
			list = append(list, Unmet{Dependency: Dependency{Condition: HasExited, Dir: n.dir}, Seen: n.seen.String(), Problem: n.seen.problem != ""})
		}
	}
	return list
}

// IsDirectory reports whether dir is a valid path of a container's directory.
func IsDirectory(dir string) bool {
	return path.IsAbs(dir) && dir == path.Clean(dir) && dir != "/"
}

// saysStopping reports whether the incarnation has published that it is being stopped.
// With heartbeats, a killed incarnation may look like this for a while, which only
// delays the stop.
func (s observation) saysStopping() bool {
	return s.problem == "" && s.liveness != dead && s.state.phase == Stopping
}

// hasEnded reports whether the container runs no command and won't before its next
// incarnation. A released lock is enough, even if the state is unreadable.
func (s observation) hasEnded() bool {
	switch {
	case s.liveness == dead:
		return true
	case s.problem != "":
		return false
	}
	return s.liveness == absent || s.state.phase == Ended
}
