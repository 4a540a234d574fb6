// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/proc"
)

// A firstStep is the first step of a TaskRun of two: it waits for Tekton's file "ready", or
// until both steps have started.
type firstStep struct {
	*process
	dir  string
	held bool
}

// tektonWaits stands for Tekton's entrypoint: it waits until the file after -wait_file has
// content, or there is one of that name with .err, and says so.
const tektonWaits = `[ "$1" = -wait_file ]; until [ -s "$2" ]; do [ ! -e "$2.err" ] || exec echo skipped "$2"; sleep 0.02; done; echo runs "$2"`

// ways to wait: with the command held or not yet started, and with the supervisor replaced.
var firstSteps = map[string][]string{"held": {"-hold=20ms"}, "with a hook": {"-before-start=true"}, "replaced": {"-mode=exec"}}

func isHeldBy(how []string) bool { return strings.HasPrefix(how[0], "-hold") }

// inEachWay runs a test for each way to wait.
func inEachWay(t *testing.T, test func(t *testing.T, how []string)) {
	t.Helper()
	t.Parallel()
	for name, how := range firstSteps {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, how)
		})
	}
}

func beginFirstStep(t *testing.T, how []string, others ...string) firstStep {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(dir+"/run", 0o755))
	flags := append([]string{entrypoint}, how...)
	flags = append(flags, "-wait-content="+dir+"/ready", "-wait-abort="+dir+"/ready.err", "-turn-file="+dir+"/run/turn", "-started-file="+dir+"/0", "-wait-instead="+dir+"/0")
	for _, other := range others {
		flags = append(flags, "-wait-instead="+dir+"/"+other)
	}
	flags = append(flags, "--", "sh", "-c", tektonWaits, "tekton", "-wait_file", dir+"/ready", "--", "-wait_file", "its own")
	return firstStep{begin(t, flags), dir, isHeldBy(how)}
}

func (s firstStep) waits(t *testing.T) {
	t.Helper()
	if s.held {
		isHeld(t, s.process)
	} else {
		waits(t, s.process)
	}
}

func (s firstStep) leaves(t *testing.T, name, content string) {
	t.Helper()
	require.NoError(t, os.WriteFile(s.dir+"/"+name, []byte(content), 0o600))
}

func TestAFirstStepRunsOnceAllStepsHaveStarted(t *testing.T) {
	inEachWay(t, func(t *testing.T, how []string) {
		first := beginFirstStep(t, how, "1")
		first.waits(t)
		second := begin(t, []string{entrypoint, "-started-file=" + first.dir + "/1", "-wait-file=" + first.dir + "/never", "--", "true"})
		first.expect("runs " + first.dir + "/run/turn")
		require.Zero(t, first.end())
		waits(t, second)
		require.NoError(t, second.Process.Kill())
		second.end()
	})
}

func TestTheOnlyStepRunsAtOnce(t *testing.T) {
	inEachWay(t, func(t *testing.T, how []string) {
		only := beginFirstStep(t, how)
		only.expect("runs " + only.dir + "/run/turn")
		require.Zero(t, only.end())
	})
}

func TestAFirstStepRunsWhenTektonSaysSoAlthoughAStepHasNotStarted(t *testing.T) {
	inEachWay(t, func(t *testing.T, how []string) {
		first := beginFirstStep(t, how, "1")
		first.waits(t)
		first.leaves(t, "ready", "READY")
		first.expect("runs " + first.dir + "/run/turn")
		require.Zero(t, first.end())
	})
}

func TestAFirstStepThatTektonSkipsIsSkipped(t *testing.T) {
	inEachWay(t, func(t *testing.T, how []string) {
		first := beginFirstStep(t, how, "1")
		first.waits(t)
		first.leaves(t, "ready.err", "")
		first.expect("skipped " + first.dir + "/run/turn")
		require.Zero(t, first.end())
	})
}

