// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A verdict is what became of a hard case, and whether that is right.
type verdict struct {
	good bool
	text string
}

func right(format string, args ...any) verdict { return verdict{true, fmt.Sprintf(format, args...)} }

func wrong(format string, args ...any) verdict { return verdict{false, fmt.Sprintf(format, args...)} }

// A hardCase is an experiment on a system.
type hardCase struct {
	name string
	// only are the events of those that it is about; "" is any.
	only string
	// files says that it is about what is said in files.
	files bool
	way   way
	try   func(*pod, way) (verdict, error)
}

var hardCases = []hardCase{
	{name: "the first container exits with 3", only: started, try: fails},
	{name: "the first container is killed together with its supervisor (SIGKILL)", try: isKilled},
	{name: "the first container has ended before the second starts", try: hadEnded},
	{name: "the first container was restarted, and its former state is still there", files: true, try: hasAPast},
	{name: "a third container forges the end of the first", files: true, try: isBelied},
	{name: "the state file is a FIFO", files: true, try: isPipe},
	{name: "the state file has 1 GiB", files: true, try: isHuge},
	{name: "the state file is a symbolic link to another file", files: true, try: isLink},
	{name: "the volume is full when the first container ends", files: true, way: way{small: true}, try: hasNoRoom},
	{name: "two different users, umask 077", way: way{firstUser: 5678, secondUser: 1234, umask: "077"}, try: reacts},
	{name: "SIGTERM arrives while the second container waits", only: started, try: isStopped},
}

// done is what the second does, in words.
func (p *pod) done() string {
	if p.event == started {
		return "starts"
	}
	return "is stopped"
}

// expectation judges an outcome where the event is right, since a time.
func (p *pod) expectation(second *container, since time.Duration) verdict {
	switch o := p.outcome(second, watch); {
	case o.reacted:
		return right("%s after %s", p.done(), ms(o.at-since))
	case o.ended:
		return wrong("fails with %d after %s", o.code, ms(o.at-since))
	case p.event == started:
		return wrong("waits on (%v)", watch)
	default:
		return wrong("runs on (%v)", watch)
	}
}

// refusal judges an outcome where the second can't do what it is for.
func (p *pod) refusal(second *container, since time.Duration) verdict {
	switch o := p.outcome(second, watch); {
	case o.reacted:
		return wrong("starts")
	case o.ended:
		return right("fails with %d after %s", o.code, ms(o.at-since))
	default:
		return wrong("waits on (%v)", watch)
	}
}

func fails(p *pod, w way) (verdict, error) {
	first, err := p.beginFirst(w, "3")
	if err != nil {
		return verdict{}, err
	}
	second, err := p.beginWaiting(w)
	if err != nil {
		return verdict{}, err
	}
	since, err := first.finish()
	if p.api != nil {
		p.api.ended(3)
	}
	return p.refusal(second, since), err
}

func isKilled(p *pod, w way) (verdict, error) {
	first, second, err := p.both(w)
	if err != nil {
		return verdict{}, err
	}
	since := first.kill()
	if p.api != nil {
		p.api.ended(137)
	}
	if p.event == stopped {
		return p.expectation(second, since), nil
	}
	return p.refusal(second, since), nil
}

func hadEnded(p *pod, w way) (verdict, error) {
	first, err := p.beginFirst(w, "0")
	if err != nil {
		return verdict{}, err
	}
	if _, err := first.finish(); err != nil {
		return verdict{}, err
	}
	<-first.done
	if p.api != nil {
		p.api.ended(0)
	}
	since := now()
	second, err := p.beginSecond(w)
	if err != nil {
		return verdict{}, err
	}
	if p.event == stopped {
		if o := p.outcome(second, watch/2); o.ended && o.code == 0 {
			return right("isn't started"), nil
		}
	}
	return p.expectation(second, since), nil
}

func hasAPast(p *pod, w way) (verdict, error) {
	past, err := p.beginFirst(w, "0")
	if err != nil {
		return verdict{}, err
	}
	if _, err := past.finish(); err != nil {
		return verdict{}, err
	}
	<-past.done
	first, err := p.beginFirst(w, "0")
	if err != nil {
		return verdict{}, err
	}
	second, err := p.beginSecond(w)
	if err != nil {
		return verdict{}, err
	}
	switch o := p.outcome(second, watch/2); {
	case o.reacted:
		return wrong("%s because of the former state", p.done()), nil
	case o.ended:
		return wrong("ends with %d", o.code), nil
	}
	since, err := first.finish()
	return p.expectation(second, since), err
}

