// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package order is how the containers of a pod tell each other how far they are, so
// that one can start after another.
//
// A container that others depend on has a directory of its own, an emptyDir, which it
// alone can write to, and which those that depend on it have read-only. Its supervisor
// keeps two files there:
//
//   - lock, new for each life of the container (an incarnation), and locked for as
//     long as the supervisor lives: the kernel sees to that;
//   - state, what has become of that incarnation (state.go).
//
// The lock comes first, and names the incarnation. A state that names another one is
// of a past life. A lock that nobody holds says that its incarnation is over: by
// the end that the state names, or, if it names none, without a word.
//
// The lock is one of fcntl(2), of an open file description. To hold it for writing
// takes a descriptor that can write, so that whoever has the directory read-only can't
// hold it in the place of its owner; to ask for it takes no lock.
//
// A container that reads what another one prints has a second directory, for the pipe
// (pipe.go).
//
// What one finds there may have been put there by any program of the other container.
// It is believed as far as that container's own affairs go. What can't be understood
// is no answer: who waits goes on to wait (sight.go).
package order
