// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package control has the subcommands that "kubectl exec" runs in the container of a
// supervisor, and its probe.
package control

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/entrypointer/entrypointer/internal/proc"
	"github.com/entrypointer/entrypointer/internal/signals"
	"github.com/entrypointer/entrypointer/internal/supervisor/cmdline"
	"github.com/entrypointer/entrypointer/internal/supervisor/console"
	"github.com/entrypointer/entrypointer/internal/supervisor/outcome"
	"github.com/entrypointer/entrypointer/internal/supervisor/report"
)

// Command returns the implementation of a subcommand that "kubectl exec" runs in the
// container of a supervisor, nil for other names. The image needs neither a shell nor
// kill(1). asksForPause reports whether a command line has pauses.
func Command(name string, asksForPause func(args []string) bool) func(args []string) int {
	switch name {
	case "status":
		return func(args []string) int { return run(name, args, 0, printStatus) }
	case "started":
		return started
	case "signal":
		return func(args []string) int { return run(name, args, 1, sendSignal) }
	case "continue":
		return func(args []string) int {
			return run(name, args, 0, func([]string) error { return endPause(asksForPause) })
		}
	}
	return nil
}

func run(name string, args []string, want int, control func(args []string) error) int {
	if len(args) != want {
		return console.Fail(outcome.Own(strings.TrimSuffix("usage: entrypoint "+name+strings.Repeat(" NAME", want), " ")))
	}
	if err := control(args); err != nil {
		f := outcome.As(err)
		f.Text = "entrypoint " + name + ": " + f.Text
		console.Fail(f)
		return 1
	}
	return 0
}

func printStatus([]string) error {
	pid, err := findSupervisor()
	if err != nil {
		return err
	}
	json := report.Published(pid)
	if json == "" {
		json = string(statusFromProc(pid).JSON())
	}
	if !console.Stdout(json) {
		return outcome.Own("writing to stdout failed")
	}
	return nil
}

// started serves a probe. The kubelet copies its output into the pod's events, so
// it says what the container waits for, in words that change seldom: the kubelet counts
// equal events. If no supervisor runs, the command has replaced it, and
// so has started.
func started(args []string) int {
	if len(args) > 0 {
		return console.Fail(outcome.Own("usage: entrypoint started"))
	}
	if proc.Link("self", "exe") == "" || proc.Link("self", "ns/mnt") == "" || !slices.Contains(proc.IDs(), os.Getpid()) {
		return 1 // /proc is incomplete, so the supervisor may be hidden
	}
	pid, err := findSupervisor()
	if err == nil && !hasStarted(pid) {
		console.Stdout(whatFor(report.Published(pid), time.Since(proc.ReadStat(pid).StartTime())))
		return 1
	}
	return 0
}

// whatFor says what a container waits for, from its published status and the time for
// which it has run.
func whatFor(json string, waited time.Duration) string {
	_, list, waits := strings.Cut(json, `"waitingFor":[`)
	list, _, _ = strings.Cut(list, "}]")
	switch {
	case strings.Contains(json, `"startupProbe":"`+report.StartupPending):
		return "the command runs, and its startupProbe hasn't succeeded yet\n"
	case !waits:
		return "the command has not been started yet\n"
	}
	text := "waiting for "
	for n, one := range strings.Split(list, "},{") {
		name := jsonString(one, "url")
		if name == "" {
			name = jsonString(one, "container") + ":" + jsonString(one, "condition")
		}
		if n > 0 {
			text += ", "
		}
		text += name + " (" + jsonString(one, "seen") + ")"
	}
	for _, reminder := range slices.Backward(report.ReminderTimes) {
		if waited >= reminder {
			return text + " for more than " + reminder.String() + "\n"
		}
	}
	return text + "\n"
}

// jsonString returns a string field of an object that the supervisor has written. Escapes
// other than those of quotes and backslashes stay: no control character is printed.
func jsonString(object, name string) string {
	_, rest, _ := strings.Cut(object, `"`+name+`":"`)
	var b strings.Builder
	for at := 0; at < len(rest) && rest[at] != '"'; at++ {
		if rest[at] == '\\' && at+1 < len(rest) && (rest[at+1] == '"' || rest[at+1] == '\\') {
			at++
		}
		b.WriteByte(rest[at])
	}
	return b.String()
}

