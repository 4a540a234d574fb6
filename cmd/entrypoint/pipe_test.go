// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A piped container has an order directory and a directory for its pipe. Any user may
// write to them, like to an emptyDir.
type piped struct {
	t   testing.TB
	dir string
}

type aRow []piped

// inARow returns containers, each of which reads the output of the one before.
func inARow(t testing.TB, names ...string) (row aRow) {
	t.Helper()
	root := t.TempDir()
	for d := root; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		require.NoError(t, os.Chmod(d, 0o777))
	}
	for _, name := range names {
		dir := filepath.Join(root, name)
		for _, d := range []string{dir, dir + ".stdin"} {
			require.NoError(t, os.Mkdir(d, 0o777))
			require.NoError(t, os.Chmod(d, 0o777))
		}
		row = append(row, piped{t, dir})
	}
	return row
}

// writer and reader are two containers connected by a pipe.
func writerAndReader(t testing.TB) (writer, reader piped) {
	t.Helper()
	row := inARow(t, "a", "b")
	return row[0], row[1]
}

// from and to are the flags that connect a container with the next one.
func (c piped) from(writer piped) string { return "-stdin-from=" + writer.dir }
func (c piped) to(reader piped) string   { return "-stdout-to=" + reader.dir }

// lives starts an incarnation of the container.
func (c piped) lives(args ...string) *process {
	c.t.Helper()
	return begin(c.t, append([]string{entrypoint, "-order-dir=" + c.dir}, args...))
}

// incarnation is the name of the current incarnation.
func (c piped) incarnation() string {
	c.t.Helper()
	var name []byte
	require.Eventually(c.t, func() bool {
		name, _ = os.ReadFile(c.dir + "/lock")
		return len(name) > 0
	}, deadline, time.Millisecond)
	return string(name)
}

