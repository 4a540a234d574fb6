// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A mount is a directory of the machine that a container has at a path.
type mount struct {
	from, to string
	readOnly bool
}

// A spec is what a container runs. It is the first process of a PID namespace, as in a
// pod, because signals act differently on that.
type spec struct {
	argv, env []string
	mounts    []mount
	user      int    // 0 is root
	umask     string // "" is that of this process
}

// script mounts what a container has, and becomes its process. /dev is one of its own,
// because some write a termination message there.
func (s spec) script(dev string) string {
	lines := []string{"mount -t proc proc /proc", "mount --bind /dev/null " + dev + "/null", "mount --rbind " + dev + " /dev"}
	for _, m := range s.mounts {
		lines = append(lines, "mount --rbind "+m.from+" "+m.to)
		if m.readOnly {
			lines = append(lines, "mount -o remount,bind,ro "+m.to)
		}
	}
	if s.umask != "" {
		lines = append(lines, "umask "+s.umask)
	}
	become := `exec "$@"`
	if s.user != 0 {
		id := strconv.Itoa(s.user)
		become = "exec setpriv --reuid " + id + " --regid " + id + ` --clear-groups "$@"`
	}
	return strings.Join(append(lines, become), "\n")
}

// A container is one that runs, or has run.
type container struct {
	cmd    *exec.Cmd
	stderr *lines
	until  *os.File // its command ends when this is closed
	done   chan struct{}
	ended  time.Duration // when it did, once it is done

	mu     sync.Mutex
	stamps map[string]time.Duration // when its command did what
	news   chan struct{}            // a stamp has come
}

// begin starts a container.
func begin(dir string, s spec) (*container, error) {
	dev, err := os.MkdirTemp(dir, "dev-")
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"null", "termination-log"} {
		if err := writeForAll(filepath.Join(dev, name), ""); err != nil {
			return nil, err
		}
	}
	stamps, three, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = three.Close() }()
	four, until, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, stamps.Close())
	}
	defer func() { _ = four.Close() }()
	c := &container{
		cmd:    exec.Command("sh", append([]string{"-ec", s.script(dev), "sh"}, s.argv...)...),
		stderr: &lines{}, until: until, done: make(chan struct{}), stamps: map[string]time.Duration{}, news: make(chan struct{}, 16),
	}
	c.cmd.Env = append(os.Environ(), s.env...)
	c.cmd.Stderr = c.stderr
	c.cmd.ExtraFiles = []*os.File{three, four}
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID, Unshareflags: syscall.CLONE_NEWNS}
	if err := c.cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("starting %q: %w", s.argv, err), stamps.Close(), until.Close())
	}
	go c.listen(stamps)
	go func() {
		_ = c.cmd.Wait()
		c.ended = now()
		close(c.done)
	}()
	return c, nil
}

// listen notes what the command says.
func (c *container) listen(stamps *os.File) {
	defer func() { _ = stamps.Close() }()
	for scanner := bufio.NewScanner(stamps); scanner.Scan(); {
		word, at, _ := strings.Cut(scanner.Text(), " ")
		ns, _ := strconv.ParseInt(at, 10, 64)
		c.mu.Lock()
		c.stamps[word] = time.Duration(ns)
		c.mu.Unlock()
		c.news <- struct{}{}
	}
}

func (c *container) stamp(word string) (time.Duration, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, said := c.stamps[word]
	return at, said
}

// await waits until the command has said a word, or the container has ended.
func (c *container) await(word string, patience time.Duration) (at time.Duration, said bool) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		if at, said = c.stamp(word); said {
			return at, true
		}
		select {
		case <-c.news:
		case <-timer.C:
			return c.stamp(word)
		case <-c.done:
			time.Sleep(10 * time.Millisecond) // for what it has said last
			return c.stamp(word)
		}
	}
}

// awaitEnd waits until the container has ended.
func (c *container) awaitEnd(patience time.Duration) (at time.Duration, ended bool) {
	select {
	case <-c.done:
		return c.ended, true
	default:
	}
	select {
	case <-c.done:
		return c.ended, true
	case <-time.After(patience):
		return 0, false
	}
}

func (c *container) running() bool {
	_, ended := c.awaitEnd(0)
	return !ended
}

// finish has its command end of its own accord, and returns when it did.
func (c *container) finish() (time.Duration, error) {
	_ = c.until.Close()
	at, ended := c.await("ended", patience)
	if !ended {
		return 0, fmt.Errorf("waiting for the command of %q to end: it didn't within %v: %s", c.cmd.Args, patience, c.stderr)
	}
	return at, nil
}

// kill kills the container, and returns when.
func (c *container) kill() time.Duration {
	at := now()
	_ = c.cmd.Process.Kill()
	<-c.done
	_ = c.until.Close()
	return at
}

// code is the exit code of a container that has ended.
func (c *container) code() int {
	status, _ := c.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}

// peak is the most memory that its first process has had, in bytes.
func (c *container) peak() int64 {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.cmd.Process.Pid))
	_, rest, _ := strings.Cut(string(data), "\nVmHWM:")
	kib, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	n, _ := strconv.ParseInt(kib, 10, 64)
	return n << 10
}

// lines are what a container has written to stderr.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.TrimSpace(l.text.String())
}

// now is the clock of the command's stamps.
func now() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err)
	}
	return time.Duration(t.Nano())
}

// writeForAll writes a file that all users can write to, as they can in an emptyDir.
func writeForAll(path, text string) error {
	return errors.Join(os.WriteFile(path, []byte(text), 0o600), os.Chmod(path, 0o666))
}

// mkdirForAll makes such a directory.
func mkdirForAll(path string) error {
	return errors.Join(os.MkdirAll(path, 0o755), os.Chmod(path, 0o777))
}
