// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A console is a pseudo-terminal with a process that leads the session, as in a
// container with tty: true.
type console struct {
	t      *testing.T
	master *os.File
	cmd    *exec.Cmd
	done   chan struct{} // closed when the process has ended
	read   chan struct{} // closed when its output has been read

	mu     sync.Mutex
	output bytes.Buffer
}

// onConsole starts argv, prepared by the functions, on a new console.
func onConsole(t *testing.T, argv []string, prepare ...func(*exec.Cmd)) *console {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	require.NoError(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)

	c := &console{t: t, master: master, cmd: exec.Command(argv[0], argv[1:]...), done: make(chan struct{}), read: make(chan struct{})}
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = slave, slave, slave
	c.cmd.SysProcAttr = &syscall.SysProcAttr{}
	for _, f := range prepare {
		f(c.cmd)
	}
	c.cmd.SysProcAttr.Setsid, c.cmd.SysProcAttr.Setctty = true, true
	require.NoError(t, c.cmd.Start())
	require.NoError(t, slave.Close())
	go c.readAll()
	go func() {
		_ = c.cmd.Wait()
		close(c.done)
	}()
	t.Cleanup(func() {
		_ = c.cmd.Process.Kill() // all other processes get SIGHUP from the terminal
		<-c.done
		_ = master.Close()
	})
	return c
}

func (c *console) readAll() {
	defer close(c.read)
	buf := make([]byte, 4096)
	for {
		n, err := c.master.Read(buf)
		c.mu.Lock()
		c.output.Write(buf[:n])
		c.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// lines returns the output, without the terminal's echo, which each test switches off.
func (c *console) lines() []string { return strings.Fields(c.text()) }

func (c *console) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.output.String()
}

func (c *console) waitFor(line string) {
	c.t.Helper()
	require.Eventually(c.t, func() bool { return slices.Contains(c.lines(), line) }, deadline, time.Millisecond,
		"no %q on the terminal", line)
}

func (c *console) enter(keys string) {
	c.t.Helper()
	_, err := c.master.WriteString(keys)
	require.NoError(c.t, err)
}

func (c *console) end() int {
	c.t.Helper()
	for _, ch := range []chan struct{}{c.done, c.read} {
		select {
		case <-ch:
		case <-time.After(deadline):
			require.Fail(c.t, "did not end in time", "%q", c.lines())
		}
	}
	return code(c.cmd.ProcessState)
}

// consoles runs a test without a supervisor, and under it in each place.
func consoles(t *testing.T, script string, test func(t *testing.T, c *console)) {
	argv := []string{"sh", "-c", "stty -echo; " + script}
	t.Run("bare", func(t *testing.T) { test(t, onConsole(t, argv)) })
	t.Run("wrapped", func(t *testing.T) { test(t, onConsole(t, supervised(argv...))) })
	t.Run("mode exec", func(t *testing.T) {
		test(t, onConsole(t, append([]string{entrypoint, "-mode=exec", "--"}, argv...)))
	})
	t.Run("wrapped as PID 1", func(t *testing.T) {
		needRoot(t, "a PID namespace")
		test(t, onConsole(t, supervised(argv...), asPID1))
	})
}

func TestTerminalReadsAndWrites(t *testing.T) {
	consoles(t, "echo ready; read x; echo got-$x; exit 3", func(t *testing.T, c *console) {
		c.waitFor("ready")
		c.enter("this\n")
		c.waitFor("got-this")
		require.Equal(t, 3, c.end())
	})
}

// TestCtrlCOnce checks that the command gets exactly one SIGINT.
func TestCtrlCOnce(t *testing.T) {
	script := "trap 'echo int' INT; echo ready; while ! read x; do :; done; exit 4"
	consoles(t, script, func(t *testing.T, c *console) {
		c.waitFor("ready")
		for i := range 3 {
			c.enter("\x03")
			require.Eventually(t, func() bool { return len(c.lines()) > 1+i }, deadline, time.Millisecond)
			time.Sleep(20 * time.Millisecond) // time for a second SIGINT
		}
		c.enter("end\n")
		require.Equal(t, 4, c.end())
		require.Equal(t, []string{"ready", "int", "int", "int"}, c.lines())
	})
}

func TestCtrlCKills(t *testing.T) {
	consoles(t, "echo ready; exec sleep 60", func(t *testing.T, c *console) {
		c.waitFor("ready")
		time.Sleep(30 * time.Millisecond) // until sleep has started
		c.enter("\x03")
		require.Equal(t, 128+int(syscall.SIGINT), c.end())
	})
}

// TestCtrlCEndsAPause, although the terminal belonged to the command, which has ended.
func TestCtrlCEndsAPause(t *testing.T) {
	t.Parallel()
	for _, argv := range [][]string{
		{entrypoint, "-pause=after-failure", "--", "sh", "-c", "stty -echo; exit 6"},
		{entrypoint, "-pause=after-failure", "--", "/missing"},
		{entrypoint, "-pause=before-start,after-failure", "-before-start=sh", "-before-start-arg=-c", "-before-start-arg=exit 6", "--", "true"},
	} {
		c := onConsole(t, argv)
		c.waitFor("after-failure:")
		c.enter("\x03")
		require.Contains(t, []int{6, 127}, c.end())
	}
}

// TestTheSecondExecHasTheTerminal: the first file that is found in PATH can't be
// executed, which its process finds out when it already has the terminal.
func TestTheSecondExecHasTheTerminal(t *testing.T) {
	broken, whole := t.TempDir(), t.TempDir()
	require.NoError(t, os.WriteFile(broken+"/tool", []byte("#!/missing\n"), 0o755))
	require.NoError(t, os.WriteFile(whole+"/tool", []byte("#!/bin/sh\nread x; echo got-$x; exit 6\n"), 0o755))
	c := onConsole(t, supervised("tool"), func(cmd *exec.Cmd) { cmd.Env = []string{"PATH=" + broken + ":" + whole} })
	c.enter("this\n")
	c.waitFor("got-this")
	require.Equal(t, 6, c.end())
}

// TestCtrlZStopsNothing in a container, where no shell could resume a stopped process.
// The kernel discards the signal for a bare process.
func TestCtrlZStopsNothing(t *testing.T) {
	consoles(t, "echo ready; read x; echo got-$x; exit 5", func(t *testing.T, c *console) {
		c.waitFor("ready")
		c.enter("\x1a")
		time.Sleep(50 * time.Millisecond)
		c.enter("this\n")
		c.waitFor("got-this")
		require.Equal(t, 5, c.end())
	})
}

// TestCtrlZBelowAScriptStopsNothing: the shell of a script is in the same process group
// as its children, and resumes nothing.
func TestCtrlZBelowAScriptStopsNothing(t *testing.T) {
	t.Parallel()
	for name, argv := range map[string][]string{"bare": nil, "wrapped": supervised()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			script := `stty -echo; "$@"; echo ended-$?`
			c := onConsole(t, slices.Concat([]string{"sh", "-c", script, "sh"}, argv, []string{"sh", "-c", "echo ready; read x; echo got-$x; exit 5"}))
			c.waitFor("ready")
			c.enter("\x1a")
			time.Sleep(50 * time.Millisecond)
			c.enter("this\n")
			c.waitFor("got-this")
			c.waitFor("ended-5")
		})
	}
}

