// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestChildSeesWhatItWouldSeeWithoutUs starts a process that describes itself, once
// alone and once under the supervisor, and compares the two descriptions.
func TestChildSeesWhatItWouldSeeWithoutUs(t *testing.T) {
	t.Parallel()
	looks := [][]string{
		append([]string{"tail", "-n", "+1"}, within("/proc/self/", "status", "stat", "limits", "environ", "cmdline",
			"oom_score_adj", "timerslack_ns", "personality", "cgroup")...),
		append([]string{"readlink"}, within("/proc/self/", "cwd", "ns/mnt", "ns/pid", "ns/net", "ns/ipc")...),
		{"ls", "-l", "/proc/self/fd/"},
	}
	for name, prepare := range map[string]string{
		"as is":                "",
		"umask":                "umask 027",
		"limits":               "ulimit -n 100; ulimit -S -c 0; ulimit -S -s 4096; ulimit -u 5000",
		"limit of open files":  "ulimit -S -n 50",
		"ignored signals":      "trap '' HUP INT TSTP TTIN TTOU CONT",
		"descriptors":          "exec 3</dev/null 7>/dev/null 9>&2",
		"stdin at its end":     "exec </dev/null",
		"deleted directory":    "mkdir gone; cd gone; rmdir ../gone",
		"environment":          "export A= B='a b' 'C=x\ny' D=$(printf '\\377\\376')",
		"oom score":            "echo 500 >/proc/self/oom_score_adj",
		"no variables":         "set -- /usr/bin/env -i \"$@\"",
		"nice":                 "set -- nice -n 5 \"$@\"",
		"no new privileges":    "set -- setpriv --no-new-privs \"$@\"",
		"nobody":               "[ $(id -u) != 0 ] || set -- setpriv --reuid 65534 --regid 65534 --groups 1,2 \"$@\"",
		"ambient capabilities": "[ $(id -u) != 0 ] || set -- setpriv --reuid 65534 --inh-caps +net_bind_service --ambient-caps +net_bind_service \"$@\"",
		"one processor":        "set -- taskset 1 \"$@\"",
		"batch scheduling":     "set -- chrt --batch 0 \"$@\"",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "ignored signals" && *tags == "portable" {
				t.Skip("package os/signal overrides them, but for HUP and INT")
			}
			dir := t.TempDir()
			for _, look := range looks {
				see := func(wrapper ...string) string {
					// The shell starts a child of its own, as a copy of the descriptor table (FDSize)
					// has the size that its parent's descriptors need, and this test's differ.
					argv := append([]string{"sh", "-c", prepare + "\n" + `"$@"; exit $?`, "sh"}, wrapper...)
					got := output(t, append(argv, look...), func(cmd *exec.Cmd) { cmd.Dir = dir })
					require.Zero(t, got.Code, got.Stderr)
					return lasting(got.Stdout)
				}
				bare := see()
				require.Equal(t, bare, see(entrypoint, "--"), look[0])
				require.Equal(t, bare, see(entrypoint, "-mode", "exec", "--"), look[0]+" in mode exec")
			}
		})
	}
}

var (
	// Volatile fields differ between any two processes.
	volatile = regexp.MustCompile(`(?m)^(Pid|PPid|Tgid|Ngid|NStgid|NSpid|NSpgid|NSsid|Vm.*|Rss.*|HugetlbPages|.*ctxt_switches|Cpu.*flush|SigQ):.*\n`)
	date     = regexp.MustCompile(`(?m)^(\S+) .* (\d+ -> )`)
	stat     = regexp.MustCompile(`(?m)^\d+ \(tail\) .*$`)
	id       = regexp.MustCompile(`/proc/\d+/fd|(pipe|socket):\[\d+\]`)
)

// lasting removes from a process's description what differs from run to run.
func lasting(s string) string {
	s = volatile.ReplaceAllString(s, "")
	s = id.ReplaceAllString(date.ReplaceAllString(s, "$1 $2"), "$1")
	return stat.ReplaceAllStringFunc(s, func(line string) string {
		fields := strings.Fields(line) // see proc(5); 18 and 19 are priority and niceness, 41 the policy
		return strings.Join([]string{fields[17], fields[18], fields[39], fields[40]}, " ")
	})
}

func within(dir string, names ...string) (paths []string) {
	for _, name := range names {
		paths = append(paths, dir+name)
	}
	return paths
}

// TestEnvironmentByteForByte covers environments that no shell would set: duplicates,
// an empty name, a string without =, none at all, and bytes that are not UTF-8.
func TestEnvironmentByteForByte(t *testing.T) {
	env := []string{"A=1", "A=2", "=x", "noequals", "", "\xff\xfe=\x80", "PATH=/usr/bin:/bin", "PATH=/nowhere", "B="}
	for _, argv := range [][]string{
		{"/bin/cat", "/proc/self/environ"},
		supervised("cat", "/proc/self/environ"),
		{entrypoint, "-mode=exec", "--", "cat", "/proc/self/environ"},
	} {
		require.Equal(t, strings.Join(env, "\x00")+"\x00", raw(t, argv[0], argv, env), "%q", argv)
	}
}

func TestLargeEnvironment(t *testing.T) {
	var env []string
	for range 500 {
		env = append(env, "X="+strings.Repeat("x", 1000))
	}
	argv := supervised("/bin/cat", "/proc/self/environ")
	require.Equal(t, strings.Join(env, "\x00")+"\x00", raw(t, argv[0], argv, env))
}

func TestArgvToTheLetter(t *testing.T) {
	argv := []string{entrypoint, "--", "/bin/cat", "/proc/self/cmdline", "/dev/null", "--"}
	require.Equal(t, strings.Join(argv[2:], "\x00")+"\x00", raw(t, argv[0], argv, nil))
	argv = []string{entrypoint, "--", "cat", "/proc/self/cmdline", "--", "/dev/null"}
	require.Equal(t, strings.Join(argv[2:], "\x00")+"\x00", raw(t, argv[0], argv, nil), "argv[0] is not the path")
}

// raw starts a process with exactly this environment, which package os/exec would
// change, and returns its output.
func raw(t *testing.T, path string, argv, env []string) string {
	t.Helper()
	read, write, err := os.Pipe()
	require.NoError(t, err)
	defer read.Close()
	pid, err := syscall.ForkExec(path, argv, &syscall.ProcAttr{Env: env, Files: []uintptr{0, write.Fd(), 2}})
	require.NoError(t, err)
	require.NoError(t, write.Close())
	out, err := io.ReadAll(read)
	require.NoError(t, err)
	var status syscall.WaitStatus
	_, err = syscall.Wait4(pid, &status, 0, nil)
	require.NoError(t, err)
	require.Zero(t, status.ExitStatus())
	return string(out)
}

// TestAGigabyteThroughStdin sends it through a pipe, at the pace of the slower end.
func TestAGigabyteThroughStdin(t *testing.T) {
	const size = 1 << 30
	got := output(t, supervised(child, "read"), func(cmd *exec.Cmd) { cmd.Stdin = io.LimitReader(zeros{}, size) })
	require.Equal(t, result{Status: "exit status 0", Stdout: strconv.Itoa(size) + "\n"}, got)
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }
