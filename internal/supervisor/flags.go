// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/entrypointer/entrypointer/internal/await"
	"github.com/entrypointer/entrypointer/internal/supervisor/outcome"
	"github.com/entrypointer/entrypointer/pkg/exitcodes"
)

// The values of -mode.
const (
	modeSupervise = "supervise"
	modeExec      = "exec"
)

// The values of -pause.
const (
	pauseBeforeStart  = "before-start"
	pauseAfterFailure = "after-failure"
)

// Default values, as -help prints them.
const (
	defaultHookTimeout = time.Minute
	defaultGracePeriod = 30 * time.Second
)

// options are the values of the command line.
type options struct {
	help, version bool
	mode          string
	platforms     []platformArgv // in the order of the command line
	argv          []string       // everything after --

	wait             await.Files
	waitLimit        time.Duration // 0 means no limit
	hold             time.Duration // 0 means that the command isn't started early
	waitUnlessShared string        // name of a variable
	postFile         string
	startFailureFile string

	env         environmentEdits
	hooks       [][]string // the argv of each
	hookTimeout time.Duration

	timeout       time.Duration // 0 means no limit
	timeoutResult string
	gracePeriod   time.Duration
	successes     exitcodes.Set

	statusFile         string
	terminationMessage string
	pause              []string

	orderOptions
	sidecarOptions
}

func defaults() *options {
	return &options{
		mode: modeSupervise, hookTimeout: defaultHookTimeout, gracePeriod: defaultGracePeriod,
		orderOptions: orderOptions{ready: defaultProbe, startup: defaultStartupProbe, stopOptions: stopOptions{alive: defaultAliveProbe}},
	}
}

// A flag takes a value if value names it. A flag without a value accepts "true" as one,
// because the injector writes every flag and its value as one word.
type flag struct {
	name, value string
	help        string
	// set parses value. For an invalid value, it returns a hint that says what is
	// valid.
	set func(o *options, value string) (hint string)
}

// flags are the flags that don't concern other containers. allFlags returns all flags
// but -help and -version.
var flags = []flag{
	{"mode", "supervise|exec", `With supervise, the default, the supervisor stays the parent of the command.
With exec, the command replaces the supervisor: for a command that must be
PID 1.`, setMode},
	{"platform", "OS/ARCH[/VARIANT] [-arg=WORD ...]", `Put these words before the command on this platform. May be repeated for
other platforms; it is an error if the node's platform is not among them.`, addPlatform},
	{"arg", "WORD", `A word for the preceding -platform.`, addArg},
	{
		"wait-file", "PATH", `Start the command only when this file exists. May be repeated to wait for
all of the files.`,
		addFile(await.File{}, func(o *options) *[]await.File { return &o.wait.All }),
	},
	{
		"wait-content", "PATH", `Start the command only when this file exists and is not empty. May be
repeated.`,
		addFile(await.File{Content: true}, func(o *options) *[]await.File { return &o.wait.All }),
	},
	{
		"wait-either", "PATH", `Start the command only when this file, or the file of this name with .err
appended, exists. May be repeated.`,
		addFile(await.File{OrErr: true}, func(o *options) *[]await.File { return &o.wait.All }),
	},
	{
		"wait-abort", "PATH", `End the wait once this file exists, and start the command without hooks
and pauses, so that it can report why. May be repeated.`,
		addFile(await.File{}, func(o *options) *[]await.File { return &o.wait.Abort }),
	},
	{
		"wait-abort-content", "PATH", `As -wait-abort, once this file exists and is not empty. May be repeated.`,
		addFile(await.File{Content: true}, func(o *options) *[]await.File { return &o.wait.Abort }),
	},
	{
		"wait-timeout", "DURATION", `The longest time to wait for files; unlimited by default.`,
		setDuration(func(o *options) *time.Duration { return &o.waitLimit }),
	},
	{
		"hold", "DURATION", `Start the command before the wait, and stop it (SIGSTOP) until the wait is
over. The command must poll for the same files itself, at this interval.`,
		setDuration(func(o *options) *time.Duration { return &o.hold }),
	},
	{"wait-unless-shared", "NAME", `Don't wait if other containers may see the directory that this variable
names, because the command prepares that directory before its own wait.
With -hold, wait, but don't start the command a second time.`, setUnlessShared},
	{"post-file", "PATH", `Other containers wait for this file, or for the file of this name with .err
appended. If the command fails and leaves neither, create the second.`, setPath(func(o *options) *string { return &o.postFile })},
	{
		"start-failure-file", "PATH", `As -post-file, but only if the command is not started.`,
		setPath(func(o *options) *string { return &o.startFailureFile }),
	},
	{"unset-env", "NAME", `Remove this variable from the command's environment. May be repeated.`, addUnset},
	{"env-file", "PATH", `Set the variables of this file, one NAME=VALUE per line. Empty lines and
lines that begin with # are skipped. May be repeated.`, addEnvFile},
	{"env", "NAME=VALUE", `Set a variable, after -unset-env and -env-file. May be repeated.`, addEnv},
	{
		"append-path", "DIRECTORY", `Add a directory to the end of PATH, unless PATH contains it. May be
repeated.`,
		addPath,
	},
	{"before-start", "PROGRAM [-before-start-arg=WORD ...]", `Run this program before the command, with the command's environment and
output. May be repeated. If a program fails, don't start the command, and
exit with the program's exit code.`, addHook},
	{"before-start-arg", "WORD", `An argument for the preceding -before-start.`, addHookArg},
	{
		"before-start-timeout", "DURATION", `The longest time for each -before-start, 1m by default.`,
		setDuration(func(o *options) *time.Duration { return &o.hookTimeout }),
	},
	{
		"timeout", "DURATION", `The longest time for the command to run. After it, send SIGTERM unless the
command is being stopped already, after -grace-period SIGKILL, and exit with
124.`,
		setDuration(func(o *options) *time.Duration { return &o.timeout }),
	},
	{
		"grace-period", "DURATION", `The time between the stop signal and SIGKILL, after -timeout,
-before-start-timeout and -stop-when, 30s by default.`,
		setDuration(func(o *options) *time.Duration { return &o.gracePeriod }),
	},
	{
		"timeout-result", "PATH", `After a -timeout, add it as the reason to the results of a Tekton step in
this file.`,
		setPath(func(o *options) *string { return &o.timeoutResult }),
	},
	{"success-exit-codes", "CODE[-CODE][,...]", `Exit with 0 instead of these exit codes of the command.`, setSuccesses},
	{
		"status-file", "PATH", `Keep the status in this file, as a JSON object.`,
		setPath(func(o *options) *string { return &o.statusFile }),
	},
	{"termination-message", "PATH", `Write the final status to this file, unless the command has written to it.`, setPath(func(o *options) *string { return &o.terminationMessage })},
	{"pause", "before-start|after-failure[,...]", `Pause at these places until "entrypoint continue".`, setPause},
}

