// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package supervisor is the process that stands between a container's init
// process slot and the program that its author wrote.
//
// The kernel treats the first process of a PID namespace specially: it
// inherits every orphan, it is immune to signals that it does not handle, and
// when it ends, so does the namespace. A program that was not written for this
// leaks zombies and ignores SIGTERM. So the supervisor takes the slot, starts
// the program as its child, and then does three things:
//
//   - it passes on each signal that it is sent (signals.go);
//   - it waits for whatever dies, so that no zombie is left (reap.go);
//   - when the child has died, it exits as the child did.
//
// It waits in one place, whatever it waits for (loop.go).
//
// Everything else is about not being noticed: the child has the argv, the
// environment, the descriptors, the limits, the signal mask and the terminal
// that it would have had without us (start.go, tty.go).
//
// What else it can do is off until asked for: wait for other containers and tell them
// how far it is (package order, order.go), wait for files before the start (package
// await), edit the environment (env.go), run hooks (hooks.go), pause
// (pause.go), end what takes too long (limit.go), hold a stop signal back for those
// that depend on this container (stop.go), end a command that is of no use any more
// (stopwhen.go), call codes a success, and
// tell what became of it (status.go, events.go), also from within the container
// (control.go). It happens in this order:
//
//	other containers -> wait -> environment -> hooks -> pause -> command -> post file -> pause -> status -> sidecars
//
// A command that waits itself, as Tekton's entrypoint does, may be started before
// the wait, if there is nothing in between, and is then held until its turn
// (turn.go, hold.go).
//
// # Exit codes
//
//   - the child's own code, or 128+n when signal n killed it;
//   - 0 instead of a code that -success-exit-codes has;
//   - 0 of a command that ends, or isn't started, by -stop-when;
//   - a before-start hook's code when that fails;
//   - 123 when another container, which was waited for, has failed for good;
//   - 124 when the command, or a hook, took longer than it may, whatever its own
//     code was, or when another container was waited for longer than that;
//   - 127 when there is no such command, or its interpreter is missing;
//   - 126 when there is one, but it can't be run: permission denied, a
//     directory, a format that the kernel doesn't know, arguments too long;
//   - 125 when the supervisor itself failed: flags it can't parse, no command,
//     no argv for this platform, no memory or process to be had.
//
// These codes are those of xargs(1), env(1), nohup(1) and timeout(1). Without us, a container
// runtime fails to create the container for the reasons of 126 and 127, and the
// kubelet shows StartError and exit code 128: a pod that was broken stays broken,
// with another code and our line in its log. For 123 to 127 there
// is one line on stderr, which starts with "entrypointer: " and says what was
// attempted, with what, and what to do.
//
// # What the child can notice
//
// These follow from there being a parent, and one written in Go:
//
//   - its PID is not 1, and signals with a default action act on it;
//   - a descriptor of 0 to 2 that was closed is /dev/null;
//   - a signal other than SIGHUP, SIGINT, SIGCONT, SIGTSTP, SIGTTIN, SIGTTOU and
//     SIGRTMIN that was ignored has its default action (container runtimes
//     start processes with none ignored);
//   - of a mask of blocked signals that we were started with, those that the Go
//     runtime needs or kills by, such as SIGTERM, SIGINT, SIGCHLD and the
//     faults, are not blocked (container runtimes start processes with none
//     blocked);
//   - the environment variables of the Go runtime, GODEBUG above all, act on us
//     as well;
//   - a signal's sender is the supervisor, and a value attached to it by
//     sigqueue(3) is lost.
//
// With -mode=exec and -order-dir, the command has a descriptor more, from 100 on: the
// lock by which other containers see that it lives. One that closes what it
// doesn't know is taken for dead.
package supervisor
