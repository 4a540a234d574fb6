// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
)

// Unmount unmounts everything below a directory, what was mounted last first.
// It detaches, too, what is still in use.
func Unmount(dir string) error {
	mountinfo, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return fmt.Errorf("looking for mounts below %q: %w", dir, err)
	}
	defer mountinfo.Close()
	mounts, err := mountsBelow(mountinfo, dir)
	if err != nil {
		return fmt.Errorf("looking for mounts below %q: %w", dir, err)
	}
	for _, mount := range slices.Backward(mounts) {
		err := syscall.Unmount(mount, syscall.MNT_DETACH)
		if err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOENT) {
			return fmt.Errorf("unmounting %q: %w", mount, err)
		}
	}
	return nil
}

// mountsBelow reads mount points, in the order in which they were mounted,
// from /proc/pid/mountinfo: field 5 of proc(5).
func mountsBelow(mountinfo io.Reader, dir string) ([]string, error) {
	text, err := io.ReadAll(mountinfo)
	if err != nil {
		return nil, err
	}
	var mounts []string
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		if point := unescape(fields[4]); strings.HasPrefix(point, dir+"/") {
			mounts = append(mounts, point)
		}
	}
	return mounts, nil
}

// unescape undoes what the kernel does to characters that separate fields.
func unescape(path string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(path)
}
