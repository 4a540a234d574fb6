// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package launch finds and starts a command as the container runtime would.
package launch

import (
	"math"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/entrypointer/entrypointer/internal/proc"
	"github.com/entrypointer/entrypointer/internal/supervisor/outcome"
	"github.com/entrypointer/entrypointer/internal/supervisor/terminal"
)

// defaultPath is the search path if the environment has no PATH. containerd and Docker
// set the same value in a container without one.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Start runs argv as a child with files as its first descriptors, and returns the
// process ID. Other descriptors are inherited by the kernel's rules: those of the Go
// runtime and of this package are close-on-exec. ForkExec also restores the limit of
// open files and the signal mask, which the Go runtime changes.
func Start(argv, env []string, files []uintptr, attr *syscall.SysProcAttr) (pid int, err error) {
	err = InPath(argv[0], env, func(path string) error {
		pid, err = syscall.ForkExec(path, argv, &syscall.ProcAttr{
			Env:   env,
			Files: files,
			Sys:   attr,
		})
		if err != nil {
			// The child has moved its process group to the foreground before its exec
			// failed. Only the foreground group can start another one there.
			terminal.TakeBack(attr)
		}
		return err
	})
	return pid, err
}

// Environ returns the environment byte for byte. os.Environ and syscall.Environ drop
// duplicates and empty strings, which a program may look for.
func Environ() []string {
	block, err := proc.ReadFile("/proc/self/environ", math.MaxInt)
	if err != nil {
		return syscall.Environ() // without /proc, the next best source
	}
	if len(block) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(block), "\x00"), "\x00")
}

// InPath calls exec with each path that execvp(3) would try for name, until exec
// succeeds. A name with a slash is a path. Any other name is looked up in the
// directories of PATH, where an empty one means the working directory. Unlike execvp,
// but like container runtimes, InPath doesn't run a file of unknown format with
// /bin/sh.
func InPath(name string, env []string, exec func(path string) error) error {
	if strings.Contains(name, "/") || name == "" {
		return explainExecError(name, name, exec(name))
	}
	list := searchPath(env)
	// As in execvp, a file that may not be executed is skipped. Its error is more
	// helpful than "not found", so it is kept.
	found, result := "", error(syscall.ENOENT)
	for rest, more := list, true; more; {
		var dir string
		dir, rest, more = strings.Cut(rest, ":")
		path := name
		if dir != "" {
			path = dir + "/" + name
		}
		// faccessat(2) is cheaper than a fork that fails.
		err := unix.Faccessat(unix.AT_FDCWD, path, unix.X_OK, unix.AT_EACCESS)
		if err == nil {
			err = exec(path)
		}
		if err == nil {
			return nil
		}
		if !isSkippable(err) {
			return explainExecError(name, path, err)
		}
		if exists(path) && (found == "" || err == syscall.EACCES) {
			found, result = path, err
		}
	}
	if found != "" {
		return explainExecError(name, found, result)
	}
	return outcome.Start(outcome.CodeNotFound, "starting "+strconv.Quote(name)+": executable not found in PATH "+strconv.Quote(list)+
		": set command to a path that exists in the image, or PATH to a list of directories that has it")
}

// searchPath returns the value of PATH. If PATH is set several times, the first value
// counts, as in getenv(3).
func searchPath(env []string) string {
	if path, set := Getenv(env, "PATH"); set {
		return path
	}
	return defaultPath
}

// Getenv returns the value of a variable.
func Getenv(env []string, name string) (value string, set bool) {
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			return v, true
		}
	}
	return "", false
}

// isSkippable reports whether execvp(3) continues with the next directory after err.
func isSkippable(err error) bool {
	switch err {
	case syscall.EACCES, syscall.ENOENT, syscall.ENOTDIR, syscall.ESTALE, syscall.ENODEV, syscall.ETIMEDOUT:
		return true
	}
	return false
}

func exists(path string) bool {
	var st unix.Stat_t
	return unix.Stat(path, &st) == nil
}

// explainExecError returns a failure that says why path, found for name, was not
// executed, or nil if it was.
func explainExecError(name, path string, err error) error {
	if _, other := err.(*outcome.Failure); err == nil || other { //nolint:errorlint // exec has already explained it
		return err
	}
	what := "starting " + strconv.Quote(name)
	if path != name {
		what += " (" + strconv.Quote(path) + ")"
	}
	what += ": "
	switch {
	case name == "":
		return outcome.Start(outcome.CodeNotFound, what+"the command is an empty string: set command to a path that exists in the image")
	case err == syscall.ENOENT && exists(path):
		return outcome.Start(outcome.CodeNotFound, what+missingInterpreter(path))
	case err == syscall.ENOENT, err == syscall.ENOTDIR:
		return outcome.Start(outcome.CodeNotFound, what+err.Error()+": set command to a path that exists in the image")
	case err == syscall.EACCES && isDirectory(path):
		return outcome.Start(outcome.CodeNotExecutable, what+"is a directory: set command to a file in it")
	case err == syscall.EACCES, err == syscall.EPERM:
		return outcome.Start(outcome.CodeNotExecutable, what+err.Error()+": make the file executable for the container's user, and its volume mounted without noexec")
	case err == syscall.ENOEXEC:
		return outcome.Start(outcome.CodeNotExecutable, what+err.Error()+": build it for "+Platform()+", or start a script with a line like #!/bin/sh")
	case err == syscall.E2BIG:
		return outcome.Start(outcome.CodeNotExecutable, what+err.Error()+": shorten args or the environment (enableServiceLinks: false drops the services' variables)")
	case err == syscall.EAGAIN, err == syscall.ENOMEM, err == syscall.EMFILE, err == syscall.ENFILE:
		return outcome.Own(what + err.Error() + ": raise the container's limits of memory, processes (pids) or open files")
	default:
		return outcome.Start(outcome.CodeNotExecutable, what+err.Error()+": set command to a file that this node can execute")
	}
}

func isDirectory(path string) bool {
	var st unix.Stat_t
	return unix.Stat(path, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR
}

// missingInterpreter explains ENOENT for a file that exists.
func missingInterpreter(path string) string {
	const hint = ": add it to the image, or set command to a program that is there"
	head, err := proc.ReadHead(path, 256) // the kernel reads as many bytes (binfmt_script)
	if err != nil || !strings.HasPrefix(string(head), "#!") {
		return "the file exists, but its dynamic loader does not" + hint
	}
	line, _, _ := strings.Cut(string(head[2:]), "\n")
	interpreter, _, _ := strings.Cut(strings.Trim(line, " \t"), " ")
	if strings.HasSuffix(interpreter, "\r") {
		return "its interpreter " + strconv.Quote(interpreter) + " does not exist: save the script with Unix line ends (LF, not CR LF)"
	}
	return "its interpreter " + strconv.Quote(interpreter) + " does not exist" + hint
}
