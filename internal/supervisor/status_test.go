// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/entrypointer/entrypointer/internal/order"
	"github.com/entrypointer/entrypointer/internal/supervisor/outcome"
)

func TestStatusAsJSON(t *testing.T) {
	at := time.Date(2026, 11, 21, 17, 0, 0, 5, time.FixedZone("", 3600))
	for want, s := range map[string]status{
		`{"phase":"Waiting"}`:                                            {phase: phaseWaiting},
		`{"phase":"Paused","paused":"before-start"}`:                     {phase: phasePaused, paused: pauseBeforeStart},
		`{"phase":"Running","started":"2026-11-21T16:00:00.000000005Z"}`: {phase: phaseRunning, started: at},
		`{"phase":"Waiting","waitingSince":"2026-11-21T16:00:00.000000005Z","waitingFor":[{"container":"db","condition":"ready","seen":"the command has started"},{"container":"a","condition":"exited","seen":"its \"state\""}]}`: {
			phase: phaseWaiting, waiting: waitStatus{at, []order.Unmet{
				{Dependency: order.Dependency{Condition: order.IsReady, Dir: "/o/db"}, Seen: "the command has started"},
				{Dependency: order.Dependency{Condition: order.HasExited, Dir: "/o/a"}, Seen: `its "state"`},
			}},
		},
		`{"phase":"Finished","finished":"2026-11-21T16:00:00.000000005Z","reason":"OOMKilled","exitCode":137,"commandExitCode":137,"signal":"SIGKILL","oomKills":2}`: {
			phase: phaseFinished, finished: at, reason: outcome.OOMKilled, exitCode: 137, ended: true, command: 137, signal: syscall.SIGKILL, oomKills: 2,
		},
		`{"phase":"Finished","reason":"Exited","exitCode":0,"commandExitCode":0}`: {phase: phaseFinished, reason: outcome.Exited, ended: true},
		`{"phase":"Finished","reason":"HookFailure","exitCode":3,"message":"say \"\\\" \n é �"}`: {
			phase: phaseFinished, reason: outcome.HookFailure, exitCode: 3, message: "say \"\\\" \n é \xff",
		},
	} {
		require.Equal(t, want+"\n", string(s.json()))
		require.True(t, json.Valid(s.json()))
	}
}

func TestATerminationMessageFits(t *testing.T) {
	s := status{
		phase: phaseFinished, started: time.Now(), finished: time.Now(), reason: outcome.StartFailure, exitCode: 127, ended: true, command: 255,
		signal: syscall.SIGKILL, oomKills: 1 << 30, message: strings.Repeat(`"`, 10_000),
	}
	require.LessOrEqual(t, len(s.json()), maxStatus)
	s.message, s.waiting = strings.Repeat("é", 10_000), waitStatus{time.Now(), slices.Repeat([]order.Unmet{{
		Dependency: order.Dependency{Condition: order.IsCompleted, Dir: "/entrypointer/order/" + strings.Repeat("n", 63)},
		Seen:       "it ended without reporting an exit code, as after SIGKILL or for lack of memory",
	}}, 50)}
	require.LessOrEqual(t, len(s.json()), maxStatus)
	require.True(t, utf8.Valid(s.json()))
}

// FuzzStatusMessage checks that a JSON parser reads each message back.
func FuzzStatusMessage(f *testing.F) {
	for _, seed := range []string{"", `"`, "\x00\x1f\x7f", "\xff", "é", "\u2028"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, message string) {
		s := status{phase: phaseFinished, message: message}
		var got struct{ Phase, Message string }
		require.NoError(t, json.Unmarshal(s.json(), &got))
		require.Equal(t, string([]rune(message[:min(len(message), maxMessage)])), got.Message)
	})
}

func TestSignalsByName(t *testing.T) {
	for name, want := range map[string]syscall.Signal{
		"TERM": syscall.SIGTERM, "SIGTERM": syscall.SIGTERM, "term": syscall.SIGTERM, "15": syscall.SIGTERM,
		"KILL": syscall.SIGKILL, "RTMIN": 34, "SIGRTMIN+3": 37, "rtmin+30": 64, "64": 64,
	} {
		got, err := parseSignal(name)
		require.NoError(t, err, name)
		require.Equal(t, want, got, name)
	}
	for _, name := range []string{"", "0", "65", "TERMINATE", "-9", "RTMIN+31", "SIG"} {
		_, err := parseSignal(name)
		require.ErrorContains(t, err, "not a signal: use a name such as TERM", name)
	}
}

// TestAStatusIsReadWholeWhileItChanges reads like "entrypoint status", while the status
// alternates between a short and a long one.
func TestAStatusIsReadWholeWhileItChanges(t *testing.T) {
	// The next memfd may get a lower descriptor, and be found first.
	lower, err := os.Open("/dev/null")
	require.NoError(t, err)
	p := openPublisher(&options{statusFile: "/dev/null"})
	p.file = ""
	require.NoError(t, lower.Close())
	short := (&status{phase: phaseRunning}).json()
	long := (&status{phase: phaseFinished, message: strings.Repeat("m", maxMessage)}).json()
	p.publish(short)
	stop := make(chan struct{})
	var writer sync.WaitGroup
	writer.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				p.publish(long)
				p.publish(short)
			}
		}
	})
	seen := map[string]int{}
	for range 5000 {
		seen[publishedStatus(os.Getpid())]++
	}
	close(stop)
	writer.Wait()
	require.Len(t, seen, 2)
	require.Contains(t, seen, string(short))
	require.Contains(t, seen, string(long))
	require.NoError(t, unix.Close(p.memory))
}