// pipes are the names of the container's pipes.
func (c piped) pipes() (names []string) {
	entries, err := os.ReadDir(c.dir + ".stdin")
	require.NoError(c.t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func rest(p *process) string {
	var b strings.Builder
	for line := range p.lines {
		b.WriteString(line + "\n")
	}
	return b.String()
}

// script returns the argv of a shell.
func script(text string) []string { return []string{"--", "sh", "-c", text} }

func TestContainersInARowAreAPipeline(t *testing.T) {
	t.Parallel()
	const first, second, third = "seq 1 50000; seq 1 2 99999", "sort", "uniq -c"
	want := output(t, []string{"sh", "-c", "{ " + first + "; } | " + second + " | " + third}).Stdout
	// The containers may start in any order: there are six.
	for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		row := inARow(t, "a", "b", "c")
		args := [][]string{
			append([]string{row[0].to(row[1])}, script(first)...),
			append([]string{row[1].from(row[0]), row[1].to(row[2])}, script(second)...),
			append([]string{row[2].from(row[1])}, script(third)...),
		}
		var all [3]*process
		for n, at := range order {
			all[at] = row[at].lives(args[at]...)
			if n == 0 && mathrand.IntN(2) == 0 {
				waits(t, all[at])
			}
		}
		require.Equal(t, want, rest(all[2]))
		for at, p := range all {
			require.Zero(t, p.end(), order)
			require.Empty(t, row[at].pipes(), "a pipe is left")
		}
		require.Empty(t, rest(all[0])+rest(all[1]), "what goes to the pipe goes nowhere else")
	}
}

func TestAPipeTakesAnyBytes(t *testing.T) {
	data := make([]byte, 16<<20)
	_, _ = rand.Read(data)
	row := inARow(t, "a", "b", "c")
	file := row[0].dir + "/data"
	require.NoError(t, os.WriteFile(file, data, 0o600))
	row[0].lives(row[0].to(row[1]), "--", "cat", file)
	row[1].lives(row[1].from(row[0]), row[1].to(row[2]), "--", "cat")
	p := row[2].lives(row[2].from(row[1]), "--", "sha256sum")
	p.expect(fmt.Sprintf("%x  -", sha256.Sum256(data)))
	require.Zero(t, p.end())
}

// TestAReaderThatEndsEarlySucceeds, although the writer fails because of the reader's
// end.
func TestAReaderThatEndsEarlySucceeds(t *testing.T) {
	t.Parallel()
	for range 30 {
		writer, reader := writerAndReader(t)
		a := writer.lives(writer.to(reader), "--", "yes")
		b := reader.lives(reader.from(writer), "--", "head", "-n", "1")
		b.expect("y")
		require.Zero(t, b.end())
		require.Equal(t, 128+int(syscall.SIGPIPE), a.end())
	}
}

func TestAnIncompleteInputFailsTheReader(t *testing.T) {
	t.Parallel()
	const (
		incomplete = `entrypointer: reading the output of container "a": `
		half       = ": the output may be incomplete, so the command's success doesn't count: see the log of that container\n"
	)
	for name, test := range map[string]struct {
		flags  []string
		writer string // continues with this script once the reader has read a line
		kill   bool
		reader string
		code   int
		says   string // by the reader's container
	}{
		"a writer that fails":              {writer: "exit 3", code: 123, says: incomplete + "it exited with 3" + half},
		"a writer that is killed":          {kill: true, code: 123, says: incomplete + "it ended without reporting an exit code, as after SIGKILL or for lack of memory" + half},
		"a writer whose command is killed": {writer: "kill -9 $$", code: 123, says: incomplete + "it exited with 137" + half},
		"a writer that takes too long":     {flags: []string{"-timeout=5s"}, writer: "exec sleep 60", code: 123, says: incomplete + "it exited with 124" + half},
		"a writer that succeeds":           {},
		"a writer whose failure is none":   {flags: []string{"-success-exit-codes=3"}, writer: "exit 3"},
		"a writer that has more to do":     {writer: "exec >&-; exec sleep 60"},
		"a reader that has had enough":     {kill: true, reader: "exec <&-; exec sleep 0.1"}, // the writer is killed after the reader's end
		"a writer that leaves an orphan":   {writer: "sleep 5 2>/dev/null & exit 3", reader: "until grep -q ended ../a/state; do sleep 0.01; done; exec true", code: 123, says: incomplete + "it exited with 3" + half},
		"a reader that fails itself":       {writer: "exit 3", reader: "cat; exit 5", code: 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			writer, reader := writerAndReader(t)
			goOn := writer.dir + "/go"
			a := writer.lives(append(append([]string{writer.to(reader)}, test.flags...), script("echo line; until [ -e "+goOn+" ]; do sleep 0.01; done; "+test.writer)...)...)
			b := reader.lives(append([]string{reader.from(writer)}, script("read line; echo $line; cd "+reader.dir+"; "+cmp.Or(test.reader, "cat"))...)...)
			b.expect("line")
			switch {
			case test.reader != "" && test.kill:
				require.Zero(t, b.end())
				a.kill(a.Process.Pid)
			case test.kill:
				a.kill(a.Process.Pid)
			default:
				require.NoError(t, os.WriteFile(goOn, nil, 0o600))
			}
			require.Equal(t, test.says, rest(b))
			require.Equal(t, test.code, b.end())
			a.kill(a.Process.Pid)
		})
	}
}

// TestAReaderThatWasToldToReloadWaitsForItsWriter: only a stop shortens the wait for the
// writer's result.
func TestAReaderThatWasToldToReloadWaitsForItsWriter(t *testing.T) {
	t.Parallel()
	for name, sig := range map[string]syscall.Signal{"HUP": syscall.SIGHUP, "INT": syscall.SIGINT, "QUIT": syscall.SIGQUIT} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			writer, reader := writerAndReader(t)
			goOn := writer.dir + "/go"
			until := "until [ -e " + goOn + " ]; do sleep 0.01; done; "
			a := writer.lives(append([]string{writer.to(reader)}, script(until+"exec >&-; sleep 0.5; exit 3")...)...)
			b := reader.lives(append([]string{reader.from(writer)}, script("trap 'echo reloaded' "+name+"; echo up; "+until+"exec cat")...)...)
			b.expect("up")
			b.send(sig)
			b.expect("reloaded")
			create(t, goOn)
			require.Contains(t, b.line(), `reading the output of container "a": it exited with 3`)
			require.Equal(t, 123, b.end())
			require.Equal(t, 3, a.end())
		})
	}
}

