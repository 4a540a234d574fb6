// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package ring

import "golang.org/x/sys/unix"

// Wake wakes the process that polls an eventfd. One that can't count any further has
// woken it already.
func Wake(eventfd int) { _, _ = unix.Write(eventfd, []byte{1, 0, 0, 0, 0, 0, 0, 0}) }
