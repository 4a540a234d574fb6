// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package process starts processes that outlive us, and ends them later: those
// and no others. A process is remembered by its id and the time it was started
// at, in a file. An id alone is not enough: the kernel gives it to another
// process when the first has ended.
package process

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Set is the processes that are remembered in one directory.
type Set struct {
	PIDs string // one file for each process
	Logs string // one log for each process
}

// Command is a process to start.
type Command struct {
	Name string
	Argv []string
	Env  []string
}

// ErrNotRunning is what Check wraps if there is no such process any more.
var ErrNotRunning = errors.New("not running")

// identity is one process, as long as the machine runs.
type identity struct {
	PID int `json:"pid"`
	// Start is the time at which the process started, in clock ticks since
	// the machine booted (proc(5), /proc/pid/stat).
	Start uint64 `json:"start"`
	// Boot is the id of that boot (/proc/sys/kernel/random/boot_id).
	Boot string `json:"boot"`
}

// Start starts a command in a session of its own, with neither a terminal nor
// anything else of the caller's open, and remembers it. What it prints goes to
// its log.
func (s Set) Start(c Command) error {
	for _, dir := range []string{s.PIDs, s.Logs} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("starting %q: %w", c.Name, err)
		}
	}
	log, err := os.OpenFile(s.Log(c.Name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("starting %q: opening its log: %w", c.Name, err)
	}
	defer log.Close()
	cmd := exec.Command(c.Argv[0], c.Argv[1:]...)
	cmd.Dir = "/"
	cmd.Env = c.Env
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	keepInherited()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting %q: %w", c.Name, err)
	}
	go func() { _ = cmd.Wait() }() // reaps it, should it end before us
	if err := s.remember(c.Name, cmd.Process.Pid); err != nil {
		_ = cmd.Process.Kill()
		return fmt.Errorf("starting %q: remembering process %d: %w", c.Name, cmd.Process.Pid, err)
	}
	return nil
}

// keepInherited keeps from our children what we were given open: the lock of a
// flock(1) that runs us, say, which they would hold for as long as they live.
// What we opened ourselves is kept from them anyway.
func keepInherited() {
	open, _ := os.ReadDir("/proc/self/fd")
	for _, entry := range open {
		if fd, err := strconv.Atoi(entry.Name()); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
}

// Log is where a process' output goes.
func (s Set) Log(name string) string { return filepath.Join(s.Logs, name+".log") }

// Check returns the id of a process, or ErrNotRunning.
func (s Set) Check(name string) (pid int, err error) {
	text, err := os.ReadFile(s.pidFile(name))
	if errors.Is(err, os.ErrNotExist) {
		return 0, fmt.Errorf("%q is %w", name, ErrNotRunning)
	}
	if err != nil {
		return 0, fmt.Errorf("checking whether %q runs: %w", name, err)
	}
	var was identity
	if err := json.Unmarshal(text, &was); err != nil {
		// Written by halves when the machine stopped: it was never used.
		return 0, fmt.Errorf("%q is %w: its pid file %q says nothing", name, ErrNotRunning, s.pidFile(name))
	}
	if is, err := identify("/proc", was.PID); err != nil || is != was {
		return 0, fmt.Errorf("%q is %w: process %d has ended", name, ErrNotRunning, was.PID)
	}
	return was.PID, nil
}

// Running names the remembered processes that still run.
func (s Set) Running() []string {
	files, _ := filepath.Glob(filepath.Join(s.PIDs, "*.json"))
	var names []string
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		if _, err := s.Check(name); err == nil {
			names = append(names, name)
		}
	}
	return names
}

// Stop asks a process to end, waits for grace, and then makes it. A process
// that has ended already is fine.
func (s Set) Stop(name string, grace time.Duration) error {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		pid, err := s.Check(name)
		if errors.Is(err, ErrNotRunning) {
			break
		}
		if err != nil {
			return err
		}
		if err := syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("ending %q, process %d: %w", name, pid, err)
		}
		if s.ended(name, grace) {
			break
		}
	}
	if pid, err := s.Check(name); err == nil {
		return fmt.Errorf("ending %q: process %d does not end; look at /proc/%d/stack for what it waits for", name, pid, pid)
	}
	if err := os.Remove(s.pidFile(name)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("forgetting %q: %w", name, err)
	}
	return nil
}

func (s Set) ended(name string, limit time.Duration) bool {
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if _, err := s.Check(name); err != nil {
			return true
		}
	}
	return false
}

func (s Set) pidFile(name string) string { return filepath.Join(s.PIDs, name+".json") }

func (s Set) remember(name string, pid int) error {
	id, err := identify("/proc", pid)
	if err != nil {
		return err
	}
	text, err := json.Marshal(id)
	if err != nil {
		return err
	}
	temporary := s.pidFile(name) + ".new"
	if err := os.WriteFile(temporary, text, 0o644); err != nil {
		return err
	}
	return os.Rename(temporary, s.pidFile(name))
}