// onceItFailed is the message of a container that isn't started.
const onceItFailed = "which is not restarted: the command was not started: see the log of container"

func TestAContainerStopsWaitingForAPartnerThatHasEndedForGood(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		args  []string // args of the container that ends
		final string   // the exit codes after which it isn't restarted
		reads bool     // the writer is the container that ends
		waits bool
		says  string
	}{
		"a writer that fails before its start":        {args: []string{"-before-start=false", "--", "true"}, reads: true, final: "0-255", says: "waiting for a:writing (it exited with 1), "},
		"a writer that is started again":              {args: []string{"-before-start=false", "--", "true"}, reads: true, final: "0", waits: true},
		"a reader that fails before its start":        {args: []string{"-before-start=false", "--", "true"}, final: "1-255", says: "waiting for b:reading (it exited with 1), "},
		"a reader that is started again":              {args: []string{"-before-start=false", "--", "true"}, waits: true},
		"a reader that has read all":                  {args: []string{"--", "true"}, final: "0", says: "waiting for b:reading (it exited with 0), "},
		"a reader that reads again, whatever happens": {args: []string{"--", "true"}, waits: true},
		"a writer that has written all":               {args: []string{"--", "true"}, reads: true, final: "0", says: "waiting for a:writing (it exited with 0), "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			writer, reader := writerAndReader(t)
			ends, other, flag := reader, writer, writer.to(reader)
			if test.reads {
				ends, other, flag = writer, reader, reader.from(writer)
			}
			ends.lives(test.args...).end() // its end of the pipe belongs to another incarnation
			args := []string{flag}
			if test.final != "" {
				args = append(args, "-final-exit-codes="+test.final+":"+ends.dir)
			}
			p := other.lives(append(args, "--", "cat")...)
			if test.waits {
				waits(t, p)
				p.send(syscall.SIGTERM)
				require.Contains(t, p.line(), "ended by SIGTERM during the wait for ")
				require.Equal(t, 143, p.end())
				require.Empty(t, other.pipes())
				return
			}
			line := p.line()
			require.Contains(t, line, test.says+onceItFailed)
			require.Equal(t, 123, p.end())
		})
	}
}

// TestAWaitForTheOtherEndEnds by its time limit and by a signal, and leaves no pipe. A
// container that is killed leaves one until its next incarnation.
func TestAWaitForTheOtherEndEnds(t *testing.T) {
	writer, reader := writerAndReader(t)
	a := writer.lives(writer.to(reader), "-depends-on-timeout=50ms", "--", "echo", "started")
	require.Contains(t, a.line(), "waiting for b:reading (the container has not started yet): not met after 50ms")
	require.Equal(t, 124, a.end())

	hook := t.TempDir() + "/go"
	a = writer.lives(writer.to(reader), "-before-start=sh", "-before-start-arg=-c", "-before-start-arg=until [ -e "+hook+" ]; do sleep 0.01; done", "--", "echo", "line")
	b := reader.lives(reader.from(writer), "-depends-on-timeout=2s", "-status-file="+reader.dir+"/status", "--", "cat")
	childOf(t, a.Process.Pid)
	status, err := os.ReadFile(reader.dir + "/status")
	require.NoError(t, err)
	require.Contains(t, string(status), `"waitingFor":[{"container":"a","condition":"writing","seen":"the command has not started yet"`)
	require.Contains(t, b.line(), "waiting for a:writing (the command has not started yet): not met after 2s")
	require.Equal(t, 124, b.end())
	require.Empty(t, reader.pipes())

	b = reader.lives(reader.from(writer), "--", "cat")
	require.Eventually(t, func() bool { return len(reader.pipes()) == 1 }, deadline, time.Millisecond)
	b.kill(b.Process.Pid)
	left := reader.pipes()
	require.Len(t, left, 1)
	b = reader.lives(reader.from(writer), "--", "cat")
	require.Eventually(t, func() bool { p := reader.pipes(); return len(p) == 1 && p[0] != left[0] }, deadline, time.Millisecond)

	// The writer, which runs its hook, notices that its first two readers are gone.
	require.NoError(t, os.WriteFile(hook, nil, 0o600))
	b.expect("line")
	require.Zero(t, b.end())
	require.Zero(t, a.end())
}

