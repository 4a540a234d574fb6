// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"errors"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

func newSet(t *testing.T) Set {
	t.Helper()
	return Set{PIDs: t.TempDir(), Logs: t.TempDir()}
}

func TestStartCheckStop(t *testing.T) {
	s := newSet(t)
	if err := s.Start(Command{Name: "sleeper", Argv: []string{"/bin/sh", "-c", "echo started; exec sleep 100"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Check("sleeper"); err != nil {
		t.Errorf("Check of a process that runs: %v", err)
	}
	if running := s.Running(); len(running) != 1 || running[0] != "sleeper" {
		t.Errorf("Running: got %q, want the sleeper", running)
	}
	if err := s.Stop("sleeper", time.Second); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Check("sleeper"); !errors.Is(err, ErrNotRunning) {
		t.Errorf("Check after Stop: got %v, want ErrNotRunning", err)
	}
	if err := s.Stop("sleeper", time.Second); err != nil {
		t.Errorf("Stop of a process that has ended: %v", err)
	}
}

func TestALockOfTheCallersEndsWithTheCaller(t *testing.T) {
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	// As flock(1) leaves it to what it runs: open.
	inherited, _, errno := syscall.Syscall(syscall.SYS_FCNTL, writer.Fd(), syscall.F_DUPFD, 10)
	if errno != 0 {
		t.Fatal(errno)
	}
	s := newSet(t)
	if err := s.Start(Command{Name: "daemon", Argv: []string{"/bin/sleep", "100"}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Stop("daemon", time.Second) })
	if err := errors.Join(writer.Close(), syscall.Close(int(inherited)), reader.SetReadDeadline(time.Now().Add(10*time.Second))); err != nil {
		t.Fatal(err)
	}
	if _, err := reader.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("reading what only the daemon could still have open: got %v, want EOF", err)
	}
}

func TestStopKillsWhatDoesNotListen(t *testing.T) {
	s := newSet(t)
	if err := s.Start(Command{Name: "deaf", Argv: []string{"/bin/sh", "-c", "trap '' TERM; echo ready; while :; do sleep 1; done"}}); err != nil {
		t.Fatal(err)
	}
	for range 100 { // until it is deaf
		if log, _ := os.ReadFile(s.Log("deaf")); strings.Contains(string(log), "ready") {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if err := s.Stop("deaf", 100*time.Millisecond); err != nil {
		t.Fatal(err)
	}
}

// A process that got a remembered id after the remembered one ended is not ours.
func TestCheckTellsReusedIDs(t *testing.T) {
	s := newSet(t)
	if err := s.remember("me", os.Getpid()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Check("me"); err != nil {
		t.Fatalf("Check of this process: %v", err)
	}
	text, err := os.ReadFile(s.pidFile("me"))
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{`"start":`, `"boot":"`} {
		other := strings.Replace(string(text), field, field+"1", 1)
		if err := os.WriteFile(s.pidFile("me"), []byte(other), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Check("me"); !errors.Is(err, ErrNotRunning) {
			t.Errorf("Check with another value for %s: got %v, want ErrNotRunning", field, err)
		}
	}
}

func TestParseStat(t *testing.T) {
	const rest = " S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4242 20 21"
	for _, line := range []string{"7 (sh)" + rest, "7 (a) S 1 (b))" + rest, "7 ()" + rest} {
		state, start, err := parseStat(line)
		if err != nil || state != "S" || start != 4242 {
			t.Errorf("parseStat(%q) = %q, %d, %v; want S, 4242", line, state, start, err)
		}
	}
	for _, line := range []string{"", "7 sh S 1", "7 (sh) S 1 2", "7 (sh) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 x"} {
		if _, _, err := parseStat(line); err == nil {
			t.Errorf("parseStat(%q): no error", line)
		}
	}
}
