// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"syscall"

	"github.com/entrypointer/entrypointer/internal/installer"
	"github.com/entrypointer/entrypointer/internal/supervisor/console"
	"github.com/entrypointer/entrypointer/internal/supervisor/control"
	"github.com/entrypointer/entrypointer/internal/supervisor/launch"
	"github.com/entrypointer/entrypointer/internal/supervisor/outcome"
	"github.com/entrypointer/entrypointer/internal/supervisor/output"
	"github.com/entrypointer/entrypointer/internal/supervisor/version"
)

// copyCommand is the subcommand by which an init container copies a tool.
const copyCommand = "copy"

// Main runs the program with args, the process's argv, and returns the exit code. With
// a command to run, it returns after the command has exited or could not be started. In
// mode exec, it returns only in the latter case.
func Main(args []string) int { return MainWith(nil, args) }

// MainWith is Main with an Output, whose flags decide whether it receives the command's
// output.
func MainWith(out output.Output, args []string) int {
	availableOutput = out
	args = args[min(1, len(args)):]
	if len(args) > 0 {
		if args[0] == copyCommand {
			return installer.ToolMain(args[1:])
		}
		if run := control.Command(args[0], asksForPause); run != nil {
			return run(args[1:])
		}
	}
	switch {
	case len(args) == 0:
		_, _ = syscall.Write(2, []byte(usage()))
		return outcome.CodeOwnFailure
	case args[0] == "help":
		return printed(usage())
	}
	opts, err := parse(args)
	if err != nil {
		return console.Fail(err)
	}
	switch {
	case opts.help:
		return printed(usage())
	case opts.version:
		return printed("entrypoint " + version.Of("/proc/self/exe") + " " + launch.Platform() + "\n")
	}
	argv, err := opts.command()
	s := newSupervision(opts)
	if err != nil {
		return s.failBeforeStart(err)
	}
	return s.run(argv)
}

func asksForPause(args []string) bool {
	opts, err := parse(args)
	return err == nil && opts.pause.Places != nil
}

// printed prints on stdout and returns the exit code.
func printed(text string) int {
	if !console.Stdout(text) {
		return outcome.CodeOwnFailure
	}
	return 0
}