// isBelied has another user's container, with what it has mounted, write that the first
// has ended.
func isBelied(p *pod, w way) (verdict, error) {
	_, second, err := p.both(w)
	if err != nil {
		return verdict{}, err
	}
	mounts := p.others(p)
	inside, err := filepath.Rel(mounts[0].from, p.state())
	if err != nil {
		return verdict{}, err
	}
	path := filepath.Join(mounts[0].to, inside)
	third, err := p.begin(spec{
		argv: []string{"sh", "-c", `rm -f "$1"; printf %s "$2" >"$1"`, "sh", path, p.forged}, mounts: mounts, user: 4321,
	})
	if err != nil {
		return verdict{}, err
	}
	if _, ended := third.awaitEnd(patience); !ended {
		return verdict{}, errors.New("waiting for a third container to write a state: it doesn't end")
	}
	if o := p.outcome(second, watch/2); o.reacted {
		return wrong("%s because of the forgery", p.done()), nil
	}
	return right("without effect"), nil
}

// replace puts something else in the place of the first's state, as the first's own
// command can, and often others.
func (p *pod) replace(by func(path string) error) error {
	if err := os.Remove(p.state()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return by(p.state())
}

func isPipe(p *pod, w way) (verdict, error) {
	first, second, err := p.both(w)
	if err != nil {
		return verdict{}, err
	}
	if err := p.replace(func(path string) error {
		return errors.Join(unix.Mkfifo(path, 0o600), os.Chmod(path, 0o666))
	}); err != nil {
		return verdict{}, err
	}
	time.Sleep(watch / 2) // it has looked
	if p.event == stopped {
		since, err := first.finish()
		return p.expectation(second, since), err
	}
	return p.termination(second, "waits, and ends on SIGTERM"), nil
}

// termination judges what becomes of SIGTERM while the second waits.
func (p *pod) termination(second *container, well string) verdict {
	since := now()
	_ = second.cmd.Process.Signal(syscall.SIGTERM)
	switch o := p.outcome(second, watch); {
	case o.reacted:
		return wrong("starts")
	case o.ended:
		return right("%s, with %d after %s", well, o.code, ms(o.at-since))
	default:
		return wrong("SIGTERM has no effect (%v)", watch)
	}
}

// much is how much memory a supervisor may take for what others say, in bytes.
const much = 16 << 20

func isHuge(p *pod, w way) (verdict, error) {
	_, second, err := p.both(w)
	if err != nil {
		return verdict{}, err
	}
	before := second.peak()
	if err := p.replace(func(path string) error {
		aside := path + ".new"
		return errors.Join(writeForAll(aside, ""), os.Truncate(aside, 1<<30), os.Rename(aside, path))
	}); err != nil {
		return verdict{}, err
	}
	time.Sleep(watch) // it has looked
	if more := second.peak() - before; more > much {
		return wrong("%d MB of memory are allocated within %v", more/1e6, watch), nil
	}
	return right("no memory is allocated"), nil
}

func isLink(p *pod, w way) (verdict, error) {
	first, err := p.beginFirst(w, "0")
	if err != nil {
		return verdict{}, err
	}
	const text = "somebody else's"
	other := filepath.Join(p.dir, "other")
	if err := errors.Join(writeForAll(other, text), p.replace(func(path string) error { return os.Symlink(other, path) })); err != nil {
		return verdict{}, err
	}
	if _, err := first.finish(); err != nil {
		return verdict{}, err
	}
	<-first.done
	data, err := os.ReadFile(other)
	if string(data) != text {
		return wrong("the other file is overwritten"), err
	}
	return right("the other file isn't written"), err
}

func hasNoRoom(p *pod, w way) (verdict, error) {
	first, second, err := p.both(w)
	if err != nil {
		return verdict{}, err
	}
	if err := fill(filepath.Join(p.volume(), "full")); err != nil {
		return verdict{}, err
	}
	since, err := first.finish()
	return p.expectation(second, since), err
}

// fill writes to a file until the volume has no room.
func fill(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	for err == nil {
		_, err = f.Write(make([]byte, 512))
	}
	if !errors.Is(err, unix.ENOSPC) {
		return errors.Join(fmt.Errorf("filling a volume: %w", err), f.Close())
	}
	return f.Close()
}

func reacts(p *pod, w way) (verdict, error) {
	first, second, err := p.both(w)
	if err != nil {
		return verdict{}, err
	}
	since, err := p.release(first)
	return p.expectation(second, since), err
}

func isStopped(p *pod, w way) (verdict, error) {
	_, second, err := p.both(w)
	if err != nil {
		return verdict{}, err
	}
	return p.termination(second, "ends"), nil
}

func ms(d time.Duration) string { return strconv.FormatFloat(d.Seconds()*1000, 'f', 1, 64) + " ms" }
