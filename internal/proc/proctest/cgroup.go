// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package proctest has tests start processes in a memory cgroup of their own, as a kubelet
// starts those of a container.
package proctest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// root is where the hierarchies of cgroups are mounted: the one of v2, or one for each
// controller of v1.
const root = "/sys/fs/cgroup"

// The kernel needs a moment until a process that has ended has left its cgroup.
const (
	removal = time.Minute
	tick    = 10 * time.Millisecond
)

// A Cgroup is the memory cgroup of a container.
type Cgroup struct {
	V2    bool
	dir   string
	mount string // where the container sees it
}

// NewCgroup makes a cgroup whose processes get at most limit bytes of memory, and none of
// swap. It skips the test where that isn't possible. The test must have ended the processes
// when it ends.
func NewCgroup(t *testing.T, limit int64) *Cgroup {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("not run as root, which is needed for a cgroup")
	}
	var fs unix.Statfs_t
	require.NoError(t, unix.Statfs(root, &fs))
	c := &Cgroup{V2: fs.Type == unix.CGROUP2_SUPER_MAGIC, mount: root}
	if c.V2 {
		controllers, err := os.ReadFile(root + "/cgroup.subtree_control")
		require.NoError(t, err)
		if !slices.Contains(strings.Fields(string(controllers)), "memory") {
			t.Skip("the root of cgroup v2 lets no child control memory")
		}
	} else {
		c.mount = root + "/memory"
	}
	dir, err := os.MkdirTemp(c.mount, "entrypointer-test-") //nolint:usetesting // the directory is a cgroup
	if err != nil {
		t.Skip("no memory cgroup can be made here: ", err)
	}
	c.dir = dir
	c.removeAtEnd(t)
	if c.V2 {
		c.set(t, "memory.max", limit)
		c.set(t, "memory.swap.max", 0)
		return c
	}
	c.set(t, "memory.limit_in_bytes", limit)
	if _, err := os.Stat(filepath.Join(dir, "memory.memsw.limit_in_bytes")); err == nil { // the kernel counts swap
		c.set(t, "memory.memsw.limit_in_bytes", limit)
	}
	return c
}

// NewChild makes a cgroup within another, as those of containers are within their pod's.
// Afterwards, the other can have no process of its own.
func (c *Cgroup) NewChild(t *testing.T) *Cgroup {
	t.Helper()
	if c.V2 {
		require.NoError(t, os.WriteFile(filepath.Join(c.dir, "cgroup.subtree_control"), []byte("+memory"), 0))
	}
	dir, err := os.MkdirTemp(c.dir, "child-") //nolint:usetesting // the directory is a cgroup
	require.NoError(t, err)
	child := &Cgroup{V2: c.V2, dir: dir, mount: c.mount}
	child.removeAtEnd(t)
	return child
}

func (c *Cgroup) removeAtEnd(t *testing.T) {
	t.Cleanup(func() {
		// The last process may have ended a moment ago.
		require.Eventually(t, func() bool { return os.Remove(c.dir) == nil }, removal, tick)
	})
}

func (c *Cgroup) set(t *testing.T, file string, value int64) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(c.dir, file), strconv.AppendInt(nil, value, 10), 0))
}

// KillTogether has the kernel kill all processes of the cgroup if it kills one, as a kubelet
// does with cgroup v2. It skips the test on v1, which can't.
func (c *Cgroup) KillTogether(t *testing.T) {
	t.Helper()
	if !c.V2 {
		t.Skip("cgroup v1 has no memory.oom.group")
	}
	c.set(t, "memory.oom.group", 1)
}

// Within has a command that isn't started yet run in the cgroup, and in namespaces in which
// it sees this cgroup only. It replaces the command's Path and Args.
func (c *Cgroup) Within(cmd *exec.Cmd) {
	const script = `echo 0 >"$1/cgroup.procs" && mount --bind "$1" "$2" && shift 2 && exec unshare --cgroup -- "$@"`
	argv := slices.Concat([]string{"sh", "-c", script, "sh", c.dir, c.mount, cmd.Path}, cmd.Args[1:])
	cmd.Path, cmd.Args = "/bin/sh", argv
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Unshareflags |= syscall.CLONE_NEWNS
}

// counter is the file with the line "oom_kill N".
func (c *Cgroup) counter() string {
	if c.V2 {
		return "memory.events"
	}
	return "memory.oom_control"
}

// Counter returns the path at which the container finds its counter of OOM kills.
func (c *Cgroup) Counter() string { return filepath.Join(c.mount, c.counter()) }

// OOMKills returns how many processes of the cgroup the kernel has killed for lack of memory.
func (c *Cgroup) OOMKills(t *testing.T) (n int) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(c.dir, c.counter()))
	require.NoError(t, err)
	for line := range bytes.Lines(data) {
		if fields := strings.Fields(string(line)); len(fields) == 2 && fields[0] == "oom_kill" {
			n, err = strconv.Atoi(fields[1])
			require.NoError(t, err)
			return n
		}
	}
	require.Fail(t, "the kernel doesn't count", "%s", data)
	return 0
}
