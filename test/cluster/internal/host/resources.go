// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// AvailableMemory is what programs can have without swapping, in bytes; 0 if
// the kernel doesn't tell.
func AvailableMemory() int64 {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	return parseAvailable(string(text))
}

func parseAvailable(meminfo string) int64 {
	for line := range strings.Lines(meminfo) {
		var kilobytes int64
		if _, err := fmt.Sscanf(line, "MemAvailable: %d kB", &kilobytes); err == nil {
			return kilobytes << 10
		}
	}
	return 0
}

// CheckSpace fails if a file system has less than so many bytes left for the
// directories that will be on it. Those that don't exist count for where they
// would be made.
func CheckSpace(needed map[string]uint64) error {
	type disk struct {
		free, needed uint64
		dirs         []string
	}
	disks := map[uint64]*disk{}
	for dir, bytes := range needed {
		existing, err := nearest(dir)
		if err != nil {
			return err
		}
		var file unix.Stat_t
		var system unix.Statfs_t
		if err := errors.Join(unix.Stat(existing, &file), unix.Statfs(existing, &system)); err != nil {
			return fmt.Errorf("looking how much space %q has: %w", existing, err)
		}
		d := disks[file.Dev]
		if d == nil {
			d = &disk{free: system.Bavail * uint64(system.Bsize)} //nolint:gosec // no block has a negative size
			disks[file.Dev] = d
		}
		d.needed += bytes
		d.dirs = append(d.dirs, dir)
	}
	for _, d := range disks {
		if d.free < d.needed {
			return fmt.Errorf("looking for space: %s take about %.1f GB more, and the disk has %.1f GB left; free some, or set GOCACHE, GOMODCACHE and ENTRYPOINTER_CACHE to directories on another disk",
				strings.Join(d.dirs, ", "), gigabytes(d.needed), gigabytes(d.free))
		}
	}
	return nil
}

func gigabytes(bytes uint64) float64 { return float64(bytes) / 1e9 }

// nearest is the directory, or else the one that it would be made in.
func nearest(dir string) (string, error) {
	for {
		if _, err := os.Stat(dir); err == nil || !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir) {
			return dir, err
		}
		dir = filepath.Dir(dir)
	}
}
