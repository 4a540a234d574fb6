// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// In these tests, web depends on db, and db is stopped after web.

// stopped is the script of a command that prints when a signal stops it, and then runs
// the rest of the script.
func stopped(sig, then string) string {
	return "trap 'echo stopped; " + then + "' " + sig + "; trap 'echo usr1' USR1; " + waitForSignals
}

// stopsAfter is db with flags and the script of its command.
func stopsAfter(t *testing.T, dir, web, script string, flags ...string) *process {
	t.Helper()
	argv := append([]string{entrypoint, "-order-dir=" + dir, "-stop-after=" + web}, flags...)
	p := begin(t, append(argv, "--", "sh", "-c", script), listening(t))
	p.expect("ready")
	hasSaid(t, dir, "started")
	return p
}

// dependent is web with the script of its command.
func dependent(t *testing.T, dir, script string, flags ...string) *process {
	t.Helper()
	argv := append([]string{entrypoint, "-order-dir=" + dir}, flags...)
	p := begin(t, append(argv, "--", "sh", "-c", script), listening(t))
	p.expect("ready")
	hasSaid(t, dir, "started")
	return p
}

// staysHeld checks that the stop signal has arrived, and that the command runs without
// it.
func staysHeld(t *testing.T, dir string, p *process) {
	t.Helper()
	hasSaid(t, dir, "stopping")
	p.send(syscall.SIGUSR1)
	p.expect("usr1")
}

// TestAPodIsStoppedInReverse of the order in which its containers start, whichever of
// them gets the stop signal first.
func TestAPodIsStoppedInReverse(t *testing.T) {
	for i, sent := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		for _, flag := range []string{"", "-order-heartbeat"} {
			if flag != "" && i%5 != 0 { // two orders are enough: each container must first see a heartbeat of the others
				continue
			}
			t.Run(fmt.Sprint(sent, flag), func(t *testing.T) {
				if flag != "" {
					t.Parallel()
				}
				db, app, web := orderDir(t), orderDir(t), orderDir(t)
				log := t.TempDir() + "/log"
				says := func(name string) string {
					return stopped("TERM", "sleep 0.1; echo "+name+" >>"+log+"; exit "+strconv.Itoa(i))
				}
				flags := []string{"-stop-share=40s"}
				if flag != "" {
					flags = append(flags, flag)
				}
				all := []*process{
					stopsAfter(t, db, app, says("db"), flags...),
					stopsAfter(t, app, web, says("app"), append(flags, "-depends-on=started:"+db)...),
					dependent(t, web, says("web"), append(flags[1:], "-depends-on=started:"+app)...),
				}
				for _, n := range sent {
					all[n].send(syscall.SIGTERM)
				}
				for _, p := range all {
					p.expect("stopped")
					require.Equal(t, i, p.end())
				}
				order, err := os.ReadFile(log)
				require.NoError(t, err)
				require.Equal(t, "web\napp\ndb\n", string(order))
			})
		}
	}
}

// TestAContainerThatIsStoppedAloneIsNotHeldBack, for instance after its livenessProbe
// has failed.
func TestAContainerThatIsStoppedAloneIsNotHeldBack(t *testing.T) {
	db, web := orderDir(t), orderDir(t)
	neighbour := dependent(t, web, "echo ready; exec sleep 60")
	p := stopsAfter(t, db, web, stopped("TERM", "exit 3"), "-stop-share=40s")
	began := time.Now()
	p.send(syscall.SIGTERM)
	p.expect("stopped")
	require.Less(t, time.Since(began), 30*time.Second)
	require.Equal(t, 3, p.end())
	hasSaid(t, web, "started")

	// Containers that ended before don't count, and don't delay the stop.
	neighbour.kill(neighbour.Process.Pid)
	p = stopsAfter(t, db, web, stopped("TERM", "exit 4"), "-stop-share=40s", "-stop-together")
	p.send(syscall.SIGTERM)
	p.expect("stopped")
	require.Equal(t, 4, p.end())

	// A container that never started doesn't delay the stop either.
	p = stopsAfter(t, db, orderDir(t), stopped("TERM", "exit 5"), "-stop-share=40s", "-stop-together", "-stop-after="+t.TempDir()+"/missing")
	p.send(syscall.SIGTERM)
	p.expect("stopped")
	require.Equal(t, 5, p.end())
}

