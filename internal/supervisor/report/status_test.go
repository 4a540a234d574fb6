// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package report

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
	"github.com/entrypointer/entrypointer/internal/supervisor/cmdline"
	"github.com/entrypointer/entrypointer/internal/supervisor/outcome"
	"github.com/entrypointer/entrypointer/pkg/conditions"
)

func TestStatusAsJSON(t *testing.T) {
	at := time.Date(2026, 11, 21, 17, 0, 0, 5, time.FixedZone("", 3600))
	for want, s := range map[string]Status{
		`{"phase":"Waiting"}`:                                            {Phase: Waiting},
		`{"phase":"Paused","paused":"before-start"}`:                     {Phase: Paused, Paused: "before-start"},
		`{"phase":"Running","started":"2026-11-21T16:00:00.000000005Z"}`: {Phase: Running, Started: at},
		`{"phase":"Waiting","waitingSince":"2026-11-21T16:00:00.000000005Z","waitingFor":[{"container":"db","condition":"ready","seen":"the command has started"},{"container":"a","condition":"exited","seen":"its \"state\""}]}`: {
			Phase: Waiting, Waiting: WaitStatus{at, []order.Unmet{
				{Dependency: order.Dependency{Condition: conditions.Ready, Dir: "/o/db"}, Seen: "the command has started"},
				{Dependency: order.Dependency{Condition: conditions.Exited, Dir: "/o/a"}, Seen: `its "state"`},
			}},
		},
		`{"phase":"Finished","finished":"2026-11-21T16:00:00.000000005Z","reason":"OOMKilled","exitCode":137,"commandExitCode":137,"signal":"SIGKILL","oomKills":2}`: {
			Phase: Finished, Finished: at, Reason: outcome.OOMKilled, ExitCode: 137, Ended: true, Command: 137, Signal: syscall.SIGKILL, OOMKills: 2,
		},
		`{"phase":"Finished","reason":"Exited","exitCode":0,"commandExitCode":0}`: {Phase: Finished, Reason: outcome.Exited, Ended: true},
		`{"phase":"Finished","reason":"HookFailure","exitCode":3,"message":"say \"\\\" \n é �"}`: {
			Phase: Finished, Reason: outcome.HookFailure, ExitCode: 3, Message: "say \"\\\" \n é \xff",
		},
	} {
		require.Equal(t, want+"\n", string(s.JSON()))
		require.True(t, json.Valid(s.JSON()))
	}
}

func TestATerminationMessageFits(t *testing.T) {
	s := Status{
		Phase: Finished, Started: time.Now(), Finished: time.Now(), Reason: outcome.StartFailure, ExitCode: 127, Ended: true, Command: 255,
		Signal: syscall.SIGKILL, OOMKills: 1 << 30, Message: strings.Repeat(`"`, 10_000),
	}
	require.LessOrEqual(t, len(s.JSON()), MaxStatus)
	s.Message, s.Waiting = strings.Repeat("é", 10_000), WaitStatus{time.Now(), slices.Repeat([]order.Unmet{{
		Dependency: order.Dependency{Condition: conditions.Completed, Dir: "/entrypointer/order/" + strings.Repeat("n", 63)},
		Seen:       "it ended without reporting an exit code, as after SIGKILL or for lack of memory",
	}}, 50)}
	require.LessOrEqual(t, len(s.JSON()), MaxStatus)
	require.True(t, utf8.Valid(s.JSON()))
}

// FuzzStatusMessage checks that a JSON parser reads each message back.
func FuzzStatusMessage(f *testing.F) {
	for _, seed := range []string{"", `"`, "\x00\x1f\x7f", "\xff", "é", "\u2028"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, message string) {
		s := Status{Phase: Finished, Message: message}
		var got struct{ Phase, Message string }
		require.NoError(t, json.Unmarshal(s.JSON(), &got))
		require.Equal(t, string([]rune(message[:min(len(message), maxMessage)])), got.Message)
	})
}

func TestSignalsByName(t *testing.T) {
	for name, want := range map[string]syscall.Signal{
		"TERM": syscall.SIGTERM, "SIGTERM": syscall.SIGTERM, "term": syscall.SIGTERM, "15": syscall.SIGTERM,
		"KILL": syscall.SIGKILL, "RTMIN": 34, "SIGRTMIN+3": 37, "rtmin+30": 64, "64": 64,
	} {
		got, err := cmdline.ParseSignal(name)
		require.NoError(t, err, name)
		require.Equal(t, want, got, name)
	}
	for _, name := range []string{"", "0", "65", "TERMINATE", "-9", "RTMIN+31", "SIG"} {
		_, err := cmdline.ParseSignal(name)
		require.ErrorContains(t, err, "not a signal: use a name such as TERM", name)
	}
}

// TestAStatusIsReadWholeWhileItChanges reads like "entrypoint status", while the status
// alternates between a short and a long one.
func TestAStatusIsReadWholeWhileItChanges(t *testing.T) {
	// The next memfd may get a lower descriptor, and be found first.
	lower, err := os.Open("/dev/null")
	require.NoError(t, err)
	p := OpenPublisher("", true)
	p.file = ""
	require.NoError(t, lower.Close())
	short := (&Status{Phase: Running}).JSON()
	long := (&Status{Phase: Finished, Message: strings.Repeat("m", maxMessage)}).JSON()
	p.Publish(short)
	stop := make(chan struct{})
	var writer sync.WaitGroup
	writer.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				p.Publish(long)
				p.Publish(short)
			}
		}
	})
	seen := map[string]int{}
	for range 5000 {
		seen[Published(os.Getpid())]++
	}
	close(stop)
	writer.Wait()
	require.Len(t, seen, 2)
	require.Contains(t, seen, string(short))
	require.Contains(t, seen, string(long))
	require.NoError(t, unix.Close(p.memory))
}
