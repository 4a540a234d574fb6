// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestAHostileDependencyOnlyDelays: db's command writes whatever it can to db's own
// directory. The waiting container reports this once, and starts when db is restarted
// and behaves.
func TestAHostileDependencyOnlyDelays(t *testing.T) {
	t.Parallel()
	for name, deed := range map[string]string{
		"a pipe":                "rm state; mkfifo state",
		"a pipe as the lock":    "rm lock; mkfifo lock",
		"a link":                "mv state real; ln -s real state",
		"a link to a device":    "rm state; ln -s /dev/zero state",
		"a link to a terminal":  "rm lock; ln -s /dev/tty lock",
		"a huge file":           "truncate -s 100G state",
		"many bytes":            "head -c 10000000 /dev/zero >state",
		"half a state":          "head -c 50 state >half; mv half state",
		"an empty one":          ": >state",
		"another incarnation's": "sed -i 's/incarnation ./incarnation x/' state",
		"unreadable":            "sed -i 's/ready/READY/' state",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := orderDir(t)
			hostile := begin(t, []string{
				entrypoint, "-order-dir=" + dir, readyAtOnce, "--",
				"sh", "-c", "until grep -q 'phase ready' state; do sleep 0.01; done; " + deed + "; echo done; exec sleep 60",
			}, func(cmd *exec.Cmd) { cmd.Dir = dir })
			hostile.expect("done")
			var waiting []*process
			for _, condition := range []string{"-depends-on=ready", "-depends-on=started", "-depends-on=completed"} {
				waiting = append(waiting, web(t, dir, condition))
			}
			for _, p := range waiting {
				require.Regexp(t, "^entrypointer: waiting for db:[a-z]+: its (lock|state) can't be read: .*: if this lasts, delete the pod$", p.line())
				waits(t, p)
			}
			hostile.kill(hostile.Process.Pid)
			for _, p := range waiting { // the rest of the state is invalid, too
				waits(t, p)
			}
			good := db(t, dir, readyAtOnce, "--", "sleep", "60")
			isStarted(t, waiting[0])
			isStarted(t, waiting[1])
			good.kill(good.Process.Pid)
		})
	}
}

// triesToLock takes the locks that a read-only mount may allow: a write lock and a read
// lock.
const triesToLock = `
file = open(sys.argv[1])
for kind in fcntl.LOCK_EX, fcntl.LOCK_SH:
    try:
        fcntl.lockf(file, kind | fcntl.LOCK_NB)
        print("locked")
    except OSError:
        print("refused")
`

// TestAReadOnlyMountAllowsNoLock: a third container with a read-only mount of db's
// directory locks whatever it can. That neither makes db look alive nor prevents db
// from publishing. flock(1) would prove nothing: its locks never conflict with those of
// fcntl(2), which supervisors take.
func TestAReadOnlyMountAllowsNoLock(t *testing.T) {
	t.Parallel()
	dir := orderDir(t)
	dependency := db(t, dir, readyAtOnce, "--", "sleep", "60")
	hasSaid(t, dir, "ready")
	third := python(t, triesToLock, dir+"/lock")
	third.expect("refused")
	third.expect("refused")
	require.Zero(t, third.end())
	isStarted(t, web(t, dir, "-depends-on=ready"))
	dependency.kill(dependency.Process.Pid)
	third = python(t, triesToLock+"sys.stdout.flush(); import time; time.sleep(60)", dir+"/lock")
	third.expect("refused")
	third.expect("locked")
	p := web(t, dir, "-depends-on=ready", never(dir))
	require.Contains(t, p.line(), "it ended without reporting an exit code")
	require.Equal(t, 123, p.end())
	p = web(t, dir, "-depends-on=ready")
	waits(t, p)
	dependency = db(t, dir, readyAtOnce, "--", "sleep", "60")
	isStarted(t, p)
	third.kill(third.Process.Pid)
	dependency.kill(dependency.Process.Pid)
}

