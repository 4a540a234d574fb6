// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bufio"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// reacher waits for URLs, and prints that it has started.
func reacher(t *testing.T, args ...string) *process {
	t.Helper()
	return begin(t, append(append([]string{entrypoint}, args...), "--", "echo", "web is started"))
}

func TestACommandStartsOnceItsTargetsAnswer(t *testing.T) {
	t.Parallel()
	for name, target := range map[string]func(t *testing.T) (url string, become func()){
		"a server's answer": func(t *testing.T) (string, func()) {
			var ready atomic.Bool
			number := server(t, func(w http.ResponseWriter, r *http.Request) {
				if !ready.Load() || r.Method != http.MethodGet || r.RequestURI != "/healthz/ready?x=1" {
					w.WriteHeader(http.StatusServiceUnavailable)
				}
			})
			return "http://127.0.0.1:" + number + "/healthz/ready?x=1", func() { ready.Store(true) }
		},
		"a port": func(t *testing.T) (string, func()) {
			number, listen := port(t, "127.0.0.1")
			return "tcp://:" + number, listen
		},
		"a file": func(t *testing.T) (string, func()) {
			file := t.TempDir() + "/ready"
			return "file://" + file, func() { create(t, file) }
		},
	} {
		for _, mode := range []string{"supervise", "exec"} {
			t.Run(name+" in mode "+mode, func(t *testing.T) {
				t.Parallel()
				url, become := target(t)
				p := reacher(t, "-mode="+mode, "-wait-for="+url, "-wait-for=file:///")
				waits(t, p)
				become()
				isStarted(t, p)
			})
		}
	}
}

// TestEachTargetMustSucceedOnlyOnce, while dependencies must be met at the command's
// start.
func TestEachTargetMustSucceedOnlyOnce(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	number := server(t, func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) > 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	dir := orderDir(t)
	dependency := db(t, dir, "--", "sleep", "60")
	hasSaid(t, dir, "started")
	file := t.TempDir() + "/late"
	p := reacher(t, "-depends-on=started:"+dir, "-wait-for=http://:"+number+"/", "-wait-for=file://"+file)
	require.Eventually(t, func() bool { return asked.Load() == 1 }, deadline, time.Millisecond)
	waits(t, p)
	dependency.kill(dependency.Process.Pid)
	time.Sleep(500 * time.Millisecond) // at least one look
	create(t, file)
	time.Sleep(1500 * time.Millisecond) // at least one attempt
	waits(t, p)
	dependency = db(t, dir, "--", "sleep", "60")
	isStarted(t, p)
	require.EqualValues(t, 1, asked.Load())
	dependency.kill(dependency.Process.Pid)
}

func TestATimeoutNamesEachTargetAndItsLastFailure(t *testing.T) {
	t.Parallel()
	for url, why := range map[string]string{
		"tcp://127.0.0.1:1":                              "connection refused",
		"file:///missing":                                "no such file or directory",
		"http://:" + server(t, http.NotFound) + "/x":     `the answer was "HTTP/1.1 404 Not Found\r"`,
		hostileSidecar(t, saying("SSH-2.0\r\n")) + "ssh": `the answer was "SSH-2.0\r"`,
	} {
		t.Run(url, func(t *testing.T) {
			t.Parallel()
			status := filepath.Join(t.TempDir(), "status")
			p := reacher(t, "-wait-for="+url, "-depends-on-timeout=3s", "-status-file="+status)
			require.Eventually(t, func() bool {
				data := output(t, []string{"cat", status}).Stdout
				return strings.Contains(data, `"waitingFor":[{"url":"`+url+`","seen":"`) && strings.Contains(data, strings.ReplaceAll(strings.ReplaceAll(why, `\`, `\\`), `"`, `\"`))
			}, deadline, time.Millisecond)
			require.Equal(t, "entrypointer: waiting for "+url+" ("+why+"): not met after 3s: the command was not started: check them, or raise depends-on-timeout", p.line())
			require.Equal(t, 124, p.end())
		})
	}
}

func TestAWaitForAURLRemindsAndIsEndedByASignal(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), entrypoint, "-wait-for=tcp://127.0.0.1:1", "--", "true")
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewReader(stderr)
	said, err := lines.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "entrypointer: waiting for tcp://127.0.0.1:1 (connection refused) for 10s now\n", said)
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	said, err = lines.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "entrypointer: ended by SIGTERM during the wait for tcp://127.0.0.1:1 (connection refused): the command was not started\n", said)
	require.Error(t, cmd.Wait())
	require.Equal(t, 128+15, cmd.ProcessState.ExitCode())
}
