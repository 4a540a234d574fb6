// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// outage begins an outage that ends when a test says so.
func (s *service) outage() (end func()) {
	var over atomic.Bool
	s.meet(func(w http.ResponseWriter, _ *http.Request) bool {
		if !over.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		return !over.Load()
	})
	return func() { over.Store(true) }
}

func TestACommandThatIsFasterThanTheServiceWaitsAndLosesNothing(t *testing.T) {
	s := serve(t)
	s.meet(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPatch {
			time.Sleep(20 * time.Millisecond)
		}
		return false
	})
	for _, buffer := range []string{"262144", "1048576"} {
		t.Run(buffer, func(t *testing.T) {
			container := "buffer-" + buffer
			got := s.run(s.command("-logs-container="+container, "-logs-when-full=block:1m", "-logs-buffer="+buffer, "--", "sh", "-c", "yes | head -c 8000000; yes | head -c 2000000 >&2"))
			require.Zero(t, got.code)
			require.Empty(t, got.stderr)
			require.Equal(t, stream{data: []byte(strings.Repeat("y\n", 4_000_000)), complete: true}, s.streamOf(container, "stdout"))
			require.Equal(t, stream{data: []byte(strings.Repeat("y\n", 1_000_000)), complete: true}, s.streamOf(container, "stderr"))
		})
	}
}

func TestAnOutageStopsACommandThatWaitsAndLosesNothing(t *testing.T) {
	t.Parallel()
	s := serve(t)
	end := s.outage()
	directory := t.TempDir()
	status, done := filepath.Join(directory, "status"), filepath.Join(directory, "done")
	wait := s.start(s.command("-logs-when-full=block:1h", "-status-file="+status, "--", "sh", "-c", "yes | head -c 3000000; : > "+done))
	waitForFailure(t, status, "503")
	require.NoFileExists(t, done)
	end()
	got := wait()
	require.Zero(t, got.code)
	require.FileExists(t, done)
	require.Equal(t, stream{data: []byte(strings.Repeat("y\n", 1_500_000)), complete: true}, s.stream("stdout"))
}

// The ring of 1 MiB and the pipe hold what the command prints, and nothing more.
func TestTheEndOfACommandWithAFullRingAndPipeLosesNothing(t *testing.T) {
	t.Parallel()
	s := serve(t)
	end := s.outage()
	done := filepath.Join(t.TempDir(), "done")
	wait := s.start(s.command("-logs-when-full=block:1h", "--", "sh", "-c", "yes | head -c 940000; : > "+done))
	waitForFile(t, done)
	end()
	require.Zero(t, wait().code)
	require.Equal(t, stream{data: []byte(strings.Repeat("y\n", 470_000)), complete: true}, s.stream("stdout"))
}

func TestASignalReachesACommandThatWaitsForTheService(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.outage()
	status := filepath.Join(t.TempDir(), "status")
	cmd := s.command("-logs-when-full=block:1h", "-logs-flush=0s", "-status-file="+status, "--", "yes")
	wait := s.start(cmd)
	waitForFailure(t, status, "503")
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, 128+int(syscall.SIGTERM), wait().code)
}

func TestADeadServiceStopsACommandForNoLongerThanItsBound(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.meet(neverAnswer)
	status := filepath.Join(t.TempDir(), "status")
	got := s.run(s.command("-logs-when-full=block:1s", "-logs-flush=0s", "-status-file="+status, "--", "sh", "-c", "yes | head -c 5000000; yes | head -c 5000000 >&2; yes | head -c 5000000; exit 7"))
	require.Equal(t, 7, got.code)
	require.Greater(t, got.took, time.Second)
	require.Equal(t, 1, strings.Count(got.stderr, "output is dropped"), got.stderr)
	require.Contains(t, got.stderr, "the command has waited for 1s; to have it wait longer, set annotation entrypointer.dev/logs-when-full: block:DURATION")
	require.Positive(t, lastStatus(t, status).Logs.Stdout.Dropped)
	require.Positive(t, lastStatus(t, status).Logs.Stderr.Dropped)
}

