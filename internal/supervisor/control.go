// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/entrypointer/entrypointer/internal/proc"
	"github.com/entrypointer/entrypointer/internal/signals"
	"github.com/entrypointer/entrypointer/internal/supervisor/console"
	"github.com/entrypointer/entrypointer/internal/supervisor/outcome"
)

// controlCommand returns the implementation of a subcommand that "kubectl exec" runs in
// the container of a supervisor, nil for other names. The image needs neither a shell
// nor kill(1).
func controlCommand(name string) func(args []string) int {
	switch name {
	case "status":
		return func(args []string) int { return runControl(name, args, 0, controlStatus) }
	case "started":
		return controlStarted
	case "signal":
		return func(args []string) int { return runControl(name, args, 1, controlSignal) }
	case "continue":
		return func(args []string) int { return runControl(name, args, 0, controlContinue) }
	}
	return nil
}

func runControl(name string, args []string, want int, control func(args []string) error) int {
	if len(args) != want {
		return printFailure(outcome.Own(strings.TrimSuffix("usage: entrypoint "+name+strings.Repeat(" NAME", want), " ")))
	}
	if err := control(args); err != nil {
		f := outcome.As(err)
		f.Text = "entrypoint " + name + ": " + f.Text
		printFailure(f)
		return 1
	}
	return 0
}

func controlStatus([]string) error {
	pid, err := findSupervisor()
	if err != nil {
		return err
	}
	json := publishedStatus(pid)
	if json == "" {
		json = string(statusFromProc(pid).json())
	}
	if !console.Stdout(json) {
		return outcome.Own("writing to stdout failed")
	}
	return nil
}

// controlStarted serves a probe. The kubelet copies its output into the pod's events, so
// it says what the container waits for, in words that change seldom: the kubelet counts
// equal events. If no supervisor runs, the command has replaced it, and
// so has started.
func controlStarted(args []string) int {
	if len(args) > 0 {
		return printFailure(outcome.Own("usage: entrypoint started"))
	}
	if proc.Link("self", "exe") == "" || proc.Link("self", "ns/mnt") == "" || !slices.Contains(proc.IDs(), os.Getpid()) {
		return 1 // /proc is incomplete, so the supervisor may be hidden
	}
	pid, err := findSupervisor()
	if err == nil && !hasStarted(pid) {
		console.Stdout(whatFor(publishedStatus(pid), time.Since(proc.ReadStat(pid).StartTime())))
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
	case strings.Contains(json, `"startupProbe":"`+startupPending):
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
	for _, reminder := range slices.Backward(reminderTimes) {
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
	if json := publishedStatus(pid); json != "" {
		return strings.Contains(json, `"started":"`) && !strings.Contains(json, `"startupProbe":"`+startupPending) && !strings.Contains(json, `"startupProbe":"`+startupFailed)
	}
	return commandOf(pid) != 0
}

// controlSignal sends a signal to the supervisor, which forwards it, or directly to the
// command if the supervisor doesn't forward that signal.
func controlSignal(args []string) error {
	sig, err := parseSignal(args[0])
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

func controlContinue([]string) error {
	pid, err := findSupervisor()
	if err != nil {
		return err
	}
	if !mayBePaused(pid) {
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
func mayBePaused(pid int) bool {
	if json := publishedStatus(pid); json != "" {
		return strings.Contains(json, `"phase":"`+string(phasePaused)+`"`)
	}
	args := strings.Split(proc.Read(pid, "cmdline"), "\x00")
	opts, err := parse(args[min(1, len(args)):])
	return err == nil && opts.pause != nil && commandOf(pid) == 0
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
	return len(args) > 1 && controlCommand(args[1]) != nil
}

// publishedStatus returns the status that a supervisor has published in its memfd, or
// "" if there is none.
func publishedStatus(pid int) string {
	dir := strconv.Itoa(pid) + "/fd"
	for fd := range 64 { // a supervisor opens its memfd first, so its number is low
		name := dir + "/" + strconv.Itoa(fd)
		if !strings.HasPrefix(proc.Link(name, ""), "/memfd:"+memoryName) {
			continue
		}
		// An empty memfd is about to replace another one.
		if data, _ := proc.ReadFile("/proc/"+name, maxStatus); len(data) > 0 {
			return string(data)
		}
	}
	return ""
}

// statusFromProc derives a status from /proc, for a supervisor that has published none.
func statusFromProc(pid int) *status {
	command := commandOf(pid)
	if command == 0 {
		return &status{phase: phaseWaiting}
	}
	return &status{phase: phaseRunning, started: proc.ReadStat(command).StartTime()}
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

// parseSignal parses a signal name, with or without SIG, or a number.
func parseSignal(s string) (syscall.Signal, error) {
	name := "SIG" + strings.TrimPrefix(strings.ToUpper(s), "SIG")
	for sig := syscall.Signal(1); sig <= signals.Last; sig++ {
		if name == signals.Name(sig) || s == strconv.Itoa(int(sig)) {
			return sig, nil
		}
	}
	return 0, outcome.Own("parsing " + strconv.Quote(s) + ": not a signal: use a name such as TERM or RTMIN+3, or a number from 1 to " + strconv.Itoa(signals.Last))
}
