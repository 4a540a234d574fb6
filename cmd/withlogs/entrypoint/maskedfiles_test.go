// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
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
	"golang.org/x/sys/unix"
)

// An outage is an outage of the log service, until it is ended.
type outage struct {
	t     *testing.T
	over  atomic.Bool
	tries atomic.Int64
}

func (s *service) failing() *outage {
	s.t.Helper()
	o := &outage{t: s.t}
	s.meet(func(w http.ResponseWriter, _ *http.Request) bool {
		if o.over.Load() {
			return false
		}
		o.tries.Add(1)
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	})
	return o
}

// triedAgain returns after the failure of requests that have begun after the call.
func (o *outage) triedAgain() {
	o.t.Helper()
	until := o.tries.Load() + 2
	require.Eventually(o.t, func() bool { return o.tries.Load() >= until }, deadline, 10*time.Millisecond)
}

// killShipper kills the shipper, and returns when it is dead.
func killShipper(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	require.Eventually(t, func() bool {
		pids := shippers(cmd.Process.Pid)
		return len(pids) == 1 && syscall.Kill(pids[0], syscall.SIGKILL) == nil
	}, deadline, 10*time.Millisecond)
}

// printing returns a command that prints a file, prints it again when it is told to, and
// ends.
func printing(file string) (script string, tell func(t *testing.T)) {
	told := file + ".told"
	script = "cat " + file + "; echo; " + waiting(told) + "; cat " + file + "; echo"
	return script, func(t *testing.T) {
		t.Helper()
		letGoOn(t, told)
	}
}

func TestASecretThatHasChangedIsMaskedByTheNextShipperAsWell(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(t *testing.T, s *outage, cmd *exec.Cmd, write func()){
		"that changed before its death": func(t *testing.T, o *outage, cmd *exec.Cmd, write func()) {
			write()
			o.triedAgain()
			killShipper(t, cmd)
		},
		"that changed while there was none": func(t *testing.T, _ *outage, cmd *exec.Cmd, write func()) {
			require.NoError(t, cmd.Process.Signal(syscall.SIGSTOP)) // so that it starts no other
			killShipper(t, cmd)
			write()
			require.NoError(t, cmd.Process.Signal(syscall.SIGCONT))
		},
		"that several in a row have known": func(t *testing.T, o *outage, cmd *exec.Cmd, write func()) {
			killShipper(t, cmd)
			o.triedAgain()
			write()
			o.triedAgain()
			killShipper(t, cmd)
			o.triedAgain()
			killShipper(t, cmd)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t)
			o := s.failing()
			secret := filepath.Join(t.TempDir(), "password")
			require.NoError(t, os.WriteFile(secret, []byte("open sesame"), 0o600))
			script, tell := printing(secret)
			cmd := s.command("-mask-files="+secret, "--", "sh", "-c", script)
			wait := s.start(cmd)
			o.triedAgain()
			change(t, o, cmd, func() { require.NoError(t, os.WriteFile(secret, []byte("open barley"), 0o600)) })
			tell(t)
			o.over.Store(true)
			require.Zero(t, wait().code)
			require.Equal(t, strings.Repeat(strings.Repeat("*", 11)+"\n", 2), string(s.stream("stdout").data))
		})
	}
}

// The service may ask for a pause of up to a minute.
func TestEachValueOfASecretThatChangesBetweenAttemptsIsMasked(t *testing.T) {
	s := serve(t)
	var asked, over atomic.Bool
	s.meet(func(w http.ResponseWriter, _ *http.Request) bool {
		if over.Load() {
			return false
		}
		w.Header().Set("Retry-After", "60")
		w.WriteHeader(http.StatusServiceUnavailable)
		asked.Store(true)
		return true
	})
	secret := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(secret, []byte("open sesame"), 0o600))
	wait := s.start(s.command("-mask-files="+secret, "--", "sh", "-c", `cat `+secret+`; echo; `+waiting(secret+".told")+`
		for i in 1 2 3 4; do printf "open barley $i" > `+secret+`; cat `+secret+`; echo; sleep 1.2; done; echo > `+secret))
	require.Eventually(t, asked.Load, deadline, 10*time.Millisecond)
	letGoOn(t, secret+".told")
	over.Store(true)
	require.Zero(t, wait().code)
	require.Equal(t, strings.Repeat("*", 11)+"\n"+strings.Repeat(strings.Repeat("*", 13)+"\n", 4), string(s.stream("stdout").data))
}

