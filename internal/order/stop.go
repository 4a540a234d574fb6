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
	"github.com/entrypointer/entrypointer/pkg/conditions"
)

// Neighbours are the containers that a supervisor observes after its stop signal has
// arrived: those that depend on its container, and those that its container depends on.
// As an await.Source, they are met once all dependents have ended.
type Neighbours struct {
	list       []neighbour
	heartbeats bool
	grace      time.Duration // of the pod: what was stopped longer ago was stopped alone
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
// of watched. The pod has this grace period.
func NewNeighbours(dependents, dependencies []string, heartbeats bool, grace time.Duration) *Neighbours {
	ns := &Neighbours{heartbeats: heartbeats, grace: grace}
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
		if n.seen.saysStopping() && ns.noteStop(n.dir, now) || n.ended && n.observed {
			ns.stopping = true
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

// hookExtension is what the kubelet adds to the grace period for a container whose preStop
// hook has taken all of it
// (https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/kubelet/kuberuntime/kuberuntime_container.go).
const hookExtension = 2 * time.Second

// noteStop notes when a container published that it is being stopped, and reports whether
// that can be a stop of the pod. With heartbeats, the time is unknown, because each
// heartbeat is a new state.
func (ns *Neighbours) noteStop(dir string, now time.Time) bool {
	if ns.heartbeats {
		return true
	}
	var st unix.Stat_t
	if unix.Lstat(dir+stateName, &st) != nil {
		return false // the next look finds out
	}
	at := time.Unix(st.Mtim.Unix())
	if now.Sub(at) > ns.grace+hookExtension {
		return false
	}
	if ns.stoppedAt.IsZero() || at.Before(ns.stoppedAt) {
		ns.stoppedAt = at
	}
	return true
}

// StoppedFor returns the time since the first neighbour was stopped together with the pod,
// by the state that it has published. It is 0 if that is unknown or lies in the future.
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
			list = append(list, Unmet{Dependency: Dependency{Condition: conditions.Exited, Dir: n.dir}, Seen: n.seen.String(), Problem: n.seen.problem != ""})
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