// TestStopTogetherTreatsEachStopAsAStopOfThePod: web has a preStop hook, and gets its
// stop signal late.
func TestStopTogetherTreatsEachStopAsAStopOfThePod(t *testing.T) {
	t.Parallel()
	db, web := orderDir(t), orderDir(t)
	neighbour := dependent(t, web, stopped("TERM", "exit 0"))
	p := stopsAfter(t, db, web, stopped("TERM", "exit 3"), "-stop-share=40s", "-stop-together")
	p.send(syscall.SIGTERM)
	staysHeld(t, db, p)
	time.Sleep(1500 * time.Millisecond)
	staysHeld(t, db, p)
	neighbour.send(syscall.SIGTERM)
	p.expect("stopped")
	require.Equal(t, 3, p.end())
	require.Zero(t, neighbour.end())
}

// TestAHealthyContainerIsStoppedWithItsPod although web, which has a preStop hook, gets
// its stop signal late: the kubelet doesn't stop a container alone whose livenessProbe
// succeeds.
func TestAHealthyContainerIsStoppedWithItsPod(t *testing.T) {
	t.Parallel()
	number, listen := port(t, "127.0.0.1")
	listen()
	asked := "127.0.0.1:" + server(t, func(w http.ResponseWriter, r *http.Request) {
		if r.RequestURI != "/healthz?x=1" || r.Header.Get("A") != "b" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	for name, flags := range map[string][]string{
		"by its port":    {"-alive-tcp=:" + number},
		"by its answer":  {"-alive-http=http://" + asked + "/healthz?x=1", "-alive-http-header=A: b"},
		"by its program": {"-alive-exec=sh", "-alive-exec=-c", `-alive-exec=test "$ALIVE"`, "-env=ALIVE=yes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range 100 { // on a busy machine, a probe may take longer than it has
				db, web := orderDir(t), orderDir(t)
				neighbour := dependent(t, web, stopped("TERM", "exit 0"))
				p := stopsAfter(t, db, web, stopped("TERM", ":"), append(flags, "-stop-share=1h")...)
				p.send(syscall.SIGTERM)
				hasSaid(t, db, "stopping")
				time.Sleep(1500 * time.Millisecond)
				p.send(syscall.SIGUSR1)
				if p.line() != "usr1" {
					continue
				}
				require.Len(t, children(p.Process.Pid), 1, "the probe has ended")
				neighbour.send(syscall.SIGTERM)
				p.expect("stopped")
				p.kill(childOf(t, p.Process.Pid))
				require.Zero(t, neighbour.end())
				return
			}
			require.Fail(t, "the stop signal was never held back")
		})
	}
}

// TestAnUnhealthyContainerIsStoppedAlone, while web runs on.
func TestAnUnhealthyContainerIsStoppedAlone(t *testing.T) {
	t.Parallel()
	asked := "127.0.0.1:" + server(t, http.NotFound)
	for name, flags := range map[string][]string{
		"nobody listens":        {"-alive-tcp=127.0.0.1:1"},
		"the answer is a no":    {"-alive-http=http://" + asked + "/"},
		"there is no answer":    {"-alive-tcp=192.0.2.1:1"},
		"its program fails":     {"-alive-exec=false"},
		"its program is absent": {"-alive-exec=/missing"},
		"its program hangs":     {"-alive-exec=sleep", "-alive-exec=100000"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, web := orderDir(t), orderDir(t)
			dependent(t, web, "echo ready; exec sleep 100000")
			p := stopsAfter(t, db, web, stopped("TERM", ":"), append(flags, "-stop-share=1h")...)
			p.send(syscall.SIGTERM)
			p.expect("stopped")
			require.Eventually(t, func() bool { return len(children(p.Process.Pid)) == 1 }, deadline, time.Millisecond, "the probe has ended")
			hasSaid(t, web, "started")
			p.kill(childOf(t, p.Process.Pid))
		})
	}
}

