// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"
)

// The tests treat the supervisor as a process: they build it as for a release, start
// it, and observe it and the command from outside. Where the right behaviour is in
// question, they run the same command without a supervisor and compare.

// deadline is for an operation that takes milliseconds on an idle machine.
const deadline = 3 * time.Minute

var (
	tags  = flag.String("entrypoint.tags", "", "build `tags` for the supervisor under test, like portable")
	built = flag.String("entrypoint.bin", "", "`directory` of the programs under test, if they are built already")
)

// Paths of the programs under test and of their helper.
var binDir, entrypoint, child string

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	// nohup and background jobs start their children with these signals ignored, and a
	// shell can't trap a signal that was ignored at its start. After Notify, children
	// get the default action.
	for _, sig := range []os.Signal{syscall.SIGHUP, syscall.SIGINT} {
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
	dir := *built
	if dir == "" {
		dir = build()
		defer os.RemoveAll(dir)
	}
	binDir, entrypoint, child = dir, filepath.Join(dir, "entrypoint"), filepath.Join(dir, "child")
	manyAtOnce()
	return m.Run()
}

// manyAtOnce has more parallel tests run at once than there are processors, unless
// -parallel says how many: they mostly wait for processes. Tests that load or measure the
// processors, or that create a program and run it, aren't parallel: a process that is being
// started at that moment has the program open for writing, too (ETXTBSY).
func manyAtOnce() {
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		_ = flag.Set("test.parallel", "8")
	}
}

// extent returns how often a test with random moments tries: full, or with -short an eighth
// of it.
func extent(full int) int {
	if testing.Short() {
		return full / 8
	}
	return full
}

// build builds the programs under test into a new directory.
func build() (dir string) {
	// make(1) starts its children with these signals ignored. They belong to the C
	// library, so Notify can't change them.
	for _, sig := range []uintptr{32, 33} {
		var defaultAction [4]uint64
		_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(&defaultAction)), 0, unsafe.Sizeof(uint64(0)), 0, 0)
	}
	dir, err := os.MkdirTemp("", "entrypoint-test-")
	if err != nil {
		panic(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil { // some tests run as nobody
		panic(err)
	}
	for _, pkg := range []string{".", "../copier", "./testdata/child"} {
		cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-tags="+*tags, "-o", dir+"/", pkg)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			panic(fmt.Sprintf("%v: %v\n%s", cmd, err, out))
		}
	}
	return dir
}

// TestStories runs the scripts in testdata/script.
func TestStories(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Setenv("PATH", binDir+":"+env.Getenv("PATH"))
			env.Setenv("BIN", binDir)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exit": cmdExit, "mode": cmdMode},
		Condition: func(cond string) (bool, error) {
			if cond == "root" {
				return os.Getuid() == 0, nil
			}
			return false, fmt.Errorf("unknown condition %q", cond)
		},
	})
}

// cmdExit implements "exit CODE COMMAND...": it runs the command and compares its exit
// code.
func cmdExit(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exit code command [argument...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = code(exit.ProcessState)
	}
	if got != want {
		ts.Fatalf("exit code %d, not %d", got, want)
	}
}

// cmdMode implements "mode OCTAL FILE": it compares a file's permission bits.
func cmdMode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: mode octal file")
	}
	info, err := os.Stat(ts.MkAbs(args[1]))
	ts.Check(err)
	if got := strconv.FormatUint(uint64(info.Mode().Perm()), 8); got != args[0] {
		ts.Fatalf("mode %s, not %s", got, args[0])
	}
}

// supervised returns command under the supervisor.
func supervised(command ...string) []string {
	return append([]string{entrypoint, "--"}, command...)
}

// result describes a process that has ended.
type result struct {
	Status         string // "exit status 1", "signal: killed"
	Code           int    // as a shell has it
	Stdout, Stderr string
}

// output runs argv, prepared by the functions, until it ends.
func output(t testing.TB, argv []string, prepare ...func(*exec.Cmd)) result {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	for _, f := range prepare {
		f(cmd)
	}
	require.NoError(t, cmd.Start())
	timer := time.AfterFunc(deadline, func() { _ = cmd.Process.Kill() })
	err := cmd.Wait()
	require.True(t, timer.Stop(), "%q did not end in time", argv)
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	return result{cmd.ProcessState.String(), code(cmd.ProcessState), stdout.String(), stderr.String()}
}

