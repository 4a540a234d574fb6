// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// rows are those of the table in docs/supervisor.md, in its order.
var rows = finished(slices.Concat(endRows, signalRows, terminalRows, lookRows, startRows))

// finished sets the default place in rows without one.
func finished(rows []row) []row {
	for i := range rows {
		if rows[i].place == nil {
			rows[i].place = asSubreaper
		}
	}
	return rows
}

var endRows = []row{
	{
		name:    "exit codes",
		observe: exitCodes,
	},
	{
		name:    "1,000 orphans end, as PID 1",
		observe: func(t *testing.T, s subject) string { return orphans(t, s, 1000) },
		why:     "a supervisor reaps orphans",
		place:   asPID1,
		needs:   "a PID namespace",
	},
	{
		name:    "a descendant holds stdout open",
		observe: func(t *testing.T, s subject) string { return survivor(t, s, "sh") },
	},
	{
		name:    "a daemon is left behind",
		observe: func(t *testing.T, s subject) string { return survivor(t, s, "setsid sh") },
	},
	{
		name:    "a daemon is left behind, as PID 1",
		observe: func(t *testing.T, s subject) string { return survivor(t, s, "setsid sh") },
		place:   asPID1,
		needs:   "a PID namespace",
	},
}

func exitCodes(t *testing.T, s subject) string {
	const script = `n=$1; shift; for i in 0 1 2 3 4 5 6 7; do "$@" sh -c "exit $((n+i))"; echo $?; done`
	var codes []string
	for n := 0; n < 256; n += 8 {
		got := output(t, append([]string{"sh", "-c", script, "sh", strconv.Itoa(n)}, s.argv()...), s.place)
		require.Empty(t, got.Stderr)
		codes = append(codes, strings.Fields(got.Stdout)...)
	}
	require.Len(t, codes, 256)
	seen := make(outcomes)
	for n, code := range codes {
		if code == strconv.Itoa(n) {
			seen.add("as they are", n)
		} else {
			seen.add("become "+code, n)
		}
	}
	return seen.String()
}

func orphans(t *testing.T, s subject, many int) string {
	p := begin(t, s.argv(child, "orphans", strconv.Itoa(many)), s.place)
	p.expect("made")
	pid := p.Process.Pid
	var alive []int
	require.Eventually(t, func() bool {
		alive = childrenInState(pid, "RSDTtI")
		return s.bare() && len(alive) == 0 || len(alive) == 1
	}, deadline, 60*time.Millisecond)
	settle(t, pid) // all orphans have ended, and the supervisor has reaped those that it reaps
	zombies := len(childrenInState(pid, "Z"))
	p.kill(append(alive, pid)[0])
	if zombies == 0 {
		return "no zombies"
	}
	return fmt.Sprint(zombies, " zombies")
}

// survivor lets the command start a shell that ends only at the test's request, and
// then end itself.
func survivor(t *testing.T, s subject, shell string) string {
	end, hold, err := os.Pipe()
	require.NoError(t, err)
	defer hold.Close()
	script := shell + " -c 'echo ready; exec cat <&3' & read x; exit 8"
	input, release, err := os.Pipe()
	require.NoError(t, err)
	p := begin(t, s.argv("sh", "-c", script), s.place, func(cmd *exec.Cmd) {
		cmd.Stdin = input
		cmd.ExtraFiles = []*os.File{end}
	})
	require.NoError(t, end.Close())
	require.NoError(t, input.Close())
	p.expect("ready")
	survivor := childOf(t, s.command(t, p.Process))
	require.NoError(t, release.Close())
	seen := fmt.Sprintf("exit code %d", p.end())
	settle(t, survivor)
	poll := []unix.PollFd{{Fd: int32(hold.Fd())}}
	_, err = unix.Poll(poll, 0)
	require.NoError(t, err)
	if poll[0].Revents&unix.POLLERR != 0 { // the other end is closed
		return seen + ", and it ends"
	}
	return seen + ", and it lives on"
}

var terminalRows = []row{
	{
		name:    "terminal: signals of Ctrl-C, Ctrl-Z, Ctrl-\\ and a change of window size",
		observe: keys,
	},
	{
		name:    "terminal: Ctrl-Z, then reading",
		observe: reading,
	},
	{
		name:    "terminal: role of the process",
		observe: standing,
		why: "the process stays in the supervisor's session, and so keeps its controlling terminal; " +
			"the process has its own process group, so a key's signal reaches it only once",
	},
}

