// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
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

// unavailable responds 503 until a time.
func unavailable(until time.Time) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, _ *http.Request) bool {
		if time.Now().After(until) {
			return false
		}
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	}
}

// The last output of a command may fill a pipe that the command has enlarged, while the
// supervisor doesn't get to run.
func TestTheLastOutputOfAKilledCommandIsStored(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3, which makes pipes larger")
	}
	s := serve(t)
	got := s.run(s.command("--", python, "-c", `
import array, fcntl, os, signal, termios, time
fcntl.fcntl(1, 1031, 1 << 20) # F_SETPIPE_SZ
os.write(1, b"x" * ((1 << 20) - 1000))
left = array.array("i", [1])
while left[0]: # until that is in the ring
    time.sleep(0.05)
    fcntl.ioctl(1, termios.FIONREAD, left)
os.kill(os.getppid(), signal.SIGSTOP)
os.write(1, b"y" * 600000)
os.system("(sleep 0.3; kill -CONT %d) &" % os.getppid())
os.kill(os.getpid(), signal.SIGKILL)
`))
	require.Equal(t, 128+int(syscall.SIGKILL), got.code)
	have := s.stream("stdout")
	require.True(t, have.complete)
	require.Len(t, have.data, (1<<20)-1000+600000)
	require.Equal(t, have.dropped, int64(bytes.Count(have.data, []byte{0})))
	require.Zero(t, have.missing)
	require.Equal(t, 600000, bytes.Count(have.data, []byte("y")))
}

// With GODEBUG, Go's runtime prints to descriptor 2 of the supervisor.
func TestOutputOfTheGoRuntimeBlocksNothing(t *testing.T) {
	s := serve(t)
	cmd := s.command("-logs-flush=1s", "--", "sh", "-c", "timeout 3 yes aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa >&2; exit 7")
	cmd.Env = append(os.Environ(), "GODEBUG=schedtrace=10,gctrace=1")
	got := s.run(cmd)
	require.Equal(t, 7, got.code)
	require.Less(t, got.took, deadline)
}

func TestTheFlushEndsBeforeTheGracePeriod(t *testing.T) {
	s := serve(t)
	s.meet(unavailable(time.Now().Add(time.Hour)))
	ready := filepath.Join(t.TempDir(), "ready")
	cmd := s.command("-logs-flush=10s", "-logs-grace=4s", "--", "sh", "-c", "echo started; trap 'sleep 1; exit 0' TERM; : > "+ready+"; while true; do sleep 0.05; done")
	wait := s.start(cmd)
	waitForFile(t, ready)
	told := time.Now()
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.Zero(t, wait().code)
	require.Less(t, time.Since(told), 3500*time.Millisecond)
	require.Greater(t, time.Since(told), 1900*time.Millisecond, "the supervisor waits for the service for a second")
}

func TestAServiceThatIsBackDuringTheFlushGetsEverything(t *testing.T) {
	t.Parallel()
	s := serve(t)
	// The pause between attempts is eight seconds by then.
	s.meet(unavailable(time.Now().Add(10500 * time.Millisecond)))
	got := s.run(s.command("-logs-flush=6s", "--", "sh", "-c", "echo first; sleep 9; echo last"))
	require.Zero(t, got.code)
	require.Empty(t, got.stderr)
	require.Equal(t, stream{data: []byte("first\nlast\n"), complete: true}, s.stream("stdout"))
}

func TestARefusalOfOneStreamDoesNotAffectTheOther(t *testing.T) {
	t.Parallel()
	s := serve(t)
	var asked atomic.Int64
	s.meet(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/logs" || asked.Add(1)%2 == 0 {
			return false
		}
		w.WriteHeader(http.StatusBadRequest) // to one of the two that makes a stream
		return true
	})
	got := s.run(s.command("-logs-flush=3s", "--", "sh", "-c", "echo out; echo err >&2"))
	require.Zero(t, got.code)
	require.True(t, s.id("stdout") != "" || s.id("stderr") != "")
}

func TestOutputReadsAsMissingIfMarkersAreRefusedToo(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.meet(func(w http.ResponseWriter, r *http.Request) bool {
		if r.ContentLength == 0 || r.URL.Path == "/logs" {
			return false
		}
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		return true
	})
	got := s.run(s.command("--", "sh", "-c", "echo first; sleep 1; echo second; exit 3"))
	require.Equal(t, 3, got.code)
	require.Less(t, got.took, patience, "refused bytes aren't sent again and again")
	have := s.stream("stdout")
	require.True(t, have.complete)
	require.Equal(t, int64(len("first\nsecond\n")), have.missing)
}

// A write to a pipe without a reader causes a SIGPIPE.
func TestAFailingTeeSendsTheCommandNoSignal(t *testing.T) {
	t.Parallel()
	s := serve(t)
	cmd := s.command("-logs=tee", "--", "sh", "-c", "ulimit -f unlimited; head -c 5000000 /dev/zero; sleep 0.2; echo still there; exit 3")
	cmd.Args = append([]string{"sh", "-c", `ulimit -S -f 8192; exec "$@" >` + filepath.Join(t.TempDir(), "full"), "sh"}, cmd.Args...)
	cmd.Path = "/bin/sh"
	require.Equal(t, 3, s.run(cmd).code)
	require.True(t, bytes.HasSuffix(s.stream("stdout").data, []byte("still there\n")))
}