// TestALivenessProbeEndsWithTheHeldStop, however the stop ends.
func TestALivenessProbeEndsWithTheHeldStop(t *testing.T) {
	t.Parallel()
	for name, release := range map[string]func(p, neighbour *process){
		"the pod is stopped":    func(_, neighbour *process) { neighbour.kill(neighbour.Process.Pid) },
		"a second signal comes": func(p, _ *process) { _ = p.Process.Signal(syscall.SIGTERM) },
		"the command ends":      func(p, _ *process) { _ = p.Process.Signal(syscall.SIGUSR2) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range 100 { // on a busy machine, a probe may end before its program has begun
				db, web, probed := orderDir(t), orderDir(t), t.TempDir()+"/probed"
				neighbour := dependent(t, web, "echo ready; exec sleep 100000")
				p := stopsAfter(t, db, web, "trap 'exit 7' USR2; "+stopped("TERM", "exit 7"), "-stop-share=1h",
					"-alive-exec=sh", "-alive-exec=-c", "-alive-exec=echo $$ >"+probed+"; exec sleep 100000")
				p.send(syscall.SIGTERM)
				hasSaid(t, db, "stopping")
				probe := 0
				for probe == 0 && len(children(p.Process.Pid)) > 0 {
					data, _ := os.ReadFile(probed)
					probe, _ = strconv.Atoi(strings.TrimSpace(string(data)))
				}
				if probe == 0 {
					continue
				}
				release(p, neighbour)
				require.Equal(t, 7, p.end())
				require.Eventually(t, func() bool { return executable(probe) == "" }, deadline, time.Millisecond)
				return
			}
			require.Fail(t, "the probe never began")
		})
	}
}

// TestAStopIsHeldBackForItsShareOfTheGracePeriod and no longer, whatever web does.
func TestAStopIsHeldBackForItsShareOfTheGracePeriod(t *testing.T) {
	t.Parallel()
	for name, deed := range map[string]string{
		"it ends later":              ":",
		"its state is garbage":       "echo x >state",
		"its state is half a one":    "head -c 50 state >half; mv half state",
		"its state is a pipe":        "rm state; mkfifo state",
		"its state is a link":        "mv state real; ln -s real state",
		"its lock is a pipe":         "rm lock; mkfifo lock",
		"its lock is large":          "head -c 100000 /dev/zero >big; mv big lock",
		"it always is being stopped": "sed s/started/stopping/ state >new; mv new state",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, web := orderDir(t), orderDir(t)
			p := stopsAfter(t, db, web, stopped("TERM", "exit 3"), "-stop-share=1500ms", "-stop-together")
			neighbour := dependent(t, web, "cd "+web+"; echo ready; until test -e go; do sleep 0.01; done; "+deed+"; echo done; exec sleep 60")
			create(t, web+"/go")
			neighbour.expect("done")
			p.send(syscall.SIGTERM)
			// The base name of each such directory is db.
			require.Regexp(t, `^entrypointer: the stop signal was held back for (1\.\d+s|\d+ms), and is forwarded while these containers still run: db \(.*\)$`, p.line())
			p.expect("stopped")
			require.Equal(t, 3, p.end())
		})
	}
}

// isHeldUntilASecondSignal checks that the stop signal is held back, and ends the command
// by another one.
func isHeldUntilASecondSignal(t *testing.T, db string, p *process) {
	t.Helper()
	p.send(syscall.SIGTERM)
	staysHeld(t, db, p)
	p.send(syscall.SIGTERM)
	p.expect("stopped")
	require.Equal(t, 3, p.end())
}

// isHeldWhileItLives checks that a stop signal is held back for longer than that of a
// container that is stopped alone, until the neighbour is killed.
func isHeldWhileItLives(t *testing.T, db string, p, neighbour *process) {
	t.Helper()
	staysHeld(t, db, p)
	time.Sleep(1200 * time.Millisecond)
	staysHeld(t, db, p)
	neighbour.kill(neighbour.Process.Pid)
	p.expect("stopped")
	require.Equal(t, 3, p.end())
}