// TestCtrlZUnderAShell stops and resumes a job. The shell on the console is bash, which
// has job control in scripts.
func TestCtrlZUnderAShell(t *testing.T) {
	t.Parallel()
	needBash(t)
	job := []string{"sh", "-c", "echo ready; read x; echo got-$x; exit 6"}
	for _, c := range []struct {
		name string
		argv []string
		stop syscall.Signal // the signal that the shell reports for its job
	}{
		{"bare", job, syscall.SIGTSTP},
		{"wrapped", supervised(job...), syscall.SIGSTOP},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			argv, stop := c.argv, c.stop
			script := `stty -echo; set -m; "$@"; echo stopped-$?; read y; echo resume-$y; fg >/dev/null; echo ended-$?; read z; echo mine-$z`
			c := onConsole(t, append([]string{"bash", "-c", script, "bash"}, argv...))
			c.waitFor("ready")
			c.enter("\x1a")
			c.waitFor(fmt.Sprint("stopped-", 128+int(stop)))
			c.enter("a\n")
			c.waitFor("resume-a")
			time.Sleep(50 * time.Millisecond)
			c.enter("b\n")
			c.waitFor("got-b")
			c.waitFor("ended-6")
			c.enter("c\n")
			c.waitFor("mine-c")
		})
	}
}

// needBash skips a test that needs bash's job control in scripts.
func needBash(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("no bash, whose job control this is about")
	}
}

// TestMessagesFromTheBackgroundArePrinted, although the terminal stops background
// processes that write to it.
func TestMessagesFromTheBackgroundArePrinted(t *testing.T) {
	t.Parallel()
	needBash(t)
	c := onConsole(t, []string{"bash", "-c", `stty -echo tostop; set -m; "$@"; echo ended-$?`, "bash", entrypoint, "-timeout=200ms", "--", "sleep", "60"})
	c.waitFor("ended-124")
	require.Contains(t, c.text(), "the command timed out after 200ms")
}

func TestWindowSize(t *testing.T) {
	script := "trap 'stty size | tr \" \" x' WINCH; echo ready; while ! read x; do :; done"
	consoles(t, script, func(t *testing.T, c *console) {
		c.waitFor("ready")
		require.NoError(t, unix.IoctlSetWinsize(int(c.master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 33, Col: 77}))
		c.waitFor("33x77")
		c.enter("end\n")
		require.Zero(t, c.end())
	})
}

// TestABackgroundJobStaysInTheBackground: the supervisor is started in the background
// of a shell that reads from the terminal.
func TestABackgroundJobStaysInTheBackground(t *testing.T) {
	t.Parallel()
	script := `stty -echo; set -m; "$@" & echo ready; sleep 0.1; read x; echo got-$x; wait`
	c := onConsole(t, append([]string{"sh", "-c", script, "sh"}, supervised("sh", "-c", "sleep 0.2; echo child")...))
	c.waitFor("ready")
	time.Sleep(50 * time.Millisecond)
	c.enter("this\n")
	c.waitFor("got-this")
	c.waitFor("child")
	require.Zero(t, c.end())
}