// Tekton's entrypoint may just have looked for its turn, and be about to sleep for as long as
// ten seconds here, when the last step has started.
//
// The supervisor sees a command that sleeps. The few microseconds between the command's look
// and its sleep stay: the command then finds its turn at its next look.
func TestAFirstStepRunsAtOnceWheneverTheLastOneStarts(t *testing.T) {
	t.Parallel()
	const interval = 10 * time.Second
	const starts, mayMiss = 96, 2
	var missed atomic.Int32
	t.Cleanup(func() { require.LessOrEqual(t, missed.Load(), int32(mayMiss)) })
	for at := range starts {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			first := begin(t, []string{
				entrypoint, "-hold=" + interval.String(), "-wait-content=" + dir + "/ready", "-turn-file=" + dir + "/turn", "-wait-instead=" + dir + "/1",
				"--", "sh", "-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; exec " + child + ` awaitcontent ` + interval.String() + ` "$2"`, "tekton", "-wait_file", dir + "/ready",
			})
			began := time.Now()
			time.Sleep(time.Duration(at) * 3 * time.Millisecond)
			require.NoError(t, os.WriteFile(dir+"/1", nil, 0o600))
			require.Contains(t, first.line(), "its turn")
			if time.Since(began) >= interval {
				missed.Add(1)
			}
			require.Zero(t, first.end())
		})
	}
}

// The directory of a step's files is Tekton's, and could be read-only, or full.
func TestAFirstStepWhoseFileCanNotBeCreatedWaitsForTekton(t *testing.T) {
	inEachWay(t, func(t *testing.T, how []string) {
		dir := t.TempDir()
		argv := slices.Concat([]string{entrypoint}, how, []string{
			"-wait-content=" + dir + "/ready", "-turn-file=" + dir + "/missing/turn", "-started-file=" + dir + "/0", "-wait-instead=" + dir + "/0",
			"--", "sh", "-c", tektonWaits, "tekton", "-wait_file", dir + "/ready",
		})
		first := begin(t, argv)
		require.Equal(t, `entrypointer: creating "`+dir+`/missing/turn": no such file or directory: the command waits for `+dir+"/ready only", first.line())
		firstStep{first, dir, isHeldBy(how)}.waits(t)
		require.NoError(t, os.WriteFile(dir+"/ready", []byte("READY"), 0o600))
		first.expect("runs " + dir + "/ready")
		require.Zero(t, first.end())
	})
}

// What the supervisor can't examine, Tekton's entrypoint examines itself.
func TestAFirstStepWhoseFilesCanNotBeExaminedIsLeftToTekton(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(dir+"/file", nil, 0o600))
	first := begin(t, []string{
		entrypoint, "-hold=20ms", "-wait-content=" + dir + "/file/ready", "-turn-file=" + dir + "/turn", "-wait-instead=" + dir + "/1",
		"--", "sh", "-c", tektonWaits, "tekton", "-wait_file", dir + "/file/ready",
	})
	require.Contains(t, first.line(), "waiting for "+dir+"/file/ready: not a directory")
	require.Eventually(t, func() bool {
		running := children(first.Process.Pid)
		return len(running) == 1 && strings.Contains(proc.Read(running[0], "cmdline"), "-wait_file\x00"+dir+"/file/ready")
	}, deadline, 10*time.Millisecond)
	first.send(syscall.SIGTERM)
	require.Equal(t, 143, first.end())
}

// Tekton's entrypoint may end by itself while it waits, by a time limit for instance. It
// isn't started again.
func TestAFirstStepThatEndsWhileItWaitsHasEnded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := begin(t, []string{
		entrypoint, "-hold=1h", "-wait-content=" + dir + "/ready", "-turn-file=" + dir + "/turn", "-wait-instead=" + dir + "/1",
		"--", "sh", "-c", `echo waits for "$2"; exit 7`, "tekton", "-wait_file", dir + "/ready",
	})
	first.expect("waits for " + dir + "/turn")
	require.Equal(t, 7, first.end())
	require.Empty(t, first.kill(0))
}

func TestASignalEndsTheWaitOfAFirstStep(t *testing.T) {
	t.Parallel()
	first := beginFirstStep(t, []string{"-before-start=true"}, "1")
	first.waits(t)
	first.send(syscall.SIGTERM)
	require.NotZero(t, first.end())
}