// locksEachNewFile locks each file in a directory as soon as it has a name. Read locks
// need no more than a read-only mount and the right to open the file.
const locksEachNewFile = `
import os
held = []
print("looking", flush=True)
while True:
    for name in os.listdir(sys.argv[1]):
        try:
            file = open(os.path.join(sys.argv[1], name))
            fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            held = held[-100:] + [file]
        except OSError:
            pass
`

// TestNoReadLockKeepsAContainerFromPublishing: a neighbour with the same user locks
// each new file in db's directory. Each life of db publishes its end nevertheless.
func TestNoReadLockKeepsAContainerFromPublishing(t *testing.T) {
	dir := orderDir(t)
	hostile := python(t, locksEachNewFile, dir)
	hostile.expect("looking")
	for life := range 200 {
		result := output(t, []string{entrypoint, "-order-dir=" + dir, "--", "sh", "-c", "exit " + strconv.Itoa(life%7)})
		require.Empty(t, result.Stderr)
		lock, err := os.ReadFile(dir + "/lock")
		require.NoError(t, err)
		state, err := os.ReadFile(dir + "/state")
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("order 1\nincarnation %s\nphase ended\nexit-code %d\nbeat 0\n", lock, life%7), string(state))
	}
	hostile.kill(hostile.Process.Pid)
}

// TestTheLockIsPublishedWithoutOTmpfile, on a file system that doesn't support it, or
// where a security profile refuses to link such a file.
func TestTheLockIsPublishedWithoutOTmpfile(t *testing.T) {
	for name, injected := range map[string]string{
		"a file system without it": "openat:error=EOPNOTSUPP",
		"an old kernel":            "openat:error=EISDIR",
		"no link":                  "linkat:error=EACCES",
		"no /proc":                 "linkat:error=ENOENT",
	} {
		t.Run(name, func(t *testing.T) {
			dir := orderDir(t)
			// The path restricts the errors of openat(2) to the directory itself.
			traced := []string{"-f", "-o", "/dev/null", "-e", "inject=" + injected}
			if strings.HasPrefix(injected, "openat") {
				traced = append(traced, "-P", dir)
			}
			p := straced(t, traced, "-order-dir="+dir, "--", "sh", "-c", "echo runs; exec sleep 60")
			p.expect("runs")
			hasSaid(t, dir, "started")
			isStarted(t, web(t, dir, "-depends-on=started"))
			entries, err := os.ReadDir(dir)
			require.NoError(t, err)
			var names []string
			for _, e := range entries {
				names = append(names, e.Name())
			}
			require.Subset(t, []string{"lock", "state", "state.new"}, names, "a file is left")
		})
	}
}

// python starts a script of Python, whose locks are those of fcntl(2).
func python(t testing.TB, script string, args ...string) *process {
	t.Helper()
	path, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3, which takes locks")
	}
	return begin(t, append([]string{path, "-uc", "import fcntl, sys\n" + script}, args...))
}

// straced starts the supervisor under strace(1) with these options. The errors and delays
// of system calls that strace injects are those of unusual kernels, profiles and disks.
func straced(t testing.TB, options []string, args ...string) *process {
	t.Helper()
	path, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("there is no strace, which injects errors")
	}
	return begin(t, append(append(append([]string{path}, options...), entrypoint), args...))
}