// TestAHookThatDelaysTheStopSignalTakesFromTheShare: a preStop hook of db ends when its
// share is over already, as its own length shows or the time at which web was stopped.
// Together, both are the same delay. A time in the future has no effect. A stop from
// before the grace period was one of web alone.
func TestAHookThatDelaysTheStopSignalTakesFromTheShare(t *testing.T) {
	db, web := orderDir(t), orderDir(t)
	neighbour := dependent(t, web, "trap '' TERM; "+waitForSignals)
	neighbour.send(syscall.SIGTERM)
	hasSaid(t, web, "stopping")
	before := func(ago time.Duration) {
		t.Helper()
		at := time.Now().Add(-ago)
		require.NoError(t, os.Chtimes(web+"/state", at, at))
	}
	for _, test := range []struct {
		ago   time.Duration
		flags []string
	}{
		{time.Hour, nil},
		{2 * time.Hour, nil},
		{0, []string{"-stop-delay=1h"}},
		{time.Hour, []string{"-stop-delay=1h"}},
	} {
		p := stopsAfter(t, db, web, stopped("TERM", "exit 3"), append(test.flags, "-stop-share=1h", "-stop-grace=3h")...)
		before(test.ago)
		p.send(syscall.SIGTERM)
		require.Contains(t, p.line(), "entrypointer: the stop signal was held back for 1ms, and is forwarded while these containers still run: db (it is being stopped)")
		p.expect("stopped")
		require.Equal(t, 3, p.end())
	}
	both := stopsAfter(t, db, web, stopped("TERM", "exit 3"), "-stop-delay=40m", "-stop-share=1h", "-stop-grace=3h")
	before(40 * time.Minute)
	isHeldUntilASecondSignal(t, db, both)
	long := stopsAfter(t, db, web, stopped("TERM", "exit 3"), "-stop-delay=1h", "-stop-share=2h", "-stop-grace=3h", "-stop-together")
	before(4 * time.Hour)
	isHeldUntilASecondSignal(t, db, long)
	p := stopsAfter(t, db, web, stopped("TERM", "exit 3"), "-stop-share=1h")
	before(-time.Hour)
	p.send(syscall.SIGTERM)
	isHeldWhileItLives(t, db, p, neighbour)
}

// TestANeighbourThatWasStoppedLongAgoShowsNoStopOfThePod: web was stopped alone, and runs
// on. The signal of db is forwarded without a word about a share that is over.
func TestANeighbourThatWasStoppedLongAgoShowsNoStopOfThePod(t *testing.T) {
	t.Parallel()
	for _, flags := range [][]string{nil, {"-stop-grace=10m"}} {
		db, web := orderDir(t), orderDir(t)
		neighbour := dependent(t, web, "trap '' TERM; "+waitForSignals)
		neighbour.send(syscall.SIGTERM)
		hasSaid(t, web, "stopping")
		at := time.Now().Add(-time.Hour)
		require.NoError(t, os.Chtimes(web+"/state", at, at))
		p := stopsAfter(t, db, web, stopped("TERM", "exit 3"), append(flags, "-stop-share=40m")...)
		p.send(syscall.SIGTERM)
		p.expect("stopped")
		require.Equal(t, 3, p.end())
	}
}

// TestAReaderThatIsStoppedReadsTheLastWordsOfItsWriter, also slowly, and both succeed.
func TestAReaderThatIsStoppedReadsTheLastWordsOfItsWriter(t *testing.T) {
	t.Parallel()
	for name, read := range map[string][]string{
		"at once": script("exec cat"),
		"slowly":  script("while read -r line; do sleep 0.2; echo $line; done"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			app, shipper := stopsPipe(t, "seq 1 8; exit 0", read...)
			for n := range 8 {
				shipper.expect(strconv.Itoa(n + 1))
			}
			require.Zero(t, app.end())
			require.Zero(t, shipper.end())
		})
	}
}

// TestAReaderThatReadsNothingGetsItsStopSignalNonetheless, although the pipe isn't empty.
func TestAReaderThatReadsNothingGetsItsStopSignalNonetheless(t *testing.T) {
	t.Parallel()
	app, shipper := stopsPipe(t, "seq 1 8; exit 0", script("read -r line; "+stopped("TERM", "exit 3"))...)
	require.Zero(t, app.end())
	shipper.expect("stopped")
	require.Equal(t, 3, shipper.end())
}

