// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"math"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// defaultPath is searched when the environment has no PATH. It is what
// containerd and Docker put into a container that has none.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// start runs argv as a child, with these descriptors as its first, and returns
// its process ID. Those from 3 on need no mention: the kernel hands on what is not
// close-on-exec, and all that the Go runtime and this package open is. ForkExec also undoes what the runtime has done to the process:
// the raised limit of open files, and the signal mask.
func start(argv, env []string, files []uintptr, attr *syscall.SysProcAttr) (pid int, err error) {
	err = execInPath(argv[0], env, func(path string) error {
		pid, err = syscall.ForkExec(path, argv, &syscall.ProcAttr{
			Env:   env,
			Files: files,
			Sys:   attr,
		})
		if err != nil && attr.Foreground {
			// The child has brought its group to the front before it failed, and no
			// other child of ours could do that from behind.
			terminal{fd: attr.Ctty, found: true}.setForeground(unix.Getpgrp())
		}
		return err
	})
	return pid, err
}

// replace makes this process the command, and returns only if it can't.
func (s *supervision) replace(argv, env []string) error {
	return execInPath(argv[0], env, func(path string) error {
		if pendingEndSignal() == 0 {
			s.bequeathLock()
		}
		releaseSignals()
		// What has come is the command's, but an end is an end.
		if sig := pendingEndSignal(); sig != 0 {
			return stoppedBy(sig, "its start")
		}
		forwardTo(os.Getpid())
		return syscall.Exec(path, argv, env)
	})
}

// environ is the environment byte for byte: os.Environ and syscall.Environ
// drop duplicates and empty strings, and a program may look for either.
func environ() []string {
	block, err := readFile("/proc/self/environ", math.MaxInt)
	if err != nil {
		return syscall.Environ() // no /proc: the next best
	}
	if len(block) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(block), "\x00"), "\x00")
}

// search calls exec with each path that execvp(3) would try for name, until
// one is executed. A name with a slash is a path; any other is looked for in
// the directories of PATH, of which an empty one is the working directory.
// Unlike execvp, but like container runtimes, it doesn't hand a file of unknown
// format to /bin/sh.
func execInPath(name string, env []string, exec func(path string) error) error {
	if strings.Contains(name, "/") || name == "" {
		return explainExecError(name, name, exec(name))
	}
	list := searchPath(env)
	// As execvp: a file that may not be executed is skipped, and remembered
	// as a better answer than "not found".
	found, result := "", error(syscall.ENOENT)
	for rest, more := list, true; more; {
		var dir string
		dir, rest, more = strings.Cut(rest, ":")
		path := name
		if dir != "" {
			path = dir + "/" + name
		}
		// Asking first is cheaper than forking in vain.
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
	return newStartFailure(exitNotFound, "starting "+strconv.Quote(name)+": executable not found in PATH "+strconv.Quote(list)+
		": set command to a path that exists in the image, or PATH to a list of directories that has it")
}

// searchPath is the value of PATH, of the first one if there are several, as
// getenv(3) has it.
func searchPath(env []string) string {
	if path, set := getenv(env, "PATH"); set {
		return path
	}
	return defaultPath
}

// lookup is the value of a variable.
func getenv(env []string, name string) (value string, set bool) {
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			return v, true
		}
	}
	return "", false
}

// skipped reports whether execvp(3) goes on to the next directory after err.
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

// startFailure says why path, which name was resolved to, was not executed;
// nil if it was.
func explainExecError(name, path string, err error) error {
	if _, other := err.(*failure); err == nil || other { //nolint:errorlint // it comes from here
		return err
	}
	what := "starting " + strconv.Quote(name)
	if path != name {
		what += " (" + strconv.Quote(path) + ")"
	}
	what += ": "
	switch {
	case name == "":
		return newStartFailure(exitNotFound, what+"the command is an empty string: set command to a path that exists in the image")
	case err == syscall.ENOENT && exists(path):
		return newStartFailure(exitNotFound, what+missingInterpreter(path))
	case err == syscall.ENOENT, err == syscall.ENOTDIR:
		return newStartFailure(exitNotFound, what+err.Error()+": set command to a path that exists in the image")
	case err == syscall.EACCES && isDirectory(path):
		return newStartFailure(exitNotExecutable, what+"is a directory: set command to a file in it")
	case err == syscall.EACCES, err == syscall.EPERM:
		return newStartFailure(exitNotExecutable, what+err.Error()+": make the file executable for the container's user, and its volume mounted without noexec")
	case err == syscall.ENOEXEC:
		return newStartFailure(exitNotExecutable, what+err.Error()+": build it for "+platform()+", or start a script with a line like #!/bin/sh")
	case err == syscall.E2BIG:
		return newStartFailure(exitNotExecutable, what+err.Error()+": shorten args or the environment (enableServiceLinks: false drops the services' variables)")
	case err == syscall.EAGAIN, err == syscall.ENOMEM, err == syscall.EMFILE, err == syscall.ENFILE:
		return ownFailure(what + err.Error() + ": raise the container's limits of memory, processes (pids) or open files")
	default:
		return newStartFailure(exitNotExecutable, what+err.Error()+": set command to a file that this node can execute")
	}
}

func isDirectory(path string) bool {
	var st unix.Stat_t
	return unix.Stat(path, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR
}

// missingInterpreter explains ENOENT for a file that exists.
func missingInterpreter(path string) string {
	const hint = ": add it to the image, or set command to a program that is there"
	head, err := readHead(path, 256) // what the kernel reads, binfmt_script
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
