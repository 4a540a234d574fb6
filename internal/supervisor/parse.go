// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"slices"
	"strconv"
	"strings"

	"github.com/entrypointer/entrypointer/internal/supervisor/outcome"
)

// parse parses the arguments after the program's name. A flag is -name value or
// -name=value, with one dash or two, as in the standard library's package flag, which
// would double the program's start-up time. The first argument that is exactly -- ends
// the flags, even in the place of a flag's value.
func parse(args []string) (*options, error) {
	opts, flags := defaults(), allFlags()
	for len(args) > 0 {
		arg := args[0]
		if arg == "--" {
			opts.argv = args[1:]
			if err := opts.check(); err != nil {
				return nil, err
			}
			return opts, nil
		}
		if !strings.HasPrefix(arg, "-") {
			return nil, parseFailure(arg, `neither a flag nor one of status, started, signal, continue, copy and help: put "--" before a command to start, or see -help`)
		}
		name, _, hasValue := cutFlag(arg)
		if name == "help" || name == "h" || name == "version" {
			if hasValue {
				return nil, parseFailure(arg, "it takes no value")
			}
			return &options{help: name != "version", version: name == "version"}, nil
		}
		rest, err := opts.set(flags, args)
		if err != nil {
			return nil, err
		}
		args = rest
	}
	return nil, outcome.Own(`parsing the command line: no "--" in it: put "--" before the command`)
}

// set sets the first flag of args, and returns the arguments after the flag and its
// value.
func (o *options) set(flags []flag, args []string) (rest []string, _ error) {
	arg, rest := args[0], args[1:]
	name, value, hasValue := cutFlag(arg)
	at := slices.IndexFunc(flags, func(f flag) bool { return f.name == name })
	if at < 0 {
		return nil, parseFailure(arg, `unknown flag: see -help, and put "--" before the command`)
	}
	takes := flags[at].value != ""
	if hasValue && !takes && value != "true" {
		return nil, parseFailure(arg, `its only value is "true"`)
	}
	if takes && !hasValue {
		if len(rest) == 0 || rest[0] == "--" {
			return nil, parseFailure(arg, "it needs a value")
		}
		value, rest = rest[0], rest[1:]
	}
	if hint := flags[at].set(o, value); hint != "" {
		return nil, parseFailure("-"+name+"="+value, hint)
	}
	return rest, nil
}

func cutFlag(arg string) (name, value string, hasValue bool) {
	return strings.Cut(strings.TrimPrefix(strings.TrimPrefix(arg, "-"), "-"), "=")
}

func parseFailure(arg, why string) error {
	return outcome.Own("parsing " + strconv.Quote(arg) + ": " + why)
}
