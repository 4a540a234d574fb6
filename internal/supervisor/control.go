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
)

// controlNamed returns what one does from outside, by kubectl exec, to the
// entrypoint that runs in the same container, nil if the name is none of that.
// The image needs no shell and no kill for it.
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
		return printFailure(ownFailure(strings.TrimSuffix("usage: entrypoint "+name+strings.Repeat(" NAME", want), " ")))
	}
	if err := control(args); err != nil {
		f := asFailure(err)
		f.text = "entrypoint " + name + ": " + f.text
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
	if writeStdout(json) != 0 {
		return ownFailure("writing to stdout failed")
	}
	return nil
}

// controlStarted is for a probe: what it prints would be in the pod's events. Where
// there is no supervisor, the command has taken its place.
func controlStarted(args []string) int {
	if len(args) > 0 {
		return printFailure(ownFailure("usage: entrypoint started"))
	}
	if readProcLink("self", "exe") == "" || readProcLink("self", "ns/mnt") == "" || !slices.Contains(processIDs(), os.Getpid()) {
		return 1 // nothing can be seen
	}
	pid, err := findSupervisor()
	if err == nil && !hasStarted(pid) {
		return 1
	}
	return 0
}

// hasStarted reports whether a supervisor has started its command, be it running still
// or not, and its startupProbe has succeeded, if it tries one.
func hasStarted(pid int) bool {
	if json := publishedStatus(pid); json != "" {
		return strings.Contains(json, `"started":"`) && !strings.Contains(json, `"startupProbe":"`+startupPending) && !strings.Contains(json, `"startupProbe":"`+startupFailed)
	}
	return commandOf(pid) != 0
}

// controlSignal sends a signal to the supervisor, which passes it on, or to the
// command itself where that can't be.
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
	if !isForwarded(sig) {
		if target = commandOf(pid); target == 0 {
			return ownFailure("sending " + signalName(sig) + ": no command runs")
		}
	}
	if err := syscall.Kill(target, sig); err != nil {
		return ownFailure("sending " + signalName(sig) + " to process " + strconv.Itoa(target) + ": " + err.Error())
	}
	return nil
}

func controlContinue([]string) error {
	pid, err := findSupervisor()
	if err != nil {
		return err
	}
	if !mayBePaused(pid) {
		return ownFailure(`it isn't paused: "entrypoint status" says what it does`)
	}
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		return ownFailure("sending SIGCONT to process " + strconv.Itoa(pid) + ": " + err.Error())
	}
	return nil
}

// mayBePaused reports whether a supervisor is paused. Where it may not publish its
// status (memfd_create refused), that it has a pause and no command is what can be
// seen; SIGCONT does nothing to one that waits.
func mayBePaused(pid int) bool {
	if json := publishedStatus(pid); json != "" {
		return strings.Contains(json, `"phase":"`+string(phasePaused)+`"`)
	}
	args := strings.Split(readProc(pid, "cmdline"), "\x00")
	opts, err := parse(args[min(1, len(args)):])
	return err == nil && opts.pause != nil && commandOf(pid) == 0
}

// findSupervisor returns the process that executes the same file as we do in
// the same container, which is to say, with the same mounts. If the command uses
// an entrypoint itself, the oldest is the container's.
func findSupervisor() (int, error) {
	executable, mounts := readProcLink("self", "exe"), readProcLink("self", "ns/mnt")
	if executable == "" || mounts == "" {
		return 0, ownFailure("looking for the entrypoint: /proc says nothing: mount it")
	}
	oldest, since := 0, uint64(0)
	for _, pid := range processIDs() {
		name := strconv.Itoa(pid)
		if pid == os.Getpid() || readProcLink(name, "exe") != executable || readProcLink(name, "ns/mnt") != mounts || isControl(pid) {
			continue
		}
		if start := readStat(pid).start; oldest == 0 || start < since {
			oldest, since = pid, start
		}
	}
	if oldest == 0 {
		return 0, ownFailure("looking for the entrypoint: none runs in this container as this user: with mode exec, the command has taken its place")
	}
	return oldest, nil
}

// isControl reports whether a process does what we do.
func isControl(pid int) bool {
	args := strings.Split(readProc(pid, "cmdline"), "\x00")
	return len(args) > 1 && controlCommand(args[1]) != nil
}

// publishedBy is the status that a process has published in its memory, "" if
// it hasn't.
func publishedStatus(pid int) string {
	dir := strconv.Itoa(pid) + "/fd"
	for fd := range 64 { // it is opened first of all
		name := dir + "/" + strconv.Itoa(fd)
		if !strings.HasPrefix(readProcLink(name, ""), "/memfd:"+memoryName) {
			continue
		}
		// An empty one is to take the place of another.
		if data, _ := readFile("/proc/"+name, maxStatus); len(data) > 0 {
			return string(data)
		}
	}
	return ""
}

// observe is the status of a process that has published none, as far as it
// can be seen from outside.
func statusFromProc(pid int) *status {
	command := commandOf(pid)
	if command == 0 {
		return &status{phase: phaseWaiting}
	}
	return &status{phase: phaseRunning, started: readStat(command).startTime()}
}

// commandOf is the process that an entrypoint has started, 0 if there is none.
// Its other children have come to it from those that it started: it is the
// oldest that leads a group in the entrypoint's session, as a daemon doesn't.
func commandOf(supervisor int) int {
	session := readStat(supervisor).session
	oldest, since := 0, uint64(0)
	for _, pid := range childrenOf(supervisor) {
		stat := readStat(pid)
		if stat.group == pid && stat.session == session && (oldest == 0 || stat.start < since) {
			oldest, since = pid, stat.start
		}
	}
	return oldest
}

// parseSignal reads a name, with or without SIG, or a number.
func parseSignal(s string) (syscall.Signal, error) {
	name := "SIG" + strings.TrimPrefix(strings.ToUpper(s), "SIG")
	for sig := syscall.Signal(1); sig <= lastSignal; sig++ {
		if name == signalName(sig) || s == strconv.Itoa(int(sig)) {
			return sig, nil
		}
	}
	return 0, ownFailure("parsing " + strconv.Quote(s) + ": no signal: use a name such as TERM or RTMIN+3, or a number from 1 to " + strconv.Itoa(lastSignal))
}
