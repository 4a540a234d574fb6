// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package supervisor is the process between a container runtime and the command of a
// container.
//
// The kernel treats the first process of a PID namespace specially: it inherits every
// orphan, it ignores signals that it does not handle, and its end is the end of the
// namespace. A program that was not written for this role leaks zombies and ignores
// SIGTERM. So the supervisor takes this role, starts the command as its child, and does
// three things:
//
//   - it forwards each signal that it receives (package signals);
//   - it reaps every child, so that no zombie is left (package life);
//   - when the command has ended, it exits with the command's exit code (package outcome).
//
// run.go and command.go have the sequence of one run. It waits in one place for
// everything (life.Until).
//
// The command must not notice the supervisor: it has the argv, environment,
// descriptors, limits, signal mask and terminal that it would have without one
// (packages launch and terminal).
//
// All other features are off until a flag enables them:
//
//   - publish this container's phase (package presence), wait for other containers
//     (package startorder), or connect the command to them by pipes (package pipe);
//   - wait for files before the start (package handoff);
//   - edit the environment (package launch), give the command a span of a trace (package
//     trace), run hooks (package hooks), pause (package pause);
//   - hold back the stop signal until dependents have ended (package stoporder);
//   - end a command that takes too long (package timeout), that is not needed any more
//     (package stopwhen), or whose startupProbe fails (package startup); package ending has
//     the signals and the verdict of each of these ends;
//   - count exit codes as success;
//   - report how the command ended (packages report, output and tekton), also to "kubectl
//     exec" (package control);
//   - ask sidecars to shut down (package sidecars).
//
// They happen in this order:
//
//	other containers -> wait -> environment -> hooks -> pause -> command -> post file -> pause -> status -> sidecars
//
// A command that waits for its turn itself, as Tekton's entrypoint does, may be started
// before the wait and stopped until its turn (package handoff), if no other step comes
// between. After hooks and pauses, other containers are looked at once more.
//
// # Exit codes
//
//   - the command's own exit code, or 128+n if signal n killed it;
//   - 0 instead of a code in -success-exit-codes;
//   - 0 if -stop-when ended the command or prevented its start;
//   - the exit code of a before-start hook that failed;
//   - 123 if a container that this one waits for has failed for good;
//   - 124 if the command or a hook took too long, whatever its own exit code was, or if
//     the wait for other containers did;
//   - 127 if the command, or its interpreter, does not exist;
//   - 126 if the command exists, but can't be executed: permission denied, a directory,
//     a format that the kernel doesn't know, arguments too long;
//   - 125 if the supervisor itself failed: invalid flags, no command, no argv for this
//     platform, no memory or process available.
//
// These codes are those of xargs(1), env(1), nohup(1) and timeout(1). Without a
// supervisor, the container runtime fails to create the container for the reasons of
// 126 and 127, and the kubelet shows StartError and exit code 128. So a broken pod
// stays broken, with another code and a line in its log. For 123 to 127, the supervisor
// prints one line on stderr. The line starts with "entrypointer: " and says what was
// attempted, with what, and what to do.
//
// # What the command can notice
//
// These differences follow from a parent process that is written in Go:
//
//   - its PID is not 1, and signals with a default action act on it;
//   - a descriptor of 0 to 2 that was closed is /dev/null;
//   - a signal that was ignored at the start has its default action, except SIGHUP,
//     SIGINT, SIGCONT, SIGTSTP, SIGTTIN, SIGTTOU and SIGRTMIN (container runtimes start
//     processes with none ignored);
//   - blocked signals that the Go runtime needs or kills by, such as SIGTERM, SIGINT,
//     SIGCHLD and the faults, are not blocked any more (container runtimes start
//     processes with none blocked);
//   - the environment variables of the Go runtime, such as GODEBUG, also act on the
//     supervisor;
//   - a signal's sender is the supervisor, and a value that sigqueue(3) has attached to
//     the signal is lost.
//
// With -mode=exec and -order-dir, the command has one more descriptor, from 100 on: the
// lock by which other containers see that it lives. If the command closes it, it counts
// as dead.
package supervisor
