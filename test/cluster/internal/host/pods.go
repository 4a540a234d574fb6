// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// CgroupRoot is the control group that holds all pods of this cluster and
// nothing else: what runs in it is ours.
const CgroupRoot = "entrypointer"

// MakeCgroup makes that control group, in each hierarchy of version 1 or in
// the one of version 2: the kubelet insists on its presence.
func MakeCgroup() error {
	const root = "/sys/fs/cgroup"
	if controllers, err := os.ReadFile(root + "/cgroup.controllers"); err == nil {
		return makeCgroup2(root, strings.Fields(string(controllers)))
	}
	hierarchies, err := os.ReadDir(root)
	if err != nil {
		return fmt.Errorf("making the pods' control group: %w; mount cgroups at %s", err, root)
	}
	for _, hierarchy := range hierarchies {
		dir := filepath.Join(root, hierarchy.Name(), CgroupRoot)
		if !hierarchy.IsDir() || os.Mkdir(dir, 0o755) != nil {
			continue // It is there, or this is no hierarchy.
		}
		if hierarchy.Name() == "cpuset" {
			inheritCpuset(filepath.Dir(dir), dir)
		}
	}
	return nil
}

// inheritCpuset fills in what a new group of that hierarchy has empty, and
// which no process can be put in before.
func inheritCpuset(from, to string) {
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		if value, err := os.ReadFile(filepath.Join(from, file)); err == nil {
			_ = os.WriteFile(filepath.Join(to, file), value, 0o644)
		}
	}
}

func makeCgroup2(root string, controllers []string) error {
	dir := filepath.Join(root, CgroupRoot)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("making the pods' control group: %w", err)
	}
	for _, parent := range []string{root, dir} {
		for _, controller := range controllers {
			// One that can't be delegated isn't missed before the kubelet says so.
			_ = os.WriteFile(filepath.Join(parent, "cgroup.subtree_control"), []byte("+"+controller), 0o644)
		}
	}
	return nil
}

// EndPods kills what is left of pods and their shims, and removes the control
// groups. Processes are found by what they are: members of our control group,
// and shims that were started with our containerd's socket.
func EndPods(containerdSocket string) error {
	find := func() []int { return append(inCgroup("/sys/fs/cgroup"), shims("/proc", containerdSocket)...) }
	if err := killAll(find, 20*time.Second); err != nil {
		return err
	}
	for _, top := range cgroupDirs("/sys/fs/cgroup") {
		if err := removeCgroup(top); err != nil {
			return err
		}
	}
	return nil
}

func killAll(find func() []int, limit time.Duration) error {
	for end := time.Now().Add(limit); ; time.Sleep(20 * time.Millisecond) {
		pids := find()
		if len(pids) == 0 {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("killing processes of pods: %v are still there after %s", pids, limit)
		}
		for _, pid := range pids {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("killing process %d of a pod: %w", pid, err)
			}
		}
	}
}

// cgroupDirs returns our group's directory in each hierarchy.
func cgroupDirs(root string) []string {
	version1, _ := filepath.Glob(filepath.Join(root, "*", CgroupRoot))
	version2, _ := filepath.Glob(filepath.Join(root, CgroupRoot))
	return append(version1, version2...)
}

// inCgroup returns the processes in our group and the groups below.
func inCgroup(root string) []int {
	seen := map[int]bool{}
	var pids []int
	for _, top := range cgroupDirs(root) {
		_ = filepath.WalkDir(top, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Base(path) != "cgroup.procs" {
				return nil //nolint:nilerr // A group that just went away has no processes.
			}
			text, _ := os.ReadFile(path)
			for _, field := range strings.Fields(string(text)) {
				if pid, err := strconv.Atoi(field); err == nil && pid != 0 && !seen[pid] {
					seen[pid], pids = true, append(pids, pid)
				}
			}
			return nil
		})
	}
	return pids
}

// shims returns the processes that were started with "-address <socket>".
func shims(proc, socket string) []int {
	wanted := []byte("\x00-address\x00" + socket + "\x00")
	files, _ := filepath.Glob(filepath.Join(proc, "[0-9]*", "cmdline"))
	var pids []int
	for _, file := range files {
		cmdline, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(cmdline, wanted) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// removeCgroup removes a group and those below it, deepest first; the kernel
// may take a moment to see that a group is empty.
func removeCgroup(top string) error {
	var dirs []string
	_ = filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			dirs = append(dirs, path)
		}
		return nil // What is gone need not be removed.
	})
	for _, dir := range slices.Backward(dirs) {
		if err := removeEmpty(dir); err != nil {
			return fmt.Errorf("removing the control group %q: %w", dir, err)
		}
	}
	return nil
}

func removeEmpty(dir string) (err error) {
	for range 100 {
		if err = os.Remove(dir); err == nil || errors.Is(err, os.ErrNotExist) {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return err
}