// TestEachPairOfIncarnationsHasItsOwnPipe, so no incarnation reads the output for
// another one.
func TestEachPairOfIncarnationsHasItsOwnPipe(t *testing.T) {
	t.Parallel()
	writer, reader := writerAndReader(t)
	a := writer.lives(writer.to(reader), "--", "sh", "-c", "trap '' PIPE; echo one; exec sleep 60")
	b := reader.lives(reader.from(writer), "--", "sh", "-c", "read line; echo $line; exec sleep 60")
	b.expect("one")

	// The next reader gets no pipe from a writer that has already started.
	b.kill(b.Process.Pid)
	b = reader.lives(reader.from(writer), "-depends-on-timeout=1s", "--", "cat")
	require.Contains(t, b.line(), "waiting for a:writing (the command has started, but is connected to an earlier incarnation of this container): not met")
	b = reader.lives(reader.from(writer), "--", "cat")
	waits(t, b)
	a.kill(a.Process.Pid)
	waits(t, b)
	a = writer.lives(writer.to(reader), "--", "echo", "two")
	b.expect("two")
	require.Zero(t, a.end())
	require.Zero(t, b.end())

	// The next writer gets no reader either, until the current reader has ended. That
	// one fails, because its writer has failed.
	a = writer.lives(writer.to(reader), "--", "sh", "-c", "echo three; exec sleep 60")
	waits(t, a) // so that the next reader doesn't see its earlier incarnation, which has completed
	b = reader.lives(reader.from(writer), onFailure(writer.dir), "--", "sh", "-c", "read line; echo $line; cat; read line <"+reader.dir+"/go; exit 0")
	require.NoError(t, syscall.Mkfifo(reader.dir+"/go", 0o600))
	b.expect("three")
	a.kill(a.Process.Pid)
	a = writer.lives(writer.to(reader), "--", "echo", "four")
	waits(t, a)
	require.NoError(t, os.WriteFile(reader.dir+"/go", []byte("\n"), 0o600))
	require.Contains(t, b.line(), `reading the output of container "a": it ended without reporting an exit code, and was started again`)
	require.Equal(t, 123, b.end())
	b = reader.lives(reader.from(writer), "--", "cat")
	b.expect("four")
	require.Zero(t, a.end())
	require.Zero(t, b.end())
}

// TestTheOutcomeOfAWriterThatIsAlwaysRestartedIsRecorded before its next incarnation
// replaces the state.
func TestTheOutcomeOfAWriterThatIsAlwaysRestartedIsRecorded(t *testing.T) {
	t.Parallel()
	for code, want := range map[int]int{0: 0, 3: 123} {
		writer, reader := writerAndReader(t)
		// Each command has a FIFO of its own: it could open another one's while that is closed.
		for _, name := range []string{"/end", "/go"} {
			require.NoError(t, syscall.Mkfifo(reader.dir+name, 0o600))
		}
		a := writer.lives(writer.to(reader), "--", "sh", "-c", fmt.Sprint("read line <", reader.dir, "/end; exit ", code))
		b := reader.lives(reader.from(writer), "--", "sh", "-c", "echo started; cat; read line <"+reader.dir+"/go")
		b.expect("started")
		require.NoError(t, os.WriteFile(reader.dir+"/end", []byte("\n"), 0o600))
		require.Equal(t, code, a.end())
		time.Sleep(2 * time.Second) // the kubelet takes at least as long; the supervisor looks twice a second
		a = writer.lives(writer.to(reader), "--", "true")
		waits(t, a)
		require.NoError(t, os.WriteFile(reader.dir+"/go", []byte("\n"), 0o600))
		require.Equal(t, want, b.end())
	}
}

