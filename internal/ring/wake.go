// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package ring

import "golang.org/x/sys/unix"

// Wake wakes the process that polls an eventfd. It ignores EAGAIN: the counter is at its
// maximum, so the process is awake.
func Wake(eventfd int) { _, _ = unix.Write(eventfd, []byte{1, 0, 0, 0, 0, 0, 0, 0}) }