// stopsPipe sends both containers of a pipe their stop signal, the reader first. The
// writer's command then runs a shell command.
func stopsPipe(t *testing.T, atStop string, read ...string) (app, shipper *process) {
	t.Helper()
	writer, reader := writerAndReader(t)
	app = writer.lives(append([]string{writer.to(reader)}, script("trap '"+atStop+"' TERM; echo ready; while :; do sleep 0.02; done")...)...)
	shipper = reader.lives(append([]string{reader.from(writer), "-stop-after=" + writer.dir, "-stop-share=1h"}, read...)...)
	shipper.expect("ready")
	shipper.send(syscall.SIGTERM)
	hasSaid(t, reader.dir, "stopping")
	app.send(syscall.SIGTERM)
	return app, shipper
}

// TestASecondStopSignalIsForwardedAtOnce, together with the first.
func TestASecondStopSignalIsForwardedAtOnce(t *testing.T) {
	t.Parallel()
	db, web := orderDir(t), orderDir(t)
	dependent(t, web, "echo ready; exec sleep 60")
	p := begin(t, []string{entrypoint, "-order-dir=" + db, "-stop-after=" + web, "-stop-together", "-stop-share=40s", "-stop-signal=RTMIN+5", "--", child, "echo", "got"})
	p.expect("ready")
	hasSaid(t, db, "started")
	const sig = syscall.Signal(34 + 5)
	p.send(sig)
	hasSaid(t, db, "stopping")
	p.send(sig)
	p.expect("got")
	p.expect("got")
	p.send(sig) // later signals are forwarded at once, too
	p.expect("got")
	command := childOf(t, p.Process.Pid)
	settle(t, p.Process.Pid, command)
	require.Empty(t, p.kill(command))
}

// TestADependentThatIsKilledIsNotWaitedFor any longer.
func TestADependentThatIsKilledIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	db, web := orderDir(t), orderDir(t)
	neighbour := dependent(t, web, "trap '' TERM; "+waitForSignals)
	p := stopsAfter(t, db, web, stopped("TERM", "exit 3"), "-stop-share=40s")
	p.send(syscall.SIGTERM)
	neighbour.send(syscall.SIGTERM)
	isHeldWhileItLives(t, db, p, neighbour)
}

// TestTheStopSignalIsTheOneOfTheImage, and all others are forwarded at once.
func TestTheStopSignalIsTheOneOfTheImage(t *testing.T) {
	t.Parallel()
	for name, shell := range map[string]string{"SIGQUIT": "QUIT", "int": "INT", "28": "WINCH"} {
		db, web := orderDir(t), orderDir(t)
		neighbour := dependent(t, web, stopped("QUIT", "exit 0"), "-stop-signal=QUIT")
		p := stopsAfter(t, db, web, "trap 'echo term' TERM; "+stopped(shell, "exit 3"), "-stop-share=40s", "-stop-signal="+name, "-stop-together")
		p.send(syscall.SIGTERM)
		p.expect("term")
		hasSaid(t, db, "started")
		p.send(map[string]syscall.Signal{"QUIT": syscall.SIGQUIT, "INT": syscall.SIGINT, "WINCH": syscall.SIGWINCH}[shell])
		staysHeld(t, db, p)
		neighbour.send(syscall.SIGTERM) // the neighbour has no trap for SIGTERM
		require.Equal(t, 143, neighbour.end())
		p.expect("stopped")
		require.Equal(t, 3, p.end())
	}
	// Before the command's start, the stop signal ends the wait, the hook or the pause.
	own := orderDir(t)
	p := begin(t, []string{entrypoint, "-order-dir=" + own, "-stop-signal=SIGWINCH", "-depends-on=started:" + orderDir(t), "--", "true"})
	waits(t, p)
	p.send(syscall.SIGWINCH)
	require.Contains(t, p.line(), "ended by SIGWINCH during the wait for db:started")
	require.Equal(t, 128+int(syscall.SIGWINCH), p.end())
}