// press types a key that raises a signal, and waits for the key's echo, which follows
// the signal.
func (c *console) press(key byte) {
	c.t.Helper()
	c.enter(string(key - '@'))
	require.Eventually(c.t, func() bool { return strings.Contains(c.text(), "^"+string(key)) }, deadline, time.Millisecond)
}

// echoing is a shell command that makes the terminal echo a key that raises a signal,
// without discarding other text.
const echoing = "stty echo echoctl noflsh; "

func keys(t *testing.T, s subject) string {
	const script = "trap 'echo 2' INT; trap 'echo 3' QUIT; trap 'echo 20' TSTP; trap 'echo 28' WINCH; " + waitForSignals
	c := onConsole(t, s.argv("sh", "-c", echoing+script), s.place)
	c.waitFor("ready")
	command := s.command(t, c.cmd.Process)
	for _, key := range "CZ\\" {
		c.press(byte(key))
		settle(t, c.cmd.Process.Pid, command)
	}
	require.NoError(t, unix.IoctlSetWinsize(int(c.master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 33, Col: 77}))
	settle(t, c.cmd.Process.Pid, command)
	require.NoError(t, syscall.Kill(command, syscall.SIGKILL))
	c.end()
	text := strings.NewReplacer("ready", "", "^C", "", "^Z", "", "^\\", "").Replace(c.text())
	return strings.Join(strings.Fields(text), ", ")
}

func reading(t *testing.T, s subject) string {
	c := onConsole(t, s.argv("sh", "-c", echoing+"echo ready; read x; echo got-$x; exit 5"), s.place)
	c.waitFor("ready")
	command := s.command(t, c.cmd.Process)
	c.press('Z')
	settle(t, c.cmd.Process.Pid, command)
	if state(command) == "T" {
		require.NoError(t, syscall.Kill(command, syscall.SIGKILL))
		return "it stays stopped"
	}
	c.enter("this\n")
	code := c.end()
	if !slices.Contains(c.lines(), "got-this") {
		return fmt.Sprintf("no line, exit code %d", code)
	}
	return fmt.Sprintf("a line, exit code %d", code)
}

// standing describes a process's relation to its terminal.
func standing(t *testing.T, s subject) string {
	c := onConsole(t, s.argv("sh", "-c", "stty -echo; echo ready; read x"), s.place)
	c.waitFor("ready")
	command := s.command(t, c.cmd.Process)
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", command))
	require.NoError(t, err)
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')'):])) // from the third on, see proc(5)
	pid, group, session, terminal, foreground := strconv.Itoa(command), fields[3], fields[4], fields[5], fields[6]
	var seen []string
	for what, is := range map[string]bool{
		"in the foreground":   foreground == group,
		"leads its group":     group == pid,
		"leads its session":   session == pid,
		"on no terminal":      terminal == "0",
		"not that of its own": foreground != group && terminal != "0",
	} {
		if is {
			seen = append(seen, what)
		}
	}
	slices.Sort(seen)
	require.NoError(t, syscall.Kill(command, syscall.SIGKILL))
	c.end()
	return strings.Join(seen, ", ")
}

// A look is a row in which a process describes itself.
func look(name, prepare, command, why string) row {
	return row{name: name, why: why, observe: func(t *testing.T, s subject) string {
		got := output(t, s.prepared(prepare, "sh", "-c", command), s.place, func(cmd *exec.Cmd) { cmd.Dir = t.TempDir() })
		if got.Code != 0 {
			require.NotEqual(t, "bare", s.name, got.Stderr)
			return fmt.Sprintf("exit code %d", got.Code)
		}
		return strings.Join(strings.Fields(got.Stdout), " ")
	}}
}

// fields is a shell command that prints fields of the shell's /proc status.
func fields(names string) string {
	return "grep -E '^(" + names + "):' /proc/self/status | cut -d: -f2"
}

func withRoot(r row, needs string) row {
	r.needs = needs
	return r
}

func asInit(r row) row {
	r.place = asPID1
	return withRoot(r, "a PID namespace")
}

const prepareFD = "exec 3</dev/null 7>/dev/null 9>&2"