// code returns the exit code as a shell does.
func code(state *os.ProcessState) int {
	if status := state.Sys().(syscall.WaitStatus); status.Signaled() {
		return 128 + int(status.Signal())
	}
	return state.ExitCode()
}

// A process runs, and the test reads its output line by line.
type process struct {
	*exec.Cmd
	t     testing.TB
	lines chan string
	done  chan struct{}
}

// A reminder is printed by a supervisor that waits for long, as it does on a busy machine.
var reminder = regexp.MustCompile(`^entrypointer: waiting for .* for \S+ now$`)

// begin starts argv, prepared by the functions, and leaves out reminders. At the test's
// end, it kills the process and all descendants that it finds.
func begin(t testing.TB, argv []string, prepare ...func(*exec.Cmd)) *process {
	t.Helper()
	p := &process{exec.Command(argv[0], argv[1:]...), t, make(chan string, 100000), make(chan struct{})}
	read, write, err := os.Pipe()
	require.NoError(t, err)
	p.Stdout, p.Stderr = write, write
	for _, f := range prepare {
		f(p.Cmd)
	}
	require.NoError(t, p.Start())
	require.NoError(t, write.Close())
	go func() {
		for s := bufio.NewScanner(read); s.Scan(); {
			if !reminder.MatchString(s.Text()) {
				p.lines <- s.Text()
			}
		}
		_ = read.Close()
		close(p.lines)
	}()
	go func() {
		_ = p.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		select {
		case <-p.done:
			return
		default:
		}
		for _, pid := range children(p.Process.Pid) {
			_ = syscall.Kill(-pid, syscall.SIGKILL) // a process that leads its group
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		_ = p.Process.Kill()
		<-p.done
	})
	return p
}

// expect waits for a line and compares it.
func (p *process) expect(want string) {
	p.t.Helper()
	require.Equal(p.t, want, p.line())
}

// line waits for a line.
func (p *process) line() string {
	p.t.Helper()
	select {
	case line, ok := <-p.lines:
		require.True(p.t, ok, "the process closed its output")
		return line
	case <-time.After(deadline):
		require.Fail(p.t, "no output in time")
	}
	return ""
}

// send sends a signal.
func (p *process) send(sig syscall.Signal) {
	p.t.Helper()
	require.NoError(p.t, syscall.Kill(p.Process.Pid, sig))
}

// end waits for the process to end and returns its exit code.
func (p *process) end() int {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(deadline):
		require.Fail(p.t, "the process did not end in time")
	}
	return code(p.ProcessState)
}

// kill ends the process by killing its command, which may be the process itself. It
// returns the lines that the test hasn't read.
func (p *process) kill(command int) (rest []string) {
	p.t.Helper()
	select {
	case <-p.done:
	default:
		if err := syscall.Kill(command, syscall.SIGKILL); err != syscall.ESRCH { // or it has ended a moment ago
			require.NoError(p.t, err)
		}
		_ = p.Process.Signal(syscall.SIGCONT) // the supervisor may have stopped together with its command
		p.end()
	}
	for line := range p.lines {
		rest = append(rest, line)
	}
	return rest
}

// children returns the process IDs of pid's children, including zombies.
func children(pid int) []int { return childrenInState(pid, "") }

// childrenInState returns pid's children in one of these states of proc(5), or in any
// state if states is empty.
func childrenInState(pid int, states string) (list []int) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	for _, name := range names {
		n, err := strconv.Atoi(name)
		if err != nil {
			continue // no process
		}
		stat, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue // it has just ended
		}
		// The process name, in parentheses, may contain any character.
		i := bytes.LastIndexByte(stat, ')')
		fields := strings.Fields(string(stat[i+1:]))
		if fields[1] == strconv.Itoa(pid) && (states == "" || strings.Contains(states, fields[0])) {
			list = append(list, n)
		}
	}
	return list
}

// childOf waits until the process has its one child, and returns the child's process
// ID.
func childOf(t testing.TB, pid int) int {
	t.Helper()
	var list []int
	require.Eventually(t, func() bool {
		list = children(pid)
		return len(list) == 1
	}, deadline, time.Millisecond)
	return list[0]
}

// noRoot begins the reason for which a test is skipped.
const noRoot = "not run as root, which is needed for "

// needRoot skips a test that only root can run.
func needRoot(t *testing.T, why string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip(noRoot + why)
	}
}