// rotating returns a command that writes a token to a file, prints it, and goes on to the
// next one, some times. The last one isn't in the file any more when the command ends.
func rotating(file string, times int) (script, masked string) {
	script = fmt.Sprintf(`for i in $(seq 100 %d); do printf "the token $i" > %s; cat %[2]s; echo; sleep 0.3; done; echo > %[2]s`, 100+times-1, file)
	return script, strings.Repeat(strings.Repeat("*", 13)+"\n", times)
}

func TestEachTokenIsMaskedWhileTheServiceAnswersNothing(t *testing.T) {
	s := serve(t)
	directory := t.TempDir()
	secret, printed := filepath.Join(directory, "token"), filepath.Join(directory, "printed")
	answers := make(chan struct{})
	s.meet(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPatch {
			<-answers
		}
		return false
	})
	script, masked := rotating(secret, 10)
	wait := s.start(s.command("-mask-files="+secret, "--", "sh", "-c", script+"; : > "+printed))
	waitForFile(t, printed)
	close(answers)
	require.Zero(t, wait().code)
	require.Equal(t, masked, string(s.stream("stdout").data))
}

func TestEachTokenIsMaskedHoweverOftenTheShipperIsKilled(t *testing.T) {
	s := serve(t)
	directory := t.TempDir()
	secret, printed := filepath.Join(directory, "token"), filepath.Join(directory, "printed")
	script, masked := rotating(secret, 10)
	cmd := s.command("-mask-files="+secret, "--", "sh", "-c", script+"; : > "+printed)
	wait := s.start(cmd)
	killed := 0
	require.Eventually(t, func() bool {
		for _, pid := range shippers(cmd.Process.Pid) {
			if syscall.Kill(pid, syscall.SIGKILL) == nil {
				killed++
			}
		}
		_, err := os.Stat(printed)
		return err == nil
	}, deadline, 5*time.Millisecond)
	require.Zero(t, wait().code)
	require.Positive(t, killed)
	require.Equal(t, masked, string(s.stream("stdout").data))
}

// The shipper is started at the first byte.
func TestATokenIsMaskedThatChangedBeforeAnythingWasPrinted(t *testing.T) {
	s := serve(t)
	secret := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(secret, []byte("the first token"), 0o600))
	got := s.run(s.command("-mask-files="+secret, "--", "sh", "-c",
		"sleep 0.3; printf 'another token' > "+secret+"; sleep 0.3; echo > "+secret+"; sleep 0.3; echo the first token, another token"))
	require.Zero(t, got.code)
	require.Equal(t, strings.Repeat("*", 15)+", "+strings.Repeat("*", 13)+"\n", string(s.stream("stdout").data))
}

// lease blocks everybody who opens a file, as a volume does whose server is gone.
func lease(t *testing.T, path string) (end func()) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = file.Close() })
	if _, err := unix.FcntlInt(file.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		t.Skipf("%s is on a file system without leases (%v); package ship tests it with a file that never answers", path, err)
	}
	return func() { require.NoError(t, file.Close()) }
}

