// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"golang.org/x/sys/unix"

	"github.com/entrypointer/entrypointer/internal/supervisor/console"
)

// leavePostFile creates path.err, by which Tekton's entrypoint reports that its step
// has failed, unless Tekton's entrypoint has created one of the two files itself. If
// the kernel kills it for lack of memory, it creates none, and the steps after it would
// wait until the TaskRun times out (https://github.com/tektoncd/pipeline/issues/10371).
func leavePostFile(path string) {
	if path == "" || exists(path) {
		return
	}
	fd, err := unix.Open(path+".err", unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o666)
	if err == unix.EEXIST {
		return
	}
	if err != nil {
		console.Say("creating " + path + ".err, which tells other containers of the failure: " + err.Error())
		return
	}
	_ = unix.Close(fd)
}
