// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package cmdline parses the supervisor's command line. Features have the flags: each
// flag sets an option of its feature.
//
// The standard library's package flag would double the program's start-up time. What adds
// a flag isn't inlined: each flag would have a copy of it.
package cmdline

import (
	"slices"
	"strconv"
	"strings"

	"github.com/entrypointer/entrypointer/internal/supervisor/outcome"
)

// A Flag takes a value if Value names it. A Flag without a value accepts "true" as one,
// because the injector writes every flag and its value as one word.
type Flag struct {
	Name, Value string
	Help        string
	// Set parses value. For an invalid value, it returns a hint that says what is
	// valid.
	Set func(value string) (hint string)
}

// Flags are the flags of a command line, in the order of -help.
type Flags []Flag

// Add adds a flag.
//
//go:noinline
func (f *Flags) Add(name, value, help string, set func(value string) (hint string)) {
	*f = append(*f, Flag{name, value, help, set})
}

// Usage returns the lines of -help about flags.
func Usage(flags []Flag) string {
	var b strings.Builder
	for _, f := range flags {
		b.WriteString("  -" + strings.TrimSuffix(f.Name+"="+f.Value, "=") + "\n        " + strings.ReplaceAll(f.Help, "\n", "\n        ") + "\n")
	}
	return b.String()
}

// Parse parses the arguments after the program's name, and returns the command: what
// follows "--". A flag is -name value or -name=value, with one dash or two. The first
// argument that is exactly -- ends the flags, even in the place of a flag's value. If
// -help or -version comes first, Parse returns that name as asked, and no command.
func Parse(args []string, flags []Flag) (command []string, asked string, err error) {
	for len(args) > 0 {
		arg := args[0]
		if arg == "--" {
			return args[1:], "", nil
		}
		if !strings.HasPrefix(arg, "-") {
			return nil, "", Failure(arg, `neither a flag nor one of status, started, signal, continue, copy and help: put "--" before a command to start, or see -help`)
		}
		name, _, hasValue := cutFlag(arg)
		if name == "help" || name == "h" || name == "version" {
			if hasValue {
				return nil, "", Failure(arg, "it takes no value")
			}
			return nil, name, nil
		}
		if args, err = set(flags, args); err != nil {
			return nil, "", err
		}
	}
	return nil, "", outcome.Own(`parsing the command line: no "--" in it: put "--" before the command`)
}

// set sets the first flag of args, and returns the arguments after the flag and its
// value.
func set(flags []Flag, args []string) (rest []string, _ error) {
	arg, rest := args[0], args[1:]
	name, value, hasValue := cutFlag(arg)
	at := slices.IndexFunc(flags, func(f Flag) bool { return f.Name == name })
	if at < 0 {
		return nil, Failure(arg, `unknown flag: see -help, and put "--" before the command`)
	}
	takes := flags[at].Value != ""
	if hasValue && !takes && value != "true" {
		return nil, Failure(arg, `its only value is "true"`)
	}
	if takes && !hasValue {
		if len(rest) == 0 || rest[0] == "--" {
			return nil, Failure(arg, "it needs a value")
		}
		value, rest = rest[0], rest[1:]
	}
	if hint := flags[at].Set(value); hint != "" {
		return nil, Failure("-"+name+"="+value, hint)
	}
	return rest, nil
}

func cutFlag(arg string) (name, value string, hasValue bool) {
	return strings.Cut(strings.TrimPrefix(strings.TrimPrefix(arg, "-"), "-"), "=")
}

// Failure is the failure of an argument.
func Failure(arg, why string) error {
	return outcome.Own("parsing " + strconv.Quote(arg) + ": " + why)
}
