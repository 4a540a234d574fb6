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
	"cmp"
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
	_, rest := flags(args)
	if len(rest) == 0 {
		return "", nil
	}
	values, _ := flags(rest[1:])
	switch rest[0] {
	case "create", "run", "restore":
		return filepath.Join(cmp.Or(values["bundle"], values["b"]), "config.json"), []string{"process"}
	case "exec":
		return cmp.Or(values["process"], values["p"]), nil
	default:
		return "", nil
	}
}

// booleans are runc's flags that have no value, of those that come before a command and
// of the commands that read a specification.
var booleans = []string{
	"debug", "systemd-cgroup", "help", "h", "version", "v",
	"no-pivot", "no-new-keyring", "no-subreaper", "detach", "d", "keep", "tty", "t", "no-new-privs", "ignore-paused",
	"tcp-established", "ext-unix-sk", "shell-job", "file-locks", "auto-dedup", "lazy-pages",
}

// flags reads the flags at the beginning of arguments, by their names, and returns what
// comes behind them. A flag has one or two hyphens, and its value in the same argument
// or in the next.
func flags(args []string) (values map[string]string, rest []string) {
	values = map[string]string{}
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		name, value, together := strings.Cut(strings.TrimLeft(args[0], "-"), "=")
		args = args[1:]
		switch {
		case name == "": // "--"
			return values, args
		case together || slices.Contains(booleans, name):
			values[name] = value
		case len(args) > 0:
			values[name], args = args[0], args[1:]
		}
	}
	return values, args
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