// TestOnlyTheCommandHasThePipe: hooks and probes neither read nor write it, and no
// other process than the reader's supervisor keeps a descriptor.
func TestOnlyTheCommandHasThePipe(t *testing.T) {
	t.Parallel()
	writer, reader := writerAndReader(t)
	hook := []string{"-before-start=sh", "-before-start-arg=-c", "-before-start-arg=echo hook; cat"}
	a := writer.lives(append(append([]string{writer.to(reader)}, hook...), "-ready-exec=sh", "-ready-exec=-c", "-ready-exec=echo probe; exit 1",
		"--", "sh", "-c", "echo line; echo said >&2; exec sleep 60")...)
	b := reader.lives(append(append([]string{reader.from(writer)}, hook...), "--", "sh", "-c", "read line; echo $line; exec sleep 60")...)
	a.expect("hook")
	a.expect("said")
	b.expect("hook")
	b.expect("line")
	links := func(pid int) (of map[string]string) {
		of = map[string]string{}
		names, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/fd/*")
		require.NoError(t, err)
		for _, name := range names {
			of[filepath.Base(name)], _ = os.Readlink(name)
		}
		return of
	}
	hasPipe := func(pid int) (n int) {
		for _, to := range links(pid) {
			if strings.Contains(to, "b.stdin/") {
				n++
			}
		}
		return n
	}
	var writes int
	require.Eventually(t, func() bool { // probes come and go
		for _, pid := range children(a.Process.Pid) {
			if filepath.Base(executable(pid)) == filepath.Base(executable(childOf(t, b.Process.Pid))) && strings.Contains(links(pid)["1"], "b.stdin/") {
				writes = pid
				return true
			}
		}
		return false
	}, deadline, time.Millisecond)
	reads := childOf(t, b.Process.Pid)
	require.Contains(t, links(reads)["0"], "b.stdin/")
	require.Equal(t, 1, hasPipe(writes))
	require.Equal(t, 1, hasPipe(reads))
	require.Zero(t, hasPipe(a.Process.Pid))
	require.Equal(t, 1, hasPipe(b.Process.Pid))
	// A read of the pipe blocks until there are bytes, as programs expect of stdin.
	for pid, fd := range map[int]string{reads: "0", writes: "1"} {
		info, err := os.ReadFile(fmt.Sprintf("/proc/%d/fdinfo/%s", pid, fd))
		require.NoError(t, err)
		var flags int
		_, err = fmt.Sscanf(strings.SplitAfter(string(info), "flags:")[1], "%o", &flags)
		require.NoError(t, err)
		require.Zero(t, flags&syscall.O_NONBLOCK)
	}
	require.Equal(t, "0000000000000000", statusField(t, writes, "SigIgn"))
	a.kill(a.Process.Pid)
	require.Equal(t, 143, func() int { b.send(syscall.SIGTERM); return b.end() }())
}

// TestAHostileReaderOnlyDelays its writer, whatever it creates in place of the pipe.
func TestAHostileReaderOnlyDelays(t *testing.T) {
	t.Parallel()
	for name, place := range map[string]func(at, victim string) error{
		"a link to a file": func(at, victim string) error { return os.Symlink(victim, at) },
		"a link to a pipe": func(at, victim string) error {
			if err := syscall.Mkfifo(at+".real", 0o666); err != nil {
				return err
			}
			return os.Symlink(at+".real", at)
		},
		"a file":       func(at, _ string) error { return os.WriteFile(at, nil, 0o666) },
		"a directory":  func(at, _ string) error { return os.Mkdir(at, 0o777) },
		"a device":     func(at, _ string) error { return os.Symlink("/dev/null", at) },
		"another name": func(at, victim string) error { return os.Link(victim, at) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			writer, reader := writerAndReader(t)
			victim := reader.dir + "/victim"
			require.NoError(t, os.WriteFile(victim, []byte("untouched"), 0o666))
			hostile := reader.lives("--", "sleep", "60")
			a := writer.lives(writer.to(reader), "--", "echo", "line")
			at := reader.dir + ".stdin/stdin." + writer.incarnation() + "." + reader.incarnation()
			require.NoError(t, place(at, victim))
			require.Equal(t, "entrypointer: waiting for b:reading: its pipe can't be opened: not a pipe: if this lasts, delete the pod", a.line())
			waits(t, a)
			data, err := os.ReadFile(victim)
			require.NoError(t, err)
			require.Equal(t, "untouched", string(data))
			hostile.kill(hostile.Process.Pid)
			b := reader.lives(reader.from(writer), "--", "cat")
			b.expect("line")
			require.Zero(t, b.end())
			require.Zero(t, a.end())
		})
	}
}

// TestAPipeThatIsNeverRead delays the writer until the writer is stopped or times out.
func TestAPipeThatIsNeverRead(t *testing.T) {
	t.Parallel()
	for name, flags := range map[string][]string{"stopped": nil, "out of time": {"-timeout=300ms"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			writer, reader := writerAndReader(t)
			b := reader.lives(reader.from(writer), "--", "sh", "-c", "echo started; exec sleep 60")
			a := writer.lives(append(append([]string{writer.to(reader)}, flags...), "--", "yes")...)
			b.expect("started")
			if flags == nil {
				childOf(t, a.Process.Pid)
				a.send(syscall.SIGTERM)
				require.Equal(t, 143, a.end())
			} else {
				require.Contains(t, a.line(), "timed out")
				require.Equal(t, 124, a.end())
			}
		})
	}
}

// TestAWriterCannotFakeAPipe: whatever a writer publishes, no reader starts on a pipe
// that the writer hasn't opened.
func TestAWriterCannotFakeAPipe(t *testing.T) {
	t.Parallel()
	writer, reader := writerAndReader(t)
	hostile := writer.lives("--", "sleep", "60")
	hasSaid(t, writer.dir, "started")
	b := reader.lives(reader.from(writer), "--", "echo", "started")
	waits(t, b)
	state, err := os.ReadFile(writer.dir + "/state")
	require.NoError(t, err)
	for _, says := range []string{
		strings.Replace(string(state), "\nbeat", "\npipe "+reader.incarnation()+"\nbeat", 1), // which has made none for it
		strings.Replace(string(state), "phase started", "phase ended", 1),
		"garbage",
	} {
		require.NoError(t, os.WriteFile(writer.dir+"/new", []byte(says), 0o666))
		require.NoError(t, os.Rename(writer.dir+"/new", writer.dir+"/state"))
		waits(t, b)
	}
	hostile.kill(hostile.Process.Pid)
	b.send(syscall.SIGTERM)
	require.Equal(t, 143, b.end())
}

// TestAPipeBetweenUsers: the two have different users, a umask without any permissions,
// and read-only roots. The reader's directory is read-only for the writer.
func TestAPipeBetweenUsers(t *testing.T) {
	t.Parallel()
	needRoot(t, "namespaces")
	for _, users := range [][2]int{{1000, 2000}, {2000, 1000}, {0, 1000}, {1000, 0}, {1000, 1000}} {
		writer, reader := writerAndReader(t)
		in := func(own, other piped, user int, args ...string) *process {
			t.Helper()
			mount := "umask 077; "
			for _, dir := range []string{own.dir, own.dir + ".stdin", other.dir, other.dir + ".stdin"} {
				mount += "mount --bind " + dir + " " + dir + "; "
			}
			mount += "mount -o remount,bind,ro " + other.dir + "; mount -o remount,bind,ro " + other.dir + ".stdin; mount -o remount,bind,ro /; "
			id := strconv.Itoa(user)
			argv := append([]string{
				"sh", "-ec", mount + `exec "$@"`, "sh", "setpriv", "--reuid", id, "--regid", id, "--clear-groups", "--no-new-privs", "--bounding-set=-all",
				entrypoint, "-order-dir=" + own.dir,
			}, args...)
			return begin(t, argv, func(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS} })
		}
		a := in(writer, reader, users[0], writer.to(reader), "--", "id", "-u")
		waits(t, a)
		b := in(reader, writer, users[1], reader.from(writer), "--", "cat")
		b.expect(strconv.Itoa(users[0]))
		require.Zero(t, b.end())
		require.Zero(t, a.end())
		require.Empty(t, reader.pipes())
	}
}

// TestPipelinesCompleteHoweverOftenTheyAreKilled runs hundreds of incarnations in any
// order. Some are killed at a random moment, and restarted as the kubelet does under
// each restartPolicy. A row whose containers have all succeeded must have written the
// right output.
func TestPipelinesCompleteHoweverOftenTheyAreKilled(t *testing.T) {
	t.Parallel()
	var want bytes.Buffer
	for n := 1; n <= 20000; n++ {
		fmt.Fprintln(&want, n)
	}
	for policy, final := range map[string]string{"Never": "0-255", "OnFailure": "0", "Always": ""} {
		for number := range 12 {
			t.Run(policy+strconv.Itoa(number), func(t *testing.T) {
				t.Parallel()
				for n := range 100 {
					row := inARow(t, "a", "b", "c") // of another pod
					file := row[2].dir + "/result"
					if row.attempt(policy, final, [][]string{{"seq", "20000"}, {"cat"}, {"sh", "-c", "cat >" + file}}, n < 4) {
						data, err := os.ReadFile(file)
						require.NoError(t, err)
						require.Equal(t, want.String(), string(data))
						return
					}
				}
				require.Fail(t, "no row has succeeded")
			})
		}
	}
}

// attempt runs a row of containers until the last one has succeeded or can't succeed
// any more, like the pod of a Job, which is then replaced.
func (row aRow) attempt(policy, final string, commands [][]string, kill bool) (succeeded bool) {
	ctx, cancel := context.WithCancel(row[0].t.Context())
	defer cancel()
	var all sync.WaitGroup
	for at := range row {
		all.Go(func() {
			args := []string{"-order-dir=" + row[at].dir, "-depends-on-timeout=2s"}
			if at > 0 {
				args = append(args, row[at].from(row[at-1]))
			}
			if at < len(row)-1 {
				args = append(args, row[at].to(row[at+1]))
			}
			if final != "" && at > 0 {
				args = append(args, "-final-exit-codes="+final+":"+row[at-1].dir)
			}
			if final != "" && at < len(row)-1 {
				args = append(args, "-final-exit-codes="+final+":"+row[at+1].dir)
			}
			for life := 0; ctx.Err() == nil && life < 6; life++ {
				time.Sleep(mathrand.N(20 * time.Millisecond))
				cmd := exec.CommandContext(ctx, entrypoint, append(append(slices.Clone(args), "--"), commands[at]...)...)
				if cmd.Start() != nil {
					return
				}
				if kill && life < 3 && mathrand.IntN(2) == 0 {
					time.Sleep(mathrand.N(30 * time.Millisecond))
					_ = cmd.Process.Kill()
				}
				err := cmd.Wait()
				switch {
				case err == nil && at == len(row)-1:
					succeeded = true
					cancel()
				case policy == "Never", policy == "OnFailure" && err == nil:
					return
				}
			}
		})
	}
	all.Wait()
	return succeeded
}
