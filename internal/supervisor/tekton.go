// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/entrypointer/entrypointer/internal/proc"
	"github.com/entrypointer/entrypointer/internal/supervisor/console"
)

// timedOutResult is the result that Tekton's entrypoint adds to a step's results after
// its own timeout. From it, the TaskRun's status gets the reason of the failure
// (https://github.com/tektoncd/pipeline/blob/v1.15.0/pkg/pod/status.go).
const timedOutResult = `{"key":"Reason","value":"TimeoutExceeded","type":3}`

// leaveTimeoutResult adds timedOutResult to the results that Tekton's entrypoint has
// left in a file, if there is room for it. It doesn't change compressed results.
func leaveTimeoutResult(path string) {
	if path == "" {
		return
	}
	data, err := proc.ReadFile(path, maxStatus)
	results, isList := strings.CutSuffix(strings.TrimSpace(string(data)), "]")
	switch {
	case err == nil && len(data) == 0, err == unix.ENOENT, results == "[":
		results = "["
	case isList:
		results += ","
	default:
		return
	}
	results += timedOutResult + "]\n"
	if len(results) > maxStatus {
		return
	}
	// The file may be a mount, which can't be replaced by a rename.
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC|unix.O_CLOEXEC|unix.O_NONBLOCK, 0o644)
	if err == nil {
		err = writeAll(fd, []byte(results))
		_ = unix.Close(fd)
	}
	if err != nil {
		console.Say("adding the timeout to the results in " + strconv.Quote(path) + ": " + err.Error())
	}
}
