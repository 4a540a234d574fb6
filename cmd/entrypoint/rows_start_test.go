// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A bare process needs a parent that starts it. In rows about how a command is found,
// and why it isn't, that parent is env(1), which behaves like execvp(3).
var startRows = []row{
	start("PATH unset", "unset PATH", "sh", ""),
	start("PATH empty", "PATH=", "tool", ""),
	start("PATH with `.`", "PATH=/nowhere:.", "tool", ""),
	start("PATH without `.`", "PATH=/nowhere", "tool", ""),
	start("PATH with a file that may not be executed before one that may", "PATH=$PWD/locked:$PWD", "tool", ""),
	start("ENOENT", "", "./none", ""),
	start("ENOENT: the interpreter", "", "./interpreter", ""),
	start("ENOTDIR", "", "./tool/x", "a path that leads through a file names nothing that exists"),
	start("EACCES", "", "./locked/tool", ""),
	start("EACCES: a directory", "", "./locked", ""),
	start("ENOEXEC: a script without `#!`", "", "./format",
		"execvp(3) runs such a file with /bin/sh, but container runtimes don't; so a pod that fails unwrapped also fails wrapped"),
	start("an empty string", "", "", ""),
	{
		name:    "E2BIG: arguments and environment of the maximum size for a bare process",
		observe: biggest,
		why:     "the supervisor's own arguments count; they take less than a thousandth of the default limit of 2 MiB",
	},
}

// start is a row about a command that may not start.
func start(name, prepare, command, why string) row {
	return row{name: "start: " + name, why: why, observe: func(t *testing.T, s subject) string {
		dir := t.TempDir()
		require.NoError(t, os.Chmod(dir, 0o755))
		require.NoError(t, os.Mkdir(dir+"/locked", 0o755))
		const script = "#!/bin/sh\necho ran\n"
		sharedFile(t, dir, "tool", script)
		sharedFile(t, dir, "interpreter", "#!/no/such/sh\n")
		sharedFile(t, dir, "format", "echo ran\n")
		require.NoError(t, os.Chmod(sharedFile(t, dir, "locked/tool", script), 0o644))
		if s.bare() {
			s.prefix = []string{"/usr/bin/env"}
		}
		words := []string{command}
		if command == "sh" {
			words = append(words, "-c", "echo ran")
		}
		got := output(t, s.prepared(prepare, words...), s.place, func(cmd *exec.Cmd) { cmd.Dir = dir })
		if got.Stdout == "ran\n" {
			require.Zero(t, got.Code)
			require.Empty(t, got.Stderr)
			return "runs"
		}
		require.Empty(t, got.Stdout)
		if got.Stderr == "" {
			return fmt.Sprintf("exit code %d, and no word", got.Code)
		}
		return fmt.Sprintf("exit code %d", got.Code)
	}}
}

// A stack of this size leaves a quarter of it for arguments and environment.
const smallStack = 1 << 20

// starts reports whether argv can be executed with n more bytes of environment, and the
// error message if not.
func starts(t *testing.T, argv []string, n int) (bool, result) {
	t.Helper()
	const each = 1000
	var env []string
	for ; n > each; n -= each {
		env = append(env, strings.Repeat("x", each-1))
	}
	env = append(env, strings.Repeat("x", max(n-1, 0)))
	argv = append([]string{"prlimit", fmt.Sprintf("--stack=%d:", smallStack)}, argv...)
	got := output(t, argv, func(cmd *exec.Cmd) { cmd.Env = env })
	return got.Code == 0, got
}

// most returns the largest number of bytes of environment with which argv can be
// executed.
func most(t *testing.T, argv []string) int {
	t.Helper()
	yes, no := 0, smallStack
	for yes+1 < no {
		n := (yes + no) / 2
		if ok, _ := starts(t, argv, n); ok {
			yes = n
		} else {
			no = n
		}
	}
	require.NotZero(t, yes)
	return yes
}

func biggest(t *testing.T, s subject) string {
	const nothing = "/bin/true"
	n := most(t, []string{nothing})
	if ok, _ := starts(t, s.argv(nothing), n); ok {
		return "starts"
	}
	// The supervisor's own arguments take a pointer each and their bytes, and the
	// kernel passes the path a second time.
	words := len(s.prefix[0])
	for _, word := range s.prefix {
		words += len(word) + 1 + 8
	}
	ok, got := starts(t, s.argv(nothing), n-words)
	require.True(t, ok, "%d bytes fewer: %s", words, got.Stderr)
	return "refused; starts if they are shorter by the supervisor's own arguments"
}

// TestArgumentsThatFitOnlyTheSupervisor has a script whose interpreter line is longer
// than the supervisor's arguments, so only the supervisor can be executed.
func TestArgumentsThatFitOnlyTheSupervisor(t *testing.T) {
	dir := t.TempDir()
	script := sharedFile(t, dir, "script", "#!/bin/sh "+strings.Repeat("/", 200)+"dev/null\n")
	ok, got := starts(t, supervised(script), 0)
	require.True(t, ok, got.Stderr)
	nothing := dir + "/binary" // as long a path
	require.NoError(t, os.Symlink("/bin/true", nothing))
	ok, got = starts(t, supervised(script), most(t, supervised(nothing)))
	require.False(t, ok)
	require.Equal(t, 126, got.Code)
	require.Contains(t, got.Stderr, fmt.Sprintf("entrypointer: starting %q: argument list too long: shorten args or the environment", script))
}
