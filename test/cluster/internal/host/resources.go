// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
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

// CheckSpace fails if a file system has too little left for the directories
// that grow to so many bytes on it. What they have already counts. Those that
// don't exist are looked at where they would be made.
func CheckSpace(grow map[string]int64) error {
	type disk struct {
		free, needed int64
		dirs         []string
	}
	disks := map[uint64]*disk{}
	for dir, bytes := range grow {
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
			d = &disk{free: int64(system.Bavail) * system.Bsize} //nolint:gosec // no disk has 2^63 blocks
			disks[file.Dev] = d
		}
		d.needed += max(bytes-size(dir), 0)
		d.dirs = append(d.dirs, dir)
	}
	for _, d := range disks {
		if d.free < d.needed {
			slices.Sort(d.dirs)
			return fmt.Errorf("looking for space: %s take about %.1f GB more, and the disk has %.1f GB left; free some, or set GOCACHE, GOMODCACHE and ENTRYPOINTER_CACHE to directories on another disk",
				strings.Join(d.dirs, ", "), gigabytes(d.needed), gigabytes(d.free))
		}
	}
	return nil
}

// size is what the files in a directory and below have in bytes. What can't be
// looked at doesn't count.
func size(dir string) (bytes int64) {
	_ = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			if info, err := entry.Info(); err == nil {
				bytes += info.Size()
			}
		}
		return nil
	})
	return bytes
}

func gigabytes(bytes int64) float64 { return float64(bytes) / 1e9 }

// nearest is the directory, or else the one that it would be made in.
func nearest(dir string) (string, error) {
	for {
		if _, err := os.Stat(dir); err == nil || !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir) {
			return dir, err
		}
		dir = filepath.Dir(dir)
	}
}
