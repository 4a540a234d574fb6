// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"encoding/json"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// In these tests, proxy is a helper, which is needed until web has ended.

// proxy is a helper with flags and the script of its command. Its status is in a file.
func proxy(t *testing.T, script string, flags ...string) (p *process, status string) {
	t.Helper()
	status = t.TempDir() + "/status"
	argv := append([]string{entrypoint, "-status-file=" + status}, flags...)
	return begin(t, append(argv, "--", "sh", "-c", script), listening(t)), status
}

// ending is the part of a status that concerns the end.
type ending struct {
	Phase, Reason, Signal     string
	ExitCode, CommandExitCode int
}

func endedAs(t *testing.T, status string) (e ending) {
	t.Helper()
	data, err := os.ReadFile(status)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &e))
	return e
}

// ends starts an incarnation of web that ends with a code.
func ends(t *testing.T, dir, code string) {
	t.Helper()
	_ = db(t, dir, "--", "sh", "-c", "exit "+code).end()
}

// TestAHelperEndsWhenItIsNotNeededAnyMore, with success, whatever its command's exit
// code is.
func TestAHelperEndsWhenItIsNotNeededAnyMore(t *testing.T) {
	t.Parallel()
	unneeded := func(code int, signal string) ending { return ending{"Finished", "Unneeded", signal, 0, code} }
	for name, test := range map[string]struct {
		condition, code string // of web
		script          string
		flags           []string
		want            ending
	}{
		"it ends well":                {"-stop-when=completed", "0", stopped("TERM", "exit 0"), nil, unneeded(0, "")},
		"it fails":                    {"-stop-when=completed", "0", stopped("TERM", "exit 3"), nil, unneeded(3, "")},
		"it dies of the signal":       {"-stop-when=completed", "0", "trap 'echo stopped; trap - TERM; kill -TERM $$' TERM;" + waitForSignals, nil, unneeded(143, "SIGTERM")},
		"it ignores the signal":       {"-stop-when=completed", "0", "trap 'echo stopped' TERM;" + waitForSignals, []string{"-grace-period=100ms"}, unneeded(137, "SIGKILL")},
		"its image has another one":   {"-stop-when=completed", "0", stopped("QUIT", "exit 3"), []string{"-stop-signal=QUIT"}, unneeded(3, "")},
		"web has failed":              {"-stop-when=exited", "3", stopped("TERM", "exit 3"), nil, unneeded(3, "")},
		"web has failed for good":     {"final=completed", "3", stopped("TERM", "exit 3"), nil, unneeded(3, "")},
		"others depend on it as well": {"-stop-when=completed", "0", stopped("TERM", "exit 3"), []string{"-stop-after=/missing", "-stop-share=40s"}, unneeded(3, "")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			web := orderDir(t)
			flags := []string{test.condition + ":" + web}
			if rest, final := strings.CutPrefix(test.condition, "final="); final {
				flags = []string{"-stop-when=" + rest + ":" + web, never(web)}
			}
			p, status := proxy(t, test.script, append(flags, test.flags...)...)
			p.expect("ready")
			ends(t, web, test.code)
			said := p.line()
			if strings.HasSuffix(test.condition, "final=completed") {
				require.Equal(t, "entrypointer: needed until db:completed (it exited with 3), which is not restarted (stop-when): stopping the command", said)
			} else {
				require.Regexp(t, `^entrypointer: needed until db:(completed|exited), which is met now \(stop-when\): stopping the command$`, said)
			}
			p.expect("stopped")
			require.Zero(t, p.end())
			require.Equal(t, test.want, endedAs(t, status))
		})
	}
}

// TestAHookThatIgnoresTheSignalIsKilledIfItsHelperIsNotNeeded after the grace period, also
// without a timeout of its own.
func TestAHookThatIgnoresTheSignalIsKilledIfItsHelperIsNotNeeded(t *testing.T) {
	t.Parallel()
	web := orderDir(t)
	p, status := proxy(t, "echo started", "-stop-when=completed:"+web, "-grace-period=100ms",
		"-before-start=sh", "-before-start-arg=-c", "-before-start-arg=trap 'echo stopped' TERM; echo ready; while :; do sleep 0.05; done")
	p.expect("ready")
	ends(t, web, "0")
	p.expect("stopped")
	require.Contains(t, p.line(), "which is met now (stop-when): the command was not started")
	require.Zero(t, p.end())
	require.Equal(t, "Unneeded", endedAs(t, status).Reason)
}

