// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"github.com/entrypointer/entrypointer/internal/supervisor/cmdline"
	"github.com/entrypointer/entrypointer/internal/supervisor/outcome"
)

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
