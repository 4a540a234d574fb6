// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"runtime"
	"slices"
	"strconv"
	"strings"
)

const usage = `entrypoint runs a command as a container's init process would: it forwards
signals to it, reaps orphans, and exits as it exited.

usage: entrypoint [flags] -- command [argument...]

flags:
  -mode supervise|exec
        supervise stays as the parent of the command (the default); exec
        replaces itself with it, for a command that insists on being PID 1.
  -platform=os/arch[/variant] [-arg=WORD ...]
        The words to put before the command where the platform is this one. May
        be repeated; those for the platform that we run on are used, and it is
        an error if there are none.
  -version
        Print the version and exit.
  -help
        Print this text and exit.

All that follows the first -- is the command's, to the letter.
`

// The values of -mode.
const (
	modeSupervise = "supervise"
	modeExec      = "exec"
)

// options is what the command line says.
type options struct {
	help, version bool
	mode          string
	platforms     []platformArgv // in the order given
	argv          []string       // what follows --
}

// parse reads the arguments after the program's name. A flag is -name value or
// -name=value, with one dash or two, as with the standard library's package
// flag (which would double the program's start-up time). The first argument
// that is exactly -- ends the flags, also where a flag's value is due.
func parse(args []string) (*options, error) {
	opts := &options{mode: modeSupervise}
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "--" {
			opts.argv = args[i+1:]
			return opts, nil
		}
		name, value, hasValue := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(arg, "-"), "-"), "=")
		switch {
		case !strings.HasPrefix(arg, "-"):
			return nil, parseFailure(arg, `not a flag: put "--" before the command`)
		case name == "help" || name == "h" || name == "version":
			if hasValue {
				return nil, parseFailure(arg, "it takes no value")
			}
			return &options{help: name != "version", version: name == "version"}, nil
		case name != "mode" && name != "platform" && name != "arg":
			return nil, parseFailure(arg, `unknown flag: see -help, and put "--" before the command`)
		case !hasValue:
			if i++; i == len(args) || args[i] == "--" {
				return nil, parseFailure(arg, "it needs a value")
			}
			value = args[i]
		}
		if err := opts.set(name, value); err != nil {
			return nil, err
		}
	}
	return nil, ownFailure(`parsing the command line: no "--" in it: put "--" before the command`)
}

func (o *options) set(name, value string) error {
	switch name {
	case "mode":
		if value != modeSupervise && value != modeExec {
			return parseFailure("-mode="+value, "unknown mode: use "+modeSupervise+" or "+modeExec)
		}
		o.mode = value
	case "platform":
		if parts := strings.Split(value, "/"); len(parts) < 2 || len(parts) > 3 || slices.Contains(parts, "") {
			return parseFailure("-platform="+value, "no platform: use os/arch or os/arch/variant")
		}
		o.platforms = append(o.platforms, platformArgv{platform: normalize(value)})
	case "arg":
		if len(o.platforms) == 0 {
			return parseFailure("-arg="+value, "it belongs to no platform: put -platform before it")
		}
		last := &o.platforms[len(o.platforms)-1]
		last.argv = append(last.argv, value)
	}
	return nil
}

// command is the argv to run on this platform.
func (o *options) command() ([]string, error) {
	argv := o.argv
	if len(o.platforms) > 0 {
		prefix, err := choose(o.platforms, candidates(runtime.GOARCH, machine()))
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

func parseFailure(arg, why string) error {
	return ownFailure("parsing " + strconv.Quote(arg) + ": " + why)
}
