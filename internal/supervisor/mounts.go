// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// mayBeShared reports whether other containers may see what is in a directory:
// whether it is on another file system than the container's own root, or another
// one is mounted below it. If that can't be found out, it may.
func mayBeShared(dir string) bool {
	if !strings.HasPrefix(dir, "/") {
		return true
	}
	mounts, err := readFile("/proc/self/mountinfo", 1<<20)
	return err != nil || mountedAround(string(mounts), resolve(dir))
}

// resolve follows symbolic links, if the directory is there.
func resolve(dir string) string {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return dir
	}
	defer unix.Close(fd)
	if target := readProcLink("self", "fd/"+strconv.Itoa(fd)); target != "" {
		return target
	}
	return dir
}

// mountedAround looks for a mount at, above or below a directory, in the format
// of proc_pid_mountinfo(5). What is mounted somewhere below / says nothing about
// what is directly in /.
func mountedAround(mountinfo, dir string) bool {
	for line := range strings.Lines(mountinfo) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			return true
		}
		point := unescape.Replace(fields[4])
		if point != "/" && (isWithin(dir, point) || dir != "/" && isWithin(point, dir)) {
			return true
		}
	}
	return false
}

func isWithin(path, dir string) bool {
	rest, below := strings.CutPrefix(path, strings.TrimSuffix(dir, "/"))
	return below && (rest == "" || rest[0] == '/')
}

var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
