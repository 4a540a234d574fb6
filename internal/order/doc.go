// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package order lets the containers of a pod tell each other how far they have come, so
// that one container can start after another.
//
// A container that others depend on has a directory of its own, an emptyDir. It is
// mounted writable in that container alone, and read-only in the containers that depend
// on it. The supervisor keeps two files there:
//
//   - lock, a new file for each run of the container (an incarnation). The supervisor
//     holds a lock on it, which the kernel releases when the supervisor dies;
//   - state, the phase of that incarnation and its exit code (state.go).
//
// The supervisor creates the lock file first. The file contains the name of the
// incarnation, and gets its path once it is locked. A state file with another name is
// stale: an earlier incarnation wrote it. An unlocked lock file means that its
// incarnation is over. If the state has no exit code by then, the supervisor was killed
// before it could write one.
//
// The lock is an open file description lock (fcntl(2), F_OFD_SETLK). A write lock needs
// a writable descriptor, so a container with a read-only mount can't take it in the
// owner's place. A query for the lock (F_OFD_GETLK) takes no lock.
//
// A container that reads the output of another container has a second directory, for
// the pipe (pipe.go).
//
// Any program of the other container may have written the files in its directory.
// Readers believe them about that container only. Unreadable or malformed content
// leaves the state unknown, and the reader keeps waiting (observer.go).
package order