// TestAHelperIsNeededUntilAllContainersHaveEnded. Without a flag that says otherwise, a
// failed container is restarted.
func TestAHelperIsNeededUntilAllContainersHaveEnded(t *testing.T) {
	t.Parallel()
	for _, flag := range []string{"-mode=supervise", "-order-heartbeat"} {
		web, job := orderDir(t), orderDir(t)
		p, status := proxy(t, stopped("TERM", "exit 3"), flag, "-stop-when=completed:"+web, "-stop-when=exited:"+job)
		p.expect("ready")
		run := func(dir, code string) {
			t.Helper()
			_ = db(t, dir, flag, "--", "sh", "-c", "exit "+code).end()
			time.Sleep(500 * time.Millisecond)
		}
		run(web, "3")
		run(web, "0")
		p.send(syscall.SIGUSR1)
		p.expect("usr1")
		require.Equal(t, "Running", endedAs(t, status).Phase)
		run(job, "3")
		require.Contains(t, p.line(), "needed until db:completed, db:exited, which is met now")
		p.expect("stopped")
		require.Zero(t, p.end())
	}
}

// TestAHelperThatEndsByItselfKeepsItsExitCode.
func TestAHelperThatEndsByItselfKeepsItsExitCode(t *testing.T) {
	t.Parallel()
	web := orderDir(t)
	p, status := proxy(t, "exit 3", "-stop-when=completed:"+web)
	require.Equal(t, 3, p.end())
	require.Equal(t, ending{"Finished", "Exited", "", 3, 3}, endedAs(t, status))

	// The same applies during a pause.
	p, status = proxy(t, "exit 3", "-stop-when=completed:"+web, "-pause=after-failure")
	require.Contains(t, p.line(), "paused after-failure")
	ends(t, web, "0")
	time.Sleep(500 * time.Millisecond)
	p.send(syscall.SIGCONT)
	require.Equal(t, 3, p.end())
	require.Equal(t, ending{"Finished", "Exited", "", 3, 3}, endedAs(t, status))

	// The same applies after a timeout.
	p, _ = proxy(t, "trap 'echo stopped' TERM; "+waitForSignals, "-stop-when=completed:"+orderDir(t), "-timeout=100ms", "-grace-period=100ms")
	require.Equal(t, 124, p.end())
}

// TestAHelperGetsOneStopSignal, because many programs abort their orderly shutdown at a
// second one.
func TestAHelperGetsOneStopSignal(t *testing.T) {
	t.Parallel()
	web := orderDir(t)
	p, _ := proxy(t, "trap 'echo stopped' TERM; trap 'echo end; exit 3' USR1; "+waitForSignals, "-stop-when=completed:"+web)
	p.expect("ready")
	p.send(syscall.SIGTERM)
	p.expect("stopped")
	ends(t, web, "0")
	require.Contains(t, p.line(), "needed until db:completed")
	settle(t, p.Process.Pid, childOf(t, p.Process.Pid))
	p.send(syscall.SIGUSR1)
	p.expect("end")
	require.Zero(t, p.end())
}

// TestAnUnneededHelperIsNotStarted, whatever precedes its command.
func TestAnUnneededHelperIsNotStarted(t *testing.T) {
	t.Parallel()
	for name, flags := range map[string][]string{
		"at once":           nil,
		"another container": {"-depends-on=started:/missing"},
		"a file":            {"-wait-file=/missing"},
		"a hook":            {"-before-start=sleep", "-before-start-arg=60"},
		"a pause":           {"-pause=before-start,after-failure"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			web := orderDir(t)
			want := ending{"Finished", "Unneeded", "", 0, 0}
			if flags != nil {
				p, status := proxy(t, "echo started", append(flags, "-stop-when=completed:"+web, never(web))...)
				if name == "a pause" {
					require.Contains(t, p.line(), "paused before-start")
				}
				if name != "a hook" {
					waits(t, p)
				} else {
					childOf(t, p.Process.Pid)
				}
				ends(t, web, "3")
				p.expect("entrypointer: needed until db:completed (it exited with 3), which is not restarted (stop-when): the command was not started")
				require.Zero(t, p.end())
				require.Equal(t, want, endedAs(t, status))
			}
			ends(t, web, "0")
			p, status := proxy(t, "echo started", append(flags, "-stop-when=completed:"+web, "-order-dir="+orderDir(t))...)
			p.expect("entrypointer: needed until db:completed, which is met now (stop-when): the command was not started")
			require.Zero(t, p.end())
			require.Equal(t, want, endedAs(t, status))
		})
	}
}

// TestAHelperIgnoresAnUnreadableState, and reports it.
func TestAHelperIgnoresAnUnreadableState(t *testing.T) {
	t.Parallel()
	web := orderDir(t)
	ends(t, web, "0")
	require.NoError(t, os.WriteFile(web+"/state", []byte("x"), 0o600))
	p, _ := proxy(t, stopped("TERM", "exit 3"), "-stop-when=completed:"+web)
	first, second := p.line(), p.line()
	require.ElementsMatch(t, []string{"ready", "entrypointer: waiting for db:completed: its state can't be read: a supervisor would write other content: if this lasts, delete the pod"}, []string{first, second})
	ends(t, web, "0")
	require.Contains(t, p.line(), "needed until db:completed")
	p.expect("stopped")
	require.Zero(t, p.end())
}
