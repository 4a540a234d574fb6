// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package order

import (
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// liveness is what is known about whether an incarnation still runs.
type liveness int

const (
	absent       liveness = iota // no incarnation has created its lock yet
	undetermined                 // no change of the heartbeat has been observed yet
	alive
	dead
)

// An observation is the result of one look at a container's directory.
type observation struct {
	liveness    liveness
	incarnation string // the newest
	state       state  // of that incarnation; its phase is "" if it has published none
	problem     string // why the state is unknown, "" if it is known
	reason      string // what the container says of its state, filtered; "" if it says nothing
}

// maxSilence is the time without a heartbeat after which a container counts as dead.
const maxSilence = 30 * time.Second

// An observer looks at a container's directory repeatedly.
type observer struct {
	dir string
	// heartbeats replaces the lock, where locks don't work across containers. The
	// container is alive if its heartbeat has changed within maxSilence, by the
	// observer's own clock.
	heartbeats bool
	heartbeat  heartbeat
	observedAt time.Time // time of the last look
	silentFor  time.Duration
	changed    bool // the heartbeat has changed since the first look
}

// A heartbeat is what changes while an incarnation lives.
type heartbeat struct {
	incarnation string // in the lock file
	state       state
}

// observe looks once. It reads the lock before the state: once the lock is released,
// the state is final.
func (o *observer) observe(now time.Time) observation {
	s := o.readLock()
	if s.problem != "" || s.liveness == absent {
		if o.heartbeats && s.liveness == absent {
			o.judgeHeartbeat(now, heartbeat{}) // so that the first incarnation counts as a change
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
		if s.mayHaveReason() {
			s.reason = readReason(o.dir, s.incarnation)
		}
	}
	if s.state.phase == "" && s.liveness == dead && o.readLock().incarnation != s.incarnation {
		return observation{liveness: undetermined} // the next incarnation began between the two reads
	}
	if o.heartbeats {
		s.liveness = o.judgeHeartbeat(now, heartbeat{s.incarnation, latest})
	}
	return s
}

// readLock returns the newest incarnation and its liveness.
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
		return observation{problem: "its lock can't be queried: " + err.Error()}
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

// judgeHeartbeat compares p with the last heartbeat. A gap between two looks counts for
// one second at most, because the observer itself, or its whole node, was probably
// suspended in that time.
func (o *observer) judgeHeartbeat(now time.Time, p heartbeat) liveness {
	const looks = time.Second // longer than the usual time between two looks
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

// String describes the observation. "It" is the container.
func (s observation) String() string {
	if s.reason != "" && s.problem == "" && (s.liveness != dead || s.state.phase.commandEnded()) {
		return s.phaseText() + ": " + s.reason
	}
	return s.phaseText()
}

func (s observation) phaseText() string {
	switch {
	case s.problem != "":
		return s.problem
	case s.liveness == absent:
		return "the container has not started yet"
	case s.state.phase.commandEnded():
		return "it exited with " + strconv.Itoa(s.state.exitCode)
	case s.liveness == dead:
		return "it ended without reporting an exit code, as after SIGKILL or for lack of memory"
	case s.liveness == undetermined:
		return "no heartbeat yet"
	}
	switch s.state.phase {
	case Started:
		return "the command has started"
	case Ready:
		return "the command is ready"
	case Stopping:
		return "it is being stopped"
	}
	return "the command has not started yet"
}
