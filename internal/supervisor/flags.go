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
		orderOptions: orderOptions{ready: defaultProbe, startup: defaultStartupProbe},
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
	{"mode", "supervise|exec", `supervise stays as the parent of the command (the default); exec
replaces itself with it, for a command that insists on being PID 1.`, setMode},
	{"platform", "OS/ARCH[/VARIANT] [-arg=WORD ...]", `The words to put before the command where the platform is this one. May
be repeated; those for the platform that we run on are used, and it is
an error if there are none.`, addPlatform},
	{"arg", "WORD", `A word of the -platform before it.`, addArg},
	{
		"wait-file", "PATH", `Start only when this file exists. May be repeated; all are waited for.`,
		addCondition(await.Condition{}, func(o *options) *[]await.Condition { return &o.wait.All }),
	},
	{
		"wait-content", "PATH", `Start only when this file is there and not empty. May be repeated.`,
		addCondition(await.Condition{Content: true}, func(o *options) *[]await.Condition { return &o.wait.All }),
	},
	{
		"wait-either", "PATH", `Start only when this file, or the same name with .err, exists. May be
repeated.`,
		addCondition(await.Condition{OrErr: true}, func(o *options) *[]await.Condition { return &o.wait.All }),
	},
	{
		"wait-abort", "PATH", `Wait no longer once this file exists, and start the command without
hooks and pauses: it knows what to do. May be repeated.`,
		addCondition(await.Condition{}, func(o *options) *[]await.Condition { return &o.wait.Abort }),
	},
	{
		"wait-abort-content", "PATH", `The same once this file is there and not empty. May be repeated.`,
		addCondition(await.Condition{Content: true}, func(o *options) *[]await.Condition { return &o.wait.Abort }),
	},
	{
		"wait-timeout", "DURATION", `Wait no longer than that. By default there is no limit.`,
		setDuration(func(o *options) *time.Duration { return &o.waitLimit }),
	},
	{
		"hold", "DURATION", `While it waits, have the command started, but stopped: for one that waits
for the same files itself, and looks for them once in that time.`,
		setDuration(func(o *options) *time.Duration { return &o.hold }),
	},
	{"wait-unless-shared", "NAME", `Don't wait if other containers may see the directory that this variable
names: the command does something there before it waits itself. With
-hold, wait, but don't have it do that twice.`, setUnlessShared},
	{"post-file", "PATH", `If the command fails and leaves neither this file nor the same name with
.err, which other containers wait for, create the latter.`, setPath(func(o *options) *string { return &o.postFile })},
	{
		"start-failure-file", "PATH", `The same, but only if the command isn't started.`,
		setPath(func(o *options) *string { return &o.startFailureFile }),
	},
	{"unset-env", "NAME", `Start the command without this variable. May be repeated.`, addUnset},
	{"env-file", "PATH", `Set the variables that this file has, one NAME=VALUE a line; lines that
are empty or begin with # are skipped. May be repeated.`, addEnvFile},
	{"env", "NAME=VALUE", `Set a variable, after -unset-env and -env-file. May be repeated.`, addEnv},
	{
		"append-path", "DIRECTORY", `Add a directory to the end of PATH, unless it is in it. May be repeated.`,
		addPath,
	},
	{"before-start", "PROGRAM [-before-start-arg=WORD ...]", `Run this before the command, with its environment and output. May be
repeated; the first that fails is the end of it, with its exit code.`, addHook},
	{"before-start-arg", "WORD", `An argument of the -before-start before it.`, addHookArg},
	{
		"before-start-timeout", "DURATION", `The longest time for each of them, 1m by default.`,
		setDuration(func(o *options) *time.Duration { return &o.hookTimeout }),
	},
	{
		"timeout", "DURATION", `The longest time for the command to run: then it gets SIGTERM, after
-grace-period SIGKILL, and the exit code is 124.`,
		setDuration(func(o *options) *time.Duration { return &o.timeout }),
	},
	{
		"grace-period", "DURATION", `The time between the two signals, 30s by default.`,
		setDuration(func(o *options) *time.Duration { return &o.gracePeriod }),
	},
	{
		"timeout-result", "PATH", `If that time is up, add it to the results of a Tekton step in this file.`,
		setPath(func(o *options) *string { return &o.timeoutResult }),
	},
	{"success-exit-codes", "CODE[-CODE][,...]", `Exit codes of the command that count as success: exit with 0 instead.`, setSuccesses},
	{
		"status-file", "PATH", `Keep a JSON object there that says what became of the command.`,
		setPath(func(o *options) *string { return &o.statusFile }),
	},
	{"termination-message", "PATH", `Write that object to this file at the end, if nobody else has written
to it.`, setPath(func(o *options) *string { return &o.terminationMessage })},
	{"pause", "before-start|after-failure[,...]", `Stop there until released by "entrypoint continue".`, setPause},
}

const usageHead = `entrypoint runs a command as a container's init process would: it forwards
signals to it, reaps orphans, and exits as it exited.

usage: entrypoint [flags] -- command [argument...]
       entrypoint status           what the entrypoint of this container does
       entrypoint started          exit with 0 if the command has been started
       entrypoint signal NAME      send a signal to the command that it runs
       entrypoint continue         release it from a -pause
       entrypoint copy PATH TARGET IMAGE   copy a tool out of the image that this runs in

flags:
`

const usageTail = `  -version
        Print the version and exit.
  -help
        Print this text and exit.

All that follows the first -- is the command's, to the letter.
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
		return parseFailure("-hold="+o.hold.String(), "not together with -wait-timeout: one who is held waits as long as the command does")
	}
	if err := o.checkOrder(); err != nil {
		return err
	}
	if err := o.checkStartup(); err != nil || o.mode != modeExec {
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
			return parseFailure("-mode="+modeExec, "not together with -"+f.name+": nobody is left to do that once the command has replaced us")
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
		return nil, ownFailure(`parsing the command line: nothing after "--": set command, or args for an image that has an ENTRYPOINT`)
	}
	return argv, nil
}
