// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// patience is for what is sure to happen.
	patience = 20 * time.Second
	// watch is how long to look whether something happens at all.
	watch = 5 * time.Second
)

// A pod is two containers, first and second, and the directories that they share.
type pod struct {
	*system
	dir        string
	api        *api // nil unless the system asks one
	full       bool // its volume is small
	containers []*container
}

// A way is how the containers of a pod are run.
type way struct {
	firstUser, secondUser int
	umask                 string
	small                 bool // the volume has 64 KiB
}

// newPod makes a pod without containers.
func (s *system) newPod(in string, w way) (*pod, error) {
	dir, err := os.MkdirTemp(in, "pod-")
	if err != nil {
		return nil, err
	}
	p := &pod{system: s, dir: dir}
	if err := errors.Join(os.Chmod(dir, 0o755), mkdirForAll(p.volume())); err != nil {
		return nil, err
	}
	if w.small {
		if err := unix.Mount("tmpfs", p.volume(), "tmpfs", 0, "size=64k,mode=777"); err != nil {
			return nil, fmt.Errorf("mounting a small volume at %q: %w", p.volume(), err)
		}
		p.full = true
	}
	if s.asks {
		if p.api, err = newAPI(filepath.Join(dir, "run", serviceAccount)); err != nil {
			return nil, errors.Join(err, p.close())
		}
	}
	if s.prepare != nil {
		err = s.prepare(p)
	}
	if err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

// close ends the containers, and removes what they shared.
func (p *pod) close() (err error) {
	for _, c := range p.containers {
		c.kill()
	}
	if p.api != nil {
		p.api.close()
	}
	if p.full {
		err = unix.Unmount(p.volume(), unix.MNT_DETACH)
	}
	return errors.Join(err, os.RemoveAll(p.dir))
}

func (p *pod) volume() string { return filepath.Join(p.dir, p.holds) }

// state is the file in which the first says that it has ended.
func (p *pod) state() string { return filepath.Join(p.volume(), p.says) }

func (p *pod) begin(s spec) (*container, error) {
	c, err := begin(p.dir, s)
	if err == nil {
		p.containers = append(p.containers, c)
	}
	return c, err
}

// beginFirst starts the dependency, whose command ends with the code.
func (p *pod) beginFirst(w way, code string) (*container, error) {
	s := p.first(p)
	s.argv, s.user, s.umask = append(s.argv, p.child, code), w.firstUser, w.umask
	c, err := p.begin(s)
	if err != nil {
		return nil, err
	}
	if _, started := c.await("started", patience); !started {
		return nil, fmt.Errorf("waiting for the dependency of %s: it wasn't started: %s", p.name, c.stderr)
	}
	time.Sleep(settling) // until its supervisor has said so
	return c, nil
}

// settling is more than a supervisor takes to say something, or to begin to wait.
const settling = 200 * time.Millisecond

// beginSecond starts the container that depends on the first.
func (p *pod) beginSecond(w way) (*container, error) {
	s := p.second(p)
	s.argv, s.user, s.umask = append(s.argv, p.child, "0"), w.secondUser, w.umask
	return p.begin(s)
}

// beginWaiting does, and waits until it waits.
func (p *pod) beginWaiting(w way) (*container, error) {
	c, err := p.beginSecond(w)
	if err != nil {
		return nil, err
	}
	for begun := time.Now(); ; time.Sleep(time.Millisecond) {
		switch {
		case !c.running():
			return nil, fmt.Errorf("waiting for %s to wait: it has ended with %d: %s", p.name, c.code(), c.stderr)
		case p.api != nil && !p.api.watched():
		case strings.Contains(c.stderr.String(), p.waits):
			if _, runs := c.stamp("started"); !runs && p.event == stopped {
				break
			}
			time.Sleep(settling)
			return c, nil
		}
		if time.Since(begun) > patience {
			return nil, fmt.Errorf("waiting for %s to wait: it didn't say %q: %s", p.name, p.waits, c.stderr)
		}
	}
}

// both starts the first and then the second.
func (p *pod) both(w way) (first, second *container, err error) {
	if first, err = p.beginFirst(w, "0"); err != nil {
		return nil, nil, err
	}
	second, err = p.beginWaiting(w)
	return first, second, err
}

// release has happen what the second waits for, and returns when it did.
func (p *pod) release(first *container) (time.Duration, error) {
	if p.api != nil {
		return p.api.ready(), nil
	}
	return first.finish()
}

// What a container that depends on another one does in the end.
const (
	started = "started" // its command is started
	stopped = "stopped" // its command gets SIGTERM
)

// An outcome is what the second has done.
type outcome struct {
	reacted, ended bool
	at             time.Duration
	code           int
}

// outcome waits until it has reacted or ended, or a while has passed.
func (p *pod) outcome(second *container, while time.Duration) (o outcome) {
	if o.at, o.reacted = second.await(p.event, while); o.reacted {
		return o
	}
	if o.at, o.ended = second.awaitEnd(0); o.ended {
		o.code = second.code()
	}
	return o
}