func TestALossIsToldInTheClustersLogAndInTheStatus(t *testing.T) {
	t.Parallel()
	s := serve(t)
	end := s.outage()
	directory := t.TempDir()
	status, goOn := filepath.Join(directory, "status"), filepath.Join(directory, "go-on")
	wait := s.start(s.command("-logs-buffer=524288", "-status-file="+status, "--", "sh", "-c", "yes | head -c 3000000; "+waiting(goOn)+"; yes | head -c 2000000; exit 7"))
	waitForFailure(t, status, "503")
	require.Eventually(t, func() bool { return lastStatus(t, status).Logs.Stdout.Dropped > 0 }, deadline, 20*time.Millisecond, "the status doesn't wait for the service")
	end()
	letGoOn(t, goOn)
	got := wait()
	require.Equal(t, 7, got.code)
	require.Equal(t, 1, strings.Count(got.stderr, "\n"), got.stderr)
	require.Contains(t, got.stderr, "entrypointer: sending logs: output is dropped, because the command prints more than the log service takes, and the memory for unsent output (512Ki) is full")
	require.Contains(t, got.stderr, "set annotation entrypointer.dev/logs-when-full: block, or have more memory, by entrypointer.dev/logs-buffer")
	have := s.stream("stdout")
	require.True(t, have.complete)
	require.Equal(t, have.dropped, lastStatus(t, status).Logs.Stdout.Dropped)
	require.Less(t, have.dropped, int64(5_000_000))
}

func TestALargerRingHoldsMoreOfAnOutage(t *testing.T) {
	s := serve(t)
	end := s.outage()
	done := filepath.Join(t.TempDir(), "done")
	wait := s.start(s.command("-logs-buffer=4194304", "--", "sh", "-c", "yes | head -c 4000000; : > "+done))
	waitForFile(t, done)
	end()
	require.Zero(t, wait().code)
	require.Equal(t, stream{data: []byte(strings.Repeat("y\n", 2_000_000)), complete: true}, s.stream("stdout"))
}

func TestAContainerThatEndsInAnOutageDeliversWhenTheServiceIsBack(t *testing.T) {
	t.Parallel()
	s := serve(t)
	end := s.outage()
	status := filepath.Join(t.TempDir(), "status")
	wait := s.start(s.command("-logs-flush=1h", "-logs-when-full=block:1h", "-status-file="+status, "--", "sh", "-c", "yes | head -c 900000; exit 7"))
	waitForFailure(t, status, "503")
	end()
	got := wait()
	require.Equal(t, 7, got.code)
	require.Empty(t, got.stderr)
	require.Equal(t, stream{data: []byte(strings.Repeat("y\n", 450_000)), complete: true}, s.stream("stdout"))
}

func TestOtherContainersDoNotWaitForTheDelivery(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.outage()
	directory := t.TempDir()
	state, post := filepath.Join(directory, "state"), filepath.Join(directory, "post")
	require.NoError(t, os.Mkdir(state, 0o755))
	first := s.command("-logs-flush=1h", "-logs-grace=1s", "-order-dir="+state, "-post-file="+post, "--", "sh", "-c", "echo out; exit 7")
	wait := s.start(first)
	waitForFile(t, post+".err") // as the next step of a TaskRun does
	next := exec.CommandContext(t.Context(), entrypoint, "-depends-on=exited:"+state, "--", "echo", "started")
	out, err := next.CombinedOutput()
	require.NoError(t, err)
	require.Equal(t, "started\n", string(out))
	require.NoError(t, syscall.Kill(first.Process.Pid, 0), "the first still waits for the log service")

	require.NoError(t, first.Process.Signal(syscall.SIGTERM)) // the kubelet kills it a second later
	got := wait()
	require.Equal(t, 7, got.code)
	require.Contains(t, got.stderr, "the log service lacks 4 of 4 bytes of stdout")
}

// The image of a container chooses its stop signal.
func TestAnyStopSignalDuringTheDeliveryBeginsTheGracePeriod(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.outage()
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGWINCH} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			post := filepath.Join(t.TempDir(), "post")
			cmd := s.command("-logs-flush=1h", "-logs-grace=1s", "-post-file="+post, "--", "sh", "-c", "echo out; exit 7")
			wait := s.start(cmd)
			waitForFile(t, post+".err")
			require.NoError(t, cmd.Process.Signal(sig))
			require.Equal(t, 7, wait().code)
		})
	}
}

func TestASecretThatIsLongerThanTheRingStopsNoCommand(t *testing.T) {
	t.Parallel()
	s := serve(t)
	token := filepath.Join(t.TempDir(), "token")
	secret := strings.Repeat("0123456789abcde", 20_000)
	require.NoError(t, os.WriteFile(token, []byte(secret), 0o600))
	got := s.run(s.command("-logs-when-full=block:"+deadline.String(), "-logs-buffer=262144", "-mask-files="+token, "--", "sh", "-c", "cat "+token+"; echo end"))
	require.Zero(t, got.code)
	require.Less(t, got.took, deadline)
	require.Equal(t, stream{data: []byte(strings.Repeat("*", len(secret)) + "end\n"), complete: true}, s.stream("stdout"))
}