func TestAMaskedFileThatDoesNotRespondStopsSendingAndTheStatusNamesIt(t *testing.T) {
	for name, first := range map[string]bool{"from the start": true, "later on": false} {
		t.Run(name, func(t *testing.T) {
			s := serve(t)
			directory := t.TempDir()
			secret, status, told := filepath.Join(directory, "secret"), filepath.Join(directory, "status"), filepath.Join(directory, "told")
			require.NoError(t, os.WriteFile(secret, []byte("open sesame"), 0o600))
			answer := func() {}
			if first {
				answer = lease(t, secret)
			}
			wait := s.start(s.command("-mask-files="+secret, "-status-file="+status, "--", "sh", "-c",
				"echo open sesame; "+waiting(told+".1")+"; echo open barley; "+waiting(told+".2")))
			if !first {
				require.Eventually(t, func() bool { return s.id("stdout") != "" && len(s.stream("stdout").data) > 0 }, deadline, 20*time.Millisecond)
				require.NoError(t, os.WriteFile(secret, []byte("open barley"), 0o600))
				answer = lease(t, secret)
			}
			require.NoError(t, os.WriteFile(told+".1", nil, 0o600))
			says := func(text string) func() bool {
				return func() bool {
					have, _ := os.ReadFile(status)
					return strings.Contains(string(have), text)
				}
			}
			require.Eventually(t, says(`"failure":"looking at \"`+secret+`\", whose content is masked, takes long`), deadline, 20*time.Millisecond)
			answer()
			require.Eventually(t, func() bool { return !says("takes long")() }, deadline, 20*time.Millisecond)
			require.NoError(t, os.WriteFile(told+".2", nil, 0o600))
			require.Zero(t, wait().code)
			want := "***********\nopen barley\n"
			if !first {
				want = "***********\n***********\n"
			}
			require.Equal(t, stream{data: []byte(want), complete: true}, s.stream("stdout"))
			require.Equal(t, []string{"started", "sendingFailed", "sendingResumed", "exited", "finished"}, s.kinds())
		})
	}
}

func TestAMaskedFileThatNeverRespondsDoesNotKeepTheCommandFromEnding(t *testing.T) {
	s := serve(t)
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte("open sesame"), 0o600))
	lease(t, secret)
	got := s.run(s.command("-mask-files="+secret, "-logs-flush=12s", "--", "sh", "-c", "echo open sesame; exit 3"))
	require.Equal(t, 3, got.code)
	require.Contains(t, got.stderr, `and their end: looking at "`+secret+`", whose content is masked, takes long: nothing is sent until its volume answers`)
	require.Less(t, got.took, deadline)
	require.Empty(t, s.id("stdout"))
}

// The content beyond the limit isn't masked, so the output may have it.
func TestAMaskedFileThatIsTooLargeStopsSendingAndTheStatusNamesIt(t *testing.T) {
	t.Parallel()
	s := serve(t)
	directory := t.TempDir()
	secret, status, told := filepath.Join(directory, "secret"), filepath.Join(directory, "status"), filepath.Join(directory, "told")
	require.NoError(t, os.WriteFile(secret, []byte(strings.Repeat("x", 1<<20)+"open sesame"), 0o600))
	wait := s.start(s.command("-mask-files="+secret, "-status-file="+status, "--", "sh", "-c",
		"echo open sesame; until [ -e "+told+" ]; do sleep 0.05; done; exit 3"))
	says := func(text string) bool {
		have, _ := os.ReadFile(status)
		return strings.Contains(string(have), text)
	}
	require.Eventually(t, func() bool {
		return says(`"failure":"\"` + secret + `\", whose content is masked, has more than 1 MiB: nothing is sent`)
	}, deadline, 20*time.Millisecond)
	require.Empty(t, s.id("stdout"))
	require.NoError(t, os.WriteFile(secret, []byte("open sesame"), 0o600))
	require.Eventually(t, func() bool { return !says("has more than") }, deadline, 20*time.Millisecond)
	require.NoError(t, os.WriteFile(told, nil, 0o600))
	require.Equal(t, 3, wait().code)
	require.Equal(t, stream{data: []byte("***********\n"), complete: true}, s.stream("stdout"))
	require.Equal(t, []string{"started", "sendingFailed", "sendingResumed", "exited", "finished"}, s.kinds())
}