const usageHead = `entrypoint, the supervisor, runs the command of a container as an init process:
it forwards signals to the command, reaps orphans, and exits with the command's
exit code.

usage: entrypoint [flags] -- command [argument...]
       entrypoint status           print the status of this container's supervisor
       entrypoint started          exit with 0 if the command has started
       entrypoint signal NAME      send a signal to the command
       entrypoint continue         end a -pause
       entrypoint copy PATH TARGET IMAGE   copy a tool out of this container's image

flags:
`

const usageTail = `  -version
        Print the version and exit.
  -help
        Print this text and exit.

Everything after the first -- is the command and its arguments.
`

// allFlags returns all flags but -help and -version, including those of the Output.
func allFlags() []flag {
	all := slices.Concat(flags, orderFlags, waitForFlags, stopFlags, endSidecarsFlags, pipeFlags, startupFlags)
	if availableOutput == nil {
		return all
	}
	for _, f := range availableOutput.Flags() {
		all = append(all, flag{f.Name, f.Value, f.Help, func(_ *options, value string) string { return f.Set(value) }})
	}
	return all
}

func usage() string {
	var b strings.Builder
	b.WriteString(usageHead)
	for _, f := range allFlags() {
		b.WriteString("  -" + strings.TrimSuffix(f.name+"="+f.value, "=") + "\n        " + strings.ReplaceAll(f.help, "\n", "\n        ") + "\n")
	}
	b.WriteString(usageTail)
	return b.String()
}

// check rejects combinations of flags that can't work together. In mode exec, that is
// everything that happens after the command's start.
func (o *options) check() error {
	if o.hold != 0 && o.waitLimit != 0 {
		return parseFailure("-hold="+o.hold.String(), "not together with -wait-timeout: an early command decides itself how long to wait")
	}
	if err := o.checkOrder(); err != nil {
		return err
	}
	if err := checkProbe(&o.startup.Probe, "startup", "startupProbe"); err != nil || o.mode != modeExec {
		return err
	}
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"hold", o.hold != 0},
		{"post-file", o.postFile != ""},
		{"timeout", o.timeout != 0},
		{"success-exit-codes", o.successes != nil},
		{"status-file", o.statusFile != ""},
		{"termination-message", o.terminationMessage != ""},
		{"logs", capturesOutput()},
		{"ready-...", o.ready.Kinds() > 0},
		{"startup-...", o.startup.Kinds() > 0},
		{"end-sidecar", len(o.endSidecars) > 0},
		{"stdin-from and -stdout-to", o.isPiped()},
		{"order-heartbeat and -order-dir", o.heartbeat && o.orderDir != ""},
		{"pause=" + pauseAfterFailure, slices.Contains(o.pause, pauseAfterFailure)},
	} {
		if f.set {
			return parseFailure("-mode="+modeExec, "not together with -"+f.name+": no supervisor is left for that once the command has replaced it")
		}
	}
	return nil
}

// command returns the argv for this platform.
func (o *options) command() ([]string, error) {
	argv := o.argv
	if len(o.platforms) > 0 {
		prefix, err := choosePlatformArgv(o.platforms, runnablePlatforms(runtime.GOARCH, machine()))
		if err != nil {
			return nil, err
		}
		argv = slices.Concat(prefix, argv)
	}
	if len(argv) == 0 {
		return nil, outcome.Own(`parsing the command line: nothing after "--": set command, or args for an image that has an ENTRYPOINT`)
	}
	return argv, nil
}