// TestOrderBetweenUsers: db and web have different users, a umask that lets no other
// user read files, and a read-only root. db's directory is read-only for web.
func TestOrderBetweenUsers(t *testing.T) {
	t.Parallel()
	needRoot(t, "namespaces")
	dir := orderDir(t)
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		require.NoError(t, os.Chmod(d, 0o777))
	}
	in := func(script string, args ...string) *process {
		t.Helper()
		argv := append([]string{"sh", "-ec", script + `; exec "$@"`, "sh"}, args...)
		return begin(t, argv, func(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS} })
	}
	user := func(id int) []string {
		n := strconv.Itoa(id)
		return []string{"setpriv", "--reuid", n, "--regid", n, "--clear-groups", "--no-new-privs", entrypoint}
	}
	const root = "mount --bind " // the directory stays writable when everything else becomes read-only
	writable := root + dir + " " + dir + "; mount -o remount,bind,ro /; umask 077"
	readOnly := root + dir + " " + dir + "; mount -o remount,bind,ro " + dir + "; mount -o remount,bind,ro /; umask 077"

	waiting := in(readOnly, append(user(1234), "-depends-on=ready:"+dir, "--", "sh", "-c", "touch "+dir+"/x 2>/dev/null || echo web is started")...)
	waits(t, waiting)
	dependency := in(writable, append(user(5678), "-order-dir="+dir, "-ready-exec=true", "--", "sh", "-c", "umask; exec sleep 60")...)
	dependency.expect("0077")
	isStarted(t, waiting)
	late := in(readOnly, append(user(1234), "-depends-on=completed:"+dir, never(dir), "--", "true")...)
	waits(t, late)
	dependency.kill(dependency.Process.Pid)
	require.Contains(t, late.line(), "it ended without reporting an exit code")
	require.Equal(t, 123, late.end())

	// The next incarnation may have another user.
	require.Zero(t, in(writable, append(user(91011), "-order-dir="+dir, "--", "true")...).end())
	isStarted(t, in(readOnly, append(user(1234), "-depends-on=completed:"+dir, "--", "echo", "web is started")...))
}

// TestAFullVolumeDelaysTheState: the end is published if an earlier state could be
// written. Otherwise it is published once there is room.
func TestAFullVolumeDelaysTheState(t *testing.T) {
	needRoot(t, "mounts")
	dir := orderDir(t)
	require.NoError(t, syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k,mode=777"))
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	fill := func() {
		t.Helper()
		_ = output(t, []string{"sh", "-c", "cat /dev/zero >>" + dir + "/full"})
	}
	finish := t.TempDir() + "/finish"
	dependency := db(t, dir, "--", "sh", "-c", "until [ -e "+finish+" ]; do sleep 0.01; done")
	hasSaid(t, dir, "started")
	fill()
	waiting := web(t, dir, "-depends-on=completed", never(dir))
	waits(t, waiting)
	create(t, finish)
	require.Zero(t, dependency.end())
	isStarted(t, waiting)

	fill()
	dependency = db(t, dir, "--", "sleep", "60")
	require.Contains(t, dependency.line(), "no space left on device: containers that depend on it wait until this succeeds")
	waiting = web(t, dir, "-depends-on=started")
	waits(t, waiting)
	require.NoError(t, os.Remove(dir+"/full"))
	isStarted(t, waiting)
	dependency.kill(dependency.Process.Pid)
}

// TestTheLastWordIsRepeated for a few seconds, because after it there is no supervisor
// that could repeat it. A failure that lasts doesn't keep the container from ending.
func TestTheLastWordIsRepeated(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		deed string
		want string
	}{
		"a failure that ends":  {"(until [ -e said ]; do sleep 0.1; done; rm -r state) & exit 3", "phase ended\nexit-code 3\n"},
		"a failure that lasts": {"exit 3", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := orderDir(t)
			p := begin(t, []string{
				entrypoint, "-order-dir=" + dir, "--", "sh", "-c", "until grep -q 'phase started' state; do sleep 0.01; done; rm state; mkdir -p state/in-the-way; " + test.deed,
			}, func(cmd *exec.Cmd) { cmd.Dir = dir })
			require.Contains(t, p.line(), "publishing this container's state in ")
			create(t, dir+"/said")
			require.Equal(t, 3, p.end())
			state, _ := os.ReadFile(dir + "/state")
			require.Contains(t, string(state), test.want)
		})
	}
}

