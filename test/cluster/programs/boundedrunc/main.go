// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// The boundedrunc program is runc on a machine whose root lacks a capability, as in a
// virtual machine or a container that is itself confined. There, runc refuses every
// privileged container: "unable to apply caps: operation not permitted". boundedrunc
// removes the capabilities that it doesn't have itself from the specification that it
// is given, and becomes runc.
//
// Docker and containerd take it for an OCI runtime: runc's commands and flags are its
// own. create, run and restore read config.json in the directory of --bundle; exec
// reads the file of --process.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	capabilities "github.com/containerd/containerd/v2/pkg/cap"
	"golang.org/x/sys/unix"
)

// runc is where Debian's package puts it.
const runc = "/usr/sbin/runc"

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "boundedrunc: %v\n", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if file, fields := specification(args); file != "" {
		available, err := capabilities.Current()
		if err != nil {
			return fmt.Errorf("reading the capabilities of this process: %w", err)
		}
		if err := bound(file, fields, available); err != nil {
			return fmt.Errorf("removing capabilities from %q: %w", file, err)
		}
	}
	if err := unix.Exec(runc, append([]string{"runc"}, args...), os.Environ()); err != nil {
		return fmt.Errorf("running %q: %w; install runc", runc, err)
	}
	return nil
}

// specification returns the file that a command line of runc has read, and the fields
// that lead to the process in it. The file is "" if the command reads none.
func specification(args []string) (file string, fields []string) {
	at := slices.IndexFunc(args, func(arg string) bool {
		return slices.Contains([]string{"create", "run", "restore", "exec"}, arg)
	})
	switch {
	case at < 0:
		return "", nil
	case args[at] == "exec":
		return value(args[at+1:], "process", "p"), nil
	default:
		return filepath.Join(value(args[at+1:], "bundle", "b"), "config.json"), []string{"process"}
	}
}

// value is that of a flag, which has one or two hyphens, and its value in the same
// argument or in the next; "" if the flag isn't there.
func value(args []string, names ...string) string {
	for at, arg := range args {
		name, value, together := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		switch {
		case !strings.HasPrefix(arg, "-") || !slices.Contains(names, name):
		case together:
			return value
		case at+1 < len(args):
			return args[at+1]
		}
	}
	return ""
}

// bound leaves the available ones of a process' capabilities in a JSON file, whose
// other fields stay.
func bound(file string, fields, available []string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber() // limits have 64 bits
	var document map[string]any
	if err := decoder.Decode(&document); err != nil {
		return err
	}
	process := document
	for _, field := range fields {
		process, _ = process[field].(map[string]any)
	}
	sets, _ := process["capabilities"].(map[string]any)
	for name, set := range sets {
		list, _ := set.([]any)
		sets[name] = slices.DeleteFunc(list, func(capability any) bool {
			text, _ := capability.(string)
			return !slices.Contains(available, text)
		})
	}
	if text, err = json.Marshal(document); err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o600)
}
