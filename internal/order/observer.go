// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package order

import (
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// A life is what is known of whether an incarnation goes on.
type liveness int

const (
	absent       liveness = iota // no incarnation has begun
	undetermined                 // nothing says so yet
	alive
	dead
)

// A sight is what one look at a container's directory has found.
type observation struct {
	liveness    liveness
	incarnation string // the newest
	state       state  // of that; its phase is "" if it has said nothing
	problem     string // why what is there says nothing, "" if it does
}

// silence is for how long a container whose lock can't be trusted may say nothing.
const maxSilence = 30 * time.Second

// An observer looks at a container's directory.
type observer struct {
	dir string
	// beats says that who lives is who was heard within silence, on our own clock. Locks
	// are not asked for.
	heartbeats bool
	heartbeat  heartbeat
	observedAt time.Time // when the last look was
	silentFor  time.Duration
	changed    bool // something has changed since the first look
}

// A pulse is what differs from heartbeat to heartbeat.
type heartbeat struct {
	incarnation string // of the lock
	state       state
}

// look looks once. The lock comes before the state: who is dead by the lock has said
// all that it ever will.
func (o *observer) observe(now time.Time) observation {
	s := o.readLock()
	if s.problem != "" || s.liveness == absent {
		if o.heartbeats && s.liveness == absent {
			o.judgeHeartbeat(now, heartbeat{}) // who comes after that is heard
		}
		return s
	}
	latest, err := readState(o.dir)
	switch {
	case err == unix.ENOENT:
	case err != nil:
		s.problem = "its state can't be read: " + err.Error()
		return s
	case latest.incarnation == s.incarnation:
		s.state = latest
	}
	if s.state.phase == "" && s.liveness == dead && o.readLock().incarnation != s.incarnation {
		return observation{liveness: undetermined} // the next one has begun meanwhile
	}
	if o.heartbeats {
		s.liveness = o.judgeHeartbeat(now, heartbeat{s.incarnation, latest})
	}
	return s
}

// readLock says which incarnation is the newest, and whether it goes on.
func (o *observer) readLock() observation {
	fd, data, err := readRegular(o.dir + lockName)
	if err == unix.ENOENT {
		return observation{}
	}
	if err != nil {
		return observation{problem: "its lock can't be read: " + err.Error()}
	}
	defer unix.Close(fd)
	name := string(data)
	if !isIncarnation(name) {
		return observation{problem: "its lock can't be read: " + errFormat.Error()}
	}
	if o.heartbeats {
		return observation{liveness: undetermined, incarnation: name}
	}
	held, err := isLocked(fd)
	switch {
	case err != nil:
		return observation{problem: "its lock can't be asked for: " + err.Error()}
	case held:
		return observation{liveness: alive, incarnation: name}
	}
	return observation{liveness: dead, incarnation: name}
}

func readState(dir string) (state, error) {
	fd, data, err := readRegular(dir + stateName)
	if err != nil {
		return state{}, err
	}
	_ = unix.Close(fd)
	return parseState(string(data))
}

// listen judges by heartbeats. A time in which we didn't look, because we were stopped,
// or the whole node was, isn't held against who was silent in it.
func (o *observer) judgeHeartbeat(now time.Time, p heartbeat) liveness {
	const looks = time.Second // more than there is between two
	switch {
	case o.observedAt.IsZero():
	case p != o.heartbeat:
		o.changed, o.silentFor = true, 0
	default:
		o.silentFor += min(now.Sub(o.observedAt), looks)
	}
	o.observedAt, o.heartbeat = now, p
	switch {
	case o.silentFor >= maxSilence:
		return dead
	case o.changed:
		return alive
	}
	return undetermined
}

// String says what was seen, as a part of a sentence about the container.
func (s observation) String() string {
	switch {
	case s.problem != "":
		return s.problem
	case s.liveness == absent:
		return "it has not begun yet"
	case s.state.phase.commandEnded():
		return "it exited with " + strconv.Itoa(s.state.exitCode)
	case s.liveness == dead:
		return "it ended without a word, as by SIGKILL or for want of memory"
	case s.liveness == undetermined:
		return "nothing was heard of it yet"
	}
	switch s.state.phase {
	case Started:
		return "it is started"
	case Ready:
		return "it is ready"
	case Stopping:
		return "it is being stopped"
	}
	return "it isn't started yet"
}