// TestTheStatusNamesTheDependentsThatDelayAStop.
func TestTheStatusNamesTheDependentsThatDelayAStop(t *testing.T) {
	t.Parallel()
	db, web := orderDir(t), orderDir(t)
	neighbour := dependent(t, web, stopped("TERM", "exit 0"))
	p, control := container(t, "-order-dir="+db, "-stop-after="+web, "-stop-together", "-stop-share=40s", "--", "sleep", "60")
	hasSaid(t, db, "started")
	require.Equal(t, "Running", status(t, control).Phase)
	p.send(syscall.SIGTERM)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		var s waitingFor
		assert.NoError(c, json.Unmarshal([]byte(control("status").Stdout), &s))
		assert.Equal(c, "Stopping", s.Phase)
		assert.Equal(c, []struct{ Container, Condition, Seen string }{{"db", "exited", "the command has started"}}, s.WaitingFor)
		assert.WithinRange(c, s.WaitingSince, time.Now().Add(-deadline), time.Now())
	}, deadline, time.Millisecond)
	neighbour.send(syscall.SIGTERM)
	require.Equal(t, 143, p.end())
}

// TestAHeldStopEndsWithItsCommand, which may end by itself or by its timeout.
func TestAHeldStopEndsWithItsCommand(t *testing.T) {
	for name, test := range map[string]struct {
		flags  []string
		script string
		code   int
		status string
	}{
		"by itself":   {nil, "trap 'exit 7' USR2; " + waitForSignals, 7, `"reason":"Exited","exitCode":7`},
		"by its time": {[]string{"-timeout=1s"}, "trap : USR2; trap 'exit 7' TERM;" + waitForSignals, 124, `"reason":"Timeout","exitCode":124`},
	} {
		t.Run(name, func(t *testing.T) {
			db, web, status := orderDir(t), orderDir(t), t.TempDir()+"/status"
			dependent(t, web, "echo ready; exec sleep 60")
			p := stopsAfter(t, db, web, test.script, append(test.flags, "-stop-together", "-stop-share=40s", "-pause=after-failure", "-status-file="+status)...)
			p.send(syscall.SIGTERM)
			hasSaid(t, db, "stopping")
			p.send(syscall.SIGUSR2)
			require.Equal(t, test.code, p.end())
			data, err := os.ReadFile(status)
			require.NoError(t, err)
			require.Contains(t, string(data), test.status)
			require.NotContains(t, string(data), "waitingFor")
			hasSaid(t, db, "ended")
		})
	}
}

// TestNoStopSignalIsLostOrSentTwice, whether it arrives before the handlers, before the
// command, at its start, or later.
func TestNoStopSignalIsLostOrSentTwice(t *testing.T) {
	const many, atOnce = 320, 16
	web := orderDir(t)
	neighbour := dependent(t, web, "trap '' TERM; "+waitForSignals)
	neighbour.send(syscall.SIGTERM)
	hasSaid(t, web, "stopping")
	later := time.Now().Add(time.Hour) // so that the share begins with each signal
	require.NoError(t, os.Chtimes(web+"/state", later, later))
	outcomes := map[string]int{}
	for n := 0; n < many; n += atOnce {
		var all []*process
		for i := range atOnce {
			all = append(all, begin(t, []string{
				entrypoint, "-order-dir=" + orderDir(t), "-stop-after=" + web, "-stop-share=400ms", "--",
				"sh", "-c", "trap 'echo stopped' TERM; trap 'echo end; exit 3' USR1; " + waitForSignals,
			}, listening(t)))
			p := all[i]
			time.AfterFunc(time.Duration(n+i)*80*time.Microsecond, func() { _ = syscall.Kill(p.Process.Pid, syscall.SIGTERM) })
		}
		for _, p := range all {
			lines := map[string]int{}
			for line := range p.lines {
				lines[strings.SplitN(line, " (", 2)[0]]++
				if lines["ready"] == 1 && lines["stopped"] == 1 && lines["asked"] == 0 {
					lines["asked"] = 1
					settle(t, p.Process.Pid, childOf(t, p.Process.Pid))
					p.send(syscall.SIGUSR1)
				}
			}
			switch code := p.end(); code {
			case 143:
				outcomes["before the traps were there"]++
			case 3:
				require.Equal(t, 1, lines["stopped"], lines)
				outcomes["held and sent"]++
			default:
				require.Fail(t, "neither held nor sent", "%d %v", code, lines)
			}
		}
	}
	t.Log(outcomes)
	require.NotZero(t, outcomes["held and sent"])
	neighbour.kill(neighbour.Process.Pid)
}