var lookRows = []row{
	asInit(look("process ID, as PID 1", "", `[ $$ = 1 ] && echo 1 || echo "not 1"`,
		"the supervisor has process ID 1; use `mode: exec` for programs that need it")),
	{name: "argv", observe: argv},
	{name: "environment", observe: environment},
	{name: "stdin, stdout and stderr", observe: sameFiles},
	{name: "1 MiB from stdin to stdout", observe: through},
	look("stdin, at its end", "exec </dev/null", "read x || echo at its end", ""),
	look("stdin, closed", "exec <&-", "if [ -e /proc/$$/fd/0 ]; then readlink /proc/$$/fd/0; else echo closed; fi",
		"the Go runtime opens /dev/null as stdin before the supervisor's code runs, so that no other file gets descriptor 0; container runtimes close none of the three descriptors"),
	look("descriptors from 3 to 9", prepareFD,
		"for i in 3 4 5 6 7 8 9; do [ ! -e /proc/$$/fd/$i ] || echo $i; done", ""),
	look("working directory, deleted", "mkdir gone; cd gone; rmdir ../gone", "readlink /proc/$$/cwd | grep -o '/gone (deleted)'", ""),
	look("umask", "umask 027", "umask", ""),
	look("limits: open files, core, stack, processes; soft and hard",
		`set -- prlimit --nofile=50:100 --core=0:1 --stack=4000000:8000000 --nproc=5000:6000 "$@"`,
		"prlimit --raw --noheadings --output=SOFT,HARD --nofile --core --stack --nproc", ""),
	look("nice", `set -- nice -n $((5 - $(nice))) "$@"`, "nice", ""),
	look("OOM score", "echo 500 >/proc/self/oom_score_adj", "cat /proc/self/oom_score_adj", ""),
	look("no_new_privs", `set -- setpriv --no-new-privs "$@"`, fields("NoNewPrivs"), ""),
	withRoot(look("user and groups", `set -- setpriv --reuid 65534 --regid 65534 --groups 1,2 "$@"`, fields("Uid|Gid|Groups"), ""),
		"becoming nobody"),
	withRoot(look("ambient capabilities of nobody", `set -- setpriv --reuid 65534 --inh-caps +net_bind_service --ambient-caps +net_bind_service "$@"`,
		fields("CapInh|CapPrm|CapEff|CapAmb"), ""), "giving capabilities"),
}

func argv(t *testing.T, s subject) string {
	line := s.argv("/bin/cat", "/proc/self/cmdline", "/dev/null", "--")
	return quoted(raw(t, line[0], line, nil))
}

// environment is one that no shell would set, see TestEnvironmentByteForByte.
func environment(t *testing.T, s subject) string {
	line := s.argv("/bin/cat", "/proc/self/environ")
	return quoted(raw(t, line[0], line, []string{"A=1", "A=2", "=x", "noequals", "", "\xff=\xfe"}))
}

// quoted prints a list of NUL-terminated strings in Go's syntax.
func quoted(list string) string {
	parts := strings.Split(strings.TrimSuffix(list, "\x00"), "\x00")
	for i := range parts {
		parts[i] = strconv.Quote(parts[i])
	}
	return "`" + strings.Join(parts, " ") + "`"
}

// sameFiles compares the command's descriptors with those given to the supervisor.
func sameFiles(t *testing.T, s subject) string {
	pipes := make([]*os.File, 3)
	want := ""
	for i := range pipes {
		read, write, err := os.Pipe()
		require.NoError(t, err)
		defer read.Close()
		defer write.Close()
		pipes[i] = write
		if i == 0 {
			pipes[i] = read
		}
		target, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", pipes[i].Fd()))
		require.NoError(t, err)
		want += target + "\n"
	}
	file, err := os.Create(t.TempDir() + "/seen")
	require.NoError(t, err)
	defer file.Close()
	got := output(t, s.argv("sh", "-c", `x=$(readlink /proc/$$/fd/0 /proc/$$/fd/1 /proc/$$/fd/2); echo "$x" >&3`), s.place, func(cmd *exec.Cmd) {
		cmd.Stdin, cmd.Stdout, cmd.Stderr = pipes[0], pipes[1], pipes[2]
		cmd.ExtraFiles = []*os.File{file}
	})
	require.Zero(t, got.Code)
	seen, err := os.ReadFile(file.Name())
	require.NoError(t, err)
	if string(seen) == want {
		return "those that were given"
	}
	return "others"
}

func through(t *testing.T, s subject) string {
	data := bytes.Repeat([]byte("all bytes but a few\x00\xff\n"), 1<<20/22)
	got := output(t, s.argv("cat"), s.place, func(cmd *exec.Cmd) { cmd.Stdin = io.LimitReader(bytes.NewReader(data), 1<<20) })
	require.Zero(t, got.Code)
	if got.Stdout == string(data) {
		return "to the byte"
	}
	return fmt.Sprintf("%d bytes of %d", len(got.Stdout), len(data))
}