// hasStarted reports whether a supervisor has started its command, which may have ended
// since, and whether the startupProbe that it tries, if any, has succeeded.
func hasStarted(pid int) bool {
	if json := report.Published(pid); json != "" {
		return strings.Contains(json, `"started":"`) && !strings.Contains(json, `"startupProbe":"`+report.StartupPending) && !strings.Contains(json, `"startupProbe":"`+report.StartupFailed)
	}
	return commandOf(pid) != 0
}

// sendSignal sends a signal to the supervisor, which forwards it, or directly to the
// command if the supervisor doesn't forward that signal.
func sendSignal(args []string) error {
	sig, err := cmdline.ParseSignal(args[0])
	if err != nil {
		return err
	}
	pid, err := findSupervisor()
	if err != nil {
		return err
	}
	target := pid
	if !signals.IsForwarded(sig) {
		if target = commandOf(pid); target == 0 {
			return outcome.Own("sending " + signals.Name(sig) + ": no command runs")
		}
	}
	if err := syscall.Kill(target, sig); err != nil {
		return outcome.Own("sending " + signals.Name(sig) + " to process " + strconv.Itoa(target) + ": " + err.Error())
	}
	return nil
}

func endPause(asksForPause func(args []string) bool) error {
	pid, err := findSupervisor()
	if err != nil {
		return err
	}
	if !mayBePaused(pid, asksForPause) {
		return outcome.Own(`the supervisor isn't paused: see "entrypoint status"`)
	}
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		return outcome.Own("sending SIGCONT to process " + strconv.Itoa(pid) + ": " + err.Error())
	}
	return nil
}

// mayBePaused reports whether a supervisor may be paused. If it couldn't publish its
// status (memfd_create refused), mayBePaused looks for a -pause flag and no command. A
// SIGCONT too many has no effect on a supervisor that waits.
func mayBePaused(pid int, asksForPause func(args []string) bool) bool {
	if json := report.Published(pid); json != "" {
		return strings.Contains(json, `"phase":"`+string(report.Paused)+`"`)
	}
	args := strings.Split(proc.Read(pid, "cmdline"), "\x00")
	return asksForPause(args[min(1, len(args)):]) && commandOf(pid) == 0
}

// findSupervisor returns the process that runs the same executable in the same
// container, that is, in the same mount namespace. If the command runs another
// supervisor, the oldest process is the container's own.
func findSupervisor() (int, error) {
	executable, mounts := proc.Link("self", "exe"), proc.Link("self", "ns/mnt")
	if executable == "" || mounts == "" {
		return 0, outcome.Own("looking for the supervisor: /proc is not readable: mount it")
	}
	oldest, since := 0, uint64(0)
	for _, pid := range proc.IDs() {
		name := strconv.Itoa(pid)
		if pid == os.Getpid() || proc.Link(name, "exe") != executable || proc.Link(name, "ns/mnt") != mounts || isControl(pid) {
			continue
		}
		if start := proc.ReadStat(pid).Start; oldest == 0 || start < since {
			oldest, since = pid, start
		}
	}
	if oldest == 0 {
		return 0, outcome.Own("looking for the supervisor: none runs in this container as this user: with mode exec, the command has replaced it")
	}
	return oldest, nil
}

// isControl reports whether a process runs a control subcommand, as this one does.
func isControl(pid int) bool {
	args := strings.Split(proc.Read(pid, "cmdline"), "\x00")
	return len(args) > 1 && Command(args[1], nil) != nil
}

// statusFromProc derives a status from /proc, for a supervisor that has published none.
func statusFromProc(pid int) *report.Status {
	command := commandOf(pid)
	if command == 0 {
		return &report.Status{Phase: report.Waiting}
	}
	return &report.Status{Phase: report.Running, Started: proc.ReadStat(command).StartTime()}
}

// commandOf returns the process ID of a supervisor's command, or 0 if none runs. The
// other children are orphans that the supervisor has inherited. The command is the
// oldest child that leads a process group in the supervisor's session; daemons lead
// sessions of their own.
func commandOf(supervisor int) int {
	session := proc.ReadStat(supervisor).Session
	oldest, since := 0, uint64(0)
	for _, pid := range proc.Children(supervisor) {
		stat := proc.ReadStat(pid)
		if stat.Group == pid && stat.Session == session && (oldest == 0 || stat.Start < since) {
			oldest, since = pid, stat.Start
		}
	}
	return oldest
}