func TestASecretThatChangesDuringAnOutageIsNotSentAfterIt(t *testing.T) {
	s := serve(t)
	o := s.failing()
	directory := t.TempDir()
	secret, printed, seen := filepath.Join(directory, "password"), filepath.Join(directory, "printed"), filepath.Join(directory, "seen")
	require.NoError(t, os.WriteFile(secret, []byte("open sesame"), 0o600))
	wait := s.start(s.command("-mask-files="+secret, "--", "sh", "-c",
		"echo open sesame; sleep 1; printf 'open barley' > "+secret+"; sleep 1.5; echo open barley; : > "+printed+"; "+waiting(seen)))
	waitForFile(t, printed)
	o.over.Store(true)
	s.waitFor("stdout", "***********\n***********\n")
	letGoOn(t, seen)
	require.Zero(t, wait().code)
	require.Equal(t, "***********\n***********\n", string(s.stream("stdout").data))
}

func TestNoneOfSeveralSecretsThatChangeDuringAnOutageIsSentAfterIt(t *testing.T) {
	s := serve(t)
	o := s.failing()
	directory := t.TempDir()
	secret, printed, seen := filepath.Join(directory, "password"), filepath.Join(directory, "printed"), filepath.Join(directory, "seen")
	wait := s.start(s.command("-mask-files="+secret, "--", "sh", "-c", `for pause in 0.5 0.7 1.5 2.3 0; do
		printf "open sesame $pause" > `+secret+`; cat `+secret+`; echo; sleep $pause
	done; : > `+printed+"; "+waiting(seen)))
	waitForFile(t, printed)
	o.over.Store(true)
	want := strings.Repeat(strings.Repeat("*", 15)+"\n", 4) + strings.Repeat("*", 13) + "\n"
	s.waitFor("stdout", want)
	letGoOn(t, seen)
	require.Zero(t, wait().code)
	require.Equal(t, want, string(s.stream("stdout").data))
}

// The kubelet replaces the token by exchanging a symbolic link. The service doesn't accept
// the former token any more.
func TestAReplacedTokenLosesNothing(t *testing.T) {
	t.Parallel()
	s := serve(t)
	volume := t.TempDir()
	provide := func(token string) {
		require.NoError(t, os.Mkdir(filepath.Join(volume, ".."+token), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(volume, ".."+token, "token"), []byte(token), 0o600))
		require.NoError(t, os.Symlink(".."+token, filepath.Join(volume, "..data_tmp")))
		require.NoError(t, os.Rename(filepath.Join(volume, "..data_tmp"), filepath.Join(volume, "..data")))
	}
	provide("former")
	s.token = filepath.Join(volume, "token")
	require.NoError(t, os.Symlink("..data/token", s.token))
	var expired atomic.Bool
	var refused, latter atomic.Int64
	s.meet(func(w http.ResponseWriter, r *http.Request) bool {
		switch token := r.Header.Get("Authorization"); {
		case token == "Bearer latter":
			latter.Add(1)
		case token != "Bearer former" || expired.Load():
			refused.Add(1)
			w.WriteHeader(http.StatusUnauthorized)
			return true
		}
		r.Header.Set("Authorization", "Bearer "+podToken)
		return false
	})
	said := t.TempDir()
	wait := s.start(s.command("--", "sh", "-c", "echo first; "+waiting(said+"/second")+"; echo second; "+waiting(said+"/third")+"; echo third; exit 3"))
	s.waitFor("stdout", "first\n")
	expired.Store(true)
	letGoOn(t, filepath.Join(said, "second"))
	require.Eventually(t, func() bool { return refused.Load() > 0 }, deadline, 50*time.Millisecond)
	provide("latter")
	letGoOn(t, filepath.Join(said, "third"))
	require.Equal(t, 3, wait().code)
	require.Equal(t, stream{data: []byte("first\nsecond\nthird\n"), complete: true}, s.stream("stdout"))
	require.Positive(t, latter.Load())
}

func TestAMaskedFileThatChangesAllTheTimeDelaysNothing(t *testing.T) {
	t.Parallel()
	s := serve(t)
	file := filepath.Join(t.TempDir(), "all-the-time")
	got := s.run(s.command("-mask-files="+file, "--", "sh", "-c", `i=0; while [ $i -lt 300 ]; do echo "this is line $i" >> `+file+`; echo "this is line $i"; i=$((i+1)); done`))
	require.Zero(t, got.code)
	require.Empty(t, got.stderr)
	have := s.stream("stdout")
	require.True(t, have.complete)
	require.Zero(t, have.dropped)
	require.NotContains(t, string(have.data), "this is line", "each secret is in the file before it is printed")
}

// The command has the rights of the supervisor, so it can write into the ring.
func TestACommandThatScribblesIntoTheRingHarmsOnlyItsLog(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3, which scribbles")
	}
	for name, value := range map[string]string{"ones": "0x01", "all bits": "0xff", "zeros": "0x00"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t)
			got := s.run(s.command("-logs-flush=2s", "--", python, "-c", strings.ReplaceAll(`
import os, sys, time
sys.stdout.write("before\n"); sys.stdout.flush(); time.sleep(0.6)
for fd in os.listdir("/proc/%d/fd" % os.getppid()):
    path = "/proc/%d/fd/%s" % (os.getppid(), fd)
    if "entrypointer-logs" in os.readlink(path):
        ring = os.open(path, os.O_RDWR)
        os.pwrite(ring, bytes([VALUE]) * 4000, 8)
        try: os.ftruncate(ring, 0); sys.exit(9)
        except PermissionError: pass
time.sleep(0.6); sys.stdout.write("after\n"); sys.exit(5)
`, "VALUE", value)))
			require.Equal(t, 5, got.code, got.stderr)
			require.Less(t, got.took, deadline)
		})
	}
}
