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
type life int

const (
	absent life = iota // no incarnation has begun
	unsure             // nothing says so yet
	alive
	over
)

// A sight is what one look at a container's directory has found.
type sight struct {
	life        life
	incarnation string // the newest
	state       state  // of that; its phase is "" if it has said nothing
	doubt       string // why what is there says nothing, "" if it does
}

// silence is for how long a container whose lock can't be trusted may say nothing.
const silence = 30 * time.Second

// An observer looks at a container's directory.
type observer struct {
	dir string
	// beats says that who lives is who was heard within silence, on our own clock. Locks
	// are not asked for.
	beats  bool
	pulse  pulse
	looked time.Time // when the last look was
	quiet  time.Duration
	heard  bool // something has changed since the first look
}

// A pulse is what differs from heartbeat to heartbeat.
type pulse struct {
	incarnation string // of the lock
	state       state
}

// look looks once. The lock comes before the state: who is dead by the lock has said
// all that it ever will.
func (o *observer) look(now time.Time) sight {
	s := o.readLock()
	if s.doubt != "" || s.life == absent {
		if o.beats && s.life == absent {
			o.listen(now, pulse{}) // who comes after that is heard
		}
		return s
	}
	latest, err := readState(o.dir)
	switch {
	case err == unix.ENOENT:
	case err != nil:
		s.doubt = "its state can't be read: " + err.Error()
		return s
	case latest.incarnation == s.incarnation:
		s.state = latest
	}
	if s.state.phase == "" && s.life == over && o.readLock().incarnation != s.incarnation {
		return sight{life: unsure} // the next one has begun meanwhile
	}
	if o.beats {
		s.life = o.listen(now, pulse{s.incarnation, latest})
	}
	return s
}

// readLock says which incarnation is the newest, and whether it goes on.
func (o *observer) readLock() sight {
	fd, data, err := readRegular(o.dir + lockName)
	if err == unix.ENOENT {
		return sight{}
	}
	if err != nil {
		return sight{doubt: "its lock can't be read: " + err.Error()}
	}
	defer unix.Close(fd)
	name := string(data)
	if !isIncarnation(name) {
		return sight{doubt: "its lock can't be read: " + errGarbage.Error()}
	}
	if o.beats {
		return sight{life: unsure, incarnation: name}
	}
	held, err := isHeld(fd)
	switch {
	case err != nil:
		return sight{doubt: "its lock can't be asked for: " + err.Error()}
	case held:
		return sight{life: alive, incarnation: name}
	}
	return sight{life: over, incarnation: name}
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
func (o *observer) listen(now time.Time, p pulse) life {
	const looks = time.Second // more than there is between two
	switch {
	case o.looked.IsZero():
	case p != o.pulse:
		o.heard, o.quiet = true, 0
	default:
		o.quiet += min(now.Sub(o.looked), looks)
	}
	o.looked, o.pulse = now, p
	switch {
	case o.quiet >= silence:
		return over
	case o.heard:
		return alive
	}
	return unsure
}

// String says what was seen, as a part of a sentence about the container.
func (s sight) String() string {
	switch {
	case s.doubt != "":
		return s.doubt
	case s.life == absent:
		return "it has not begun yet"
	case s.state.phase.commandEnded():
		return "it exited with " + strconv.Itoa(s.state.exitCode)
	case s.life == over:
		return "it ended without a word, as by SIGKILL or for want of memory"
	case s.life == unsure:
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
