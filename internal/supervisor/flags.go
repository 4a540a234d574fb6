// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"github.com/entrypointer/entrypointer/internal/supervisor/cmdline"
	"github.com/entrypointer/entrypointer/internal/supervisor/outcome"
	"github.com/entrypointer/entrypointer/pkg/exitcodes"
)

// flags returns all flags but -help and -version, in the order of -help.
func (o *options) flags() (f cmdline.Flags) {
	f = make(cmdline.Flags, 0, 80)
	f.Add("mode", "supervise|exec", `With supervise, the default, the supervisor stays the parent of the command.
With exec, the command replaces the supervisor: for a command that must be
PID 1.`, o.setMode)
	o.platforms.Flags(&f)
	o.handoff.Flags(&f)
	o.tekton.PostFlags(&f)
	o.env.Flags(&f)
	o.hooks.Flags(&f)
	o.timeout.Flags(&f)
	o.ending.Flags(&f)
	o.tekton.ResultFlags(&f)
	f.Add("success-exit-codes", "CODE[-CODE][,...]", `Exit with 0 instead of these exit codes of the command.`, o.setSuccesses)
	o.report.Flags(&f)
	o.pause.Flags(&f)
	o.startOrder.Flags(&f)
	o.presence.Flags(&f)
	o.startOrder.TargetFlags(&f)
	o.stopOrder.Flags(&f)
	o.stopWhen.Flags(&f)
	o.stopOrder.AliveFlags(&f)
	o.sidecars.Flags(&f)
	o.pipe.Flags(&f)
	o.startup.Flags(&f)
	if availableOutput != nil {
		f = append(f, availableOutput.Flags()...)
	}
	return f
}

func (o *options) setMode(value string) string {
	if value != modeSupervise && value != modeExec {
		return "unknown mode: use " + modeSupervise + " or " + modeExec
	}
	o.mode = value
	return ""
}

func (o *options) setSuccesses(value string) string {
	codes, ok := exitcodes.Parse(value)
	if !ok {
		return "use " + exitcodes.Syntax
	}
	o.successes = codes
	return ""
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

func usage() string { return usageHead + cmdline.Usage(defaults().flags()) + usageTail }

// parse parses the arguments after the program's name.
func parse(args []string) (*options, error) {
	opts := defaults()
	command, asked, err := cmdline.Parse(args, opts.flags())
	switch {
	case err != nil:
		return nil, err
	case asked != "":
		return &options{help: asked != "version", version: asked == "version"}, nil
	}
	opts.argv = command
	if err := opts.check(); err != nil {
		return nil, err
	}
	return opts, nil
}

// command returns the argv for this platform.
func (o *options) command() ([]string, error) {
	argv, err := o.platforms.Argv(o.argv)
	if err == nil && len(argv) == 0 {
		err = outcome.Own(`parsing the command line: nothing after "--": set command, or args for an image that has an ENTRYPOINT`)
	}
	return argv, err
}