// TestTheEndOutlastsACrashOfTheNode: after the other containers were told, and before
// the process ends, the lock, the state and their names are written to the disk. Only a
// crash of a machine would show their loss, so the test observes the system calls.
func TestTheEndOutlastsACrashOfTheNode(t *testing.T) {
	dir, trace := orderDir(t), t.TempDir()+"/trace"
	p := straced(t, []string{"-f", "-y", "-o", trace, "-e", "trace=/^(rename.*|fsync|exit_group)$"}, "-order-dir="+dir, "--", "true")
	require.Zero(t, p.end())
	calls, err := os.ReadFile(trace)
	require.NoError(t, err)
	// Without -f's process IDs, the calls of the threads are in the order of their times.
	var last []string
	for line := range strings.Lines(string(calls)) {
		switch {
		case strings.Contains(line, "rename") && strings.Contains(line, `/state"`):
			last = nil
		case strings.Contains(line, "fsync(") && strings.Contains(line, "<"+dir):
			_, path, _ := strings.Cut(line, "<"+dir)
			name, _, _ := strings.Cut(path, ">")
			if strings.HasPrefix(name, "/#") {
				name = "/lock" // it had no name when it was opened
			}
			last = append(last, "fsync "+name)
		case strings.Contains(line, "exit_group("):
			last = append(last, "exit")
		}
	}
	require.Equal(t, []string{"fsync /lock", "fsync /state", "fsync ", "exit"}, last, "%s", calls)
}

// TestADiskThatHangsDoesNotKeepAContainer from ending, nor other containers from
// starting. strace(1) itself keeps a thread for as long as it delays it, so the test
// looks for the supervisor's last system call.
func TestADiskThatHangsDoesNotKeepAContainer(t *testing.T) {
	dir, trace := orderDir(t), t.TempDir()+"/trace"
	waiting := web(t, dir, "-depends-on=completed")
	waits(t, waiting)
	straced(t, []string{"-f", "-o", trace, "-e", "trace=fsync,exit_group", "-e", "inject=fsync:delay_enter=3600s"},
		"-order-dir="+dir, "-success-exit-codes=3", "--", "sh", "-c", "exit 3")
	isStarted(t, waiting)
	require.Eventually(t, func() bool {
		calls, _ := os.ReadFile(trace)
		return strings.Contains(string(calls), "fsync(") && strings.Contains(string(calls), "exit_group(0")
	}, deadline, 10*time.Millisecond)
}

// TestFiftyContainersWaitAtOnce for one dependency, without inotify instances, and with
// wrong timestamps of files.
func TestFiftyContainersWaitAtOnce(t *testing.T) {
	const many = 50
	if os.Getenv("ORDER_WITHOUT_INOTIFY") == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestFiftyContainersWaitAtOnce$", "-test.v", "-entrypoint.bin="+binDir)
		cmd.Env = append(os.Environ(), "ORDER_WITHOUT_INOTIFY=1")
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
		}
		said, err := cmd.CombinedOutput()
		if err != nil && strings.Contains(err.Error(), "operation not permitted") {
			t.Skip(noRoot + "a user namespace")
		}
		require.NoError(t, err, "%s", said)
		return
	}
	for _, limit := range []string{"max_inotify_instances", "max_inotify_watches"} {
		require.NoError(t, os.WriteFile("/proc/sys/user/"+limit, []byte("0"), 0))
	}
	_, err := syscall.InotifyInit()
	require.ErrorIs(t, err, syscall.EMFILE)

	dir := orderDir(t)
	var waiting []*process
	for range many {
		waiting = append(waiting, web(t, dir, "-depends-on=ready", never(dir)))
	}
	for _, p := range waiting {
		waits(t, p)
	}
	ready := t.TempDir() + "/ready"
	db(t, dir, "-ready-file="+ready, "-ready-period=1ms", "--", "sleep", "60")
	hasSaid(t, dir, "started")
	for i, file := range []string{"/lock", "/state"} {
		wrong := time.Unix(int64(i)*1<<32, 0)
		require.NoError(t, os.Chtimes(dir+file, wrong, wrong))
	}
	for _, p := range waiting {
		waits(t, p)
	}
	create(t, ready)
	for _, p := range waiting {
		isStarted(t, p)
	}
}
