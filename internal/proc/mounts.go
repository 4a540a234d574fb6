// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package proc

import (
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// MayBeShared reports whether other containers may see the files in a directory: it is
// on another file system than the container's root, or a file system is mounted below
// it. If mountinfo can't be read, the answer is true.
func MayBeShared(dir string) bool {
	if !strings.HasPrefix(dir, "/") {
		return true
	}
	mounts, err := ReadFile("/proc/self/mountinfo", 1<<20)
	return err != nil || mountedAround(string(mounts), resolve(dir))
}

// resolve resolves symbolic links, if the directory exists.
func resolve(dir string) string {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return dir
	}
	defer unix.Close(fd)
	if target := Link("self", "fd/"+strconv.Itoa(fd)); target != "" {
		return target
	}
	return dir
}

// mountedAround looks for a mount at, above or below a directory in the text of
// proc_pid_mountinfo(5). A mount anywhere below / doesn't count for / itself, because
// its files aren't directly in /.
func mountedAround(mountinfo, dir string) bool {
	for line := range strings.Lines(mountinfo) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			return true
		}
		point := unescape(fields[4])
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

// unescape replaces the octal escapes of a field, such as \040 for a space. A
// strings.Replacer would make each binary in pods 20 KB larger.
func unescape(field string) string {
	text := make([]byte, 0, len(field))
	for i := 0; i < len(field); i++ {
		if digits := field[i+1:]; field[i] == '\\' && len(digits) >= 3 {
			if code, err := strconv.ParseUint(digits[:3], 8, 8); err == nil {
				text = append(text, byte(code))
				i += 3
				continue
			}
		}
		text = append(text, field[i])
	}
	return string(text)
}
