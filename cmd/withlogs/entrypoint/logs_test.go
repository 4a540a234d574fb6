// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/internal/logs/streams"
	"github.com/entrypointer/entrypointer/pkg/loglabels"
	"github.com/entrypointer/entrypointer/pkg/pod"
)

func TestOutputGoesToTheLogServiceAndNotToTheClustersLog(t *testing.T) {
	t.Parallel()
	s := serve(t)
	got := s.run(s.command("--", "sh", "-c", "echo out; echo err >&2; exit 7"))
	require.Equal(t, 7, got.code)
	require.Empty(t, got.stdout)
	require.Empty(t, got.stderr)
	require.Equal(t, stream{data: []byte("out\n"), complete: true}, s.stream("stdout"))
	require.Equal(t, stream{data: []byte("err\n"), complete: true}, s.stream("stderr"))
	require.Less(t, got.took, patience)
}

func TestATeeSendsOutputToBoth(t *testing.T) {
	s := serve(t)
	const script = `i=0; while [ $i -lt 20000 ]; do echo "this is line $i of stdout"; i=$((i+1)); done; echo err >&2`
	got := s.run(s.command("-logs=tee", "--", "sh", "-c", script))
	require.Zero(t, got.code)
	require.Equal(t, stream{data: []byte(got.stdout), complete: true}, s.stream("stdout"))
	require.Equal(t, 20000, strings.Count(got.stdout, "\n"))
	require.Equal(t, "err\n", got.stderr)
	require.Equal(t, stream{data: []byte("err\n"), complete: true}, s.stream("stderr"))
}

// The reader of the container's own output is slow, such as a container runtime with a busy
// disk.
func TestASlowReaderOfATeeGetsEverythingAndSoDoesTheService(t *testing.T) {
	t.Parallel()
	s := serve(t)
	cmd := s.command("-logs=tee", "--", "sh", "-c", "head -c 1000000 /dev/zero | tr '\\0' 'x'")
	read, write, err := os.Pipe()
	require.NoError(t, err)
	defer read.Close()
	cmd.Stdout = write
	require.NoError(t, cmd.Start())
	require.NoError(t, write.Close())
	total := 0
	for buffer := make([]byte, 20_000); ; time.Sleep(10 * time.Millisecond) {
		n, err := read.Read(buffer)
		if total += n; err != nil {
			break
		}
	}
	require.NoError(t, cmd.Wait())
	require.Equal(t, 1_000_000, total)
	have := s.stream("stdout")
	require.True(t, have.complete)
	require.Len(t, have.data, 1_000_000)
	require.Zero(t, have.dropped+have.missing, "the command waits for its reader, as it would without the supervisor")
}

func TestATeeWithoutAReaderEndsInTime(t *testing.T) {
	s := serve(t)
	for name, closed := range map[string]bool{"that reads no more": false, "that is gone": true} {
		t.Run(name, func(t *testing.T) {
			cmd := s.command("-logs=tee", "-logs-flush=1s", "--", "sh", "-c", "head -c 100000 /dev/zero; exit 5")
			read, write, err := os.Pipe()
			require.NoError(t, err)
			defer read.Close()
			cmd.Stdout = write
			began := time.Now()
			require.NoError(t, cmd.Start())
			require.NoError(t, write.Close())
			if closed {
				require.NoError(t, read.Close())
			}
			_ = cmd.Wait()
			require.Equal(t, 5, cmd.ProcessState.ExitCode())
			require.Less(t, time.Since(began), 5*time.Second)
		})
	}
}

func TestASilentCommandSendsOnlyEvents(t *testing.T) {
	var s *service
	var requests atomic.Int64
	for range 3 { // sending them may take a second, which on a busy machine may be too little
		s = serve(t)
		requests.Store(0)
		s.meet(func(http.ResponseWriter, *http.Request) bool {
			requests.Add(1)
			return false
		})
		directory := t.TempDir()
		status, seen := filepath.Join(directory, "status"), filepath.Join(directory, "seen")
		cmd := s.command("-status-file="+status, "--", "sh", "-c", waiting(seen))
		wait := s.start(cmd)
		waitForPhase(t, status, "Running")
		time.Sleep(300 * time.Millisecond)
		require.Empty(t, shippers(cmd.Process.Pid), "events alone need no second process yet")
		began := time.Now()
		letGoOn(t, seen)
		got := wait()
		require.Zero(t, got.code)
		require.Empty(t, got.stdout)
		require.Less(t, time.Since(began), deadline)
		if s.id("events") != "" && s.stream("events").complete {
			require.Empty(t, got.stderr)
			break
		}
	}
	require.Empty(t, s.id("stdout"))
	require.Empty(t, s.id("stderr"))
	require.Equal(t, []string{"started", "exited", "finished"}, s.kinds())
	require.True(t, s.stream("events").complete)
	require.EqualValues(t, 3, requests.Load())
}

func TestEachByteIsAccountedForHoweverMuchIsPrinted(t *testing.T) {
	s := serve(t)
	const total = 64 << 20
	got := s.run(s.command("--", "sh", "-c", "head -c "+strconv.Itoa(total)+" /dev/zero | tr '\\0' 'x'"))
	require.Zero(t, got.code)
	have := s.stream("stdout")
	require.True(t, have.complete)
	require.Len(t, have.data, total)
	require.Zero(t, have.missing)
	require.Equal(t, int64(bytes.Count(have.data, []byte{0})), have.dropped)
	t.Logf("%d bytes dropped of %d in %v", have.dropped, total, got.took)
}

func TestAnOutageOfTheServiceLosesNothingThatTheRingHolds(t *testing.T) {
	t.Parallel()
	s := serve(t)
	begun := sync.OnceValue(time.Now) // by the first request
	var refused atomic.Int64
	s.meet(func(w http.ResponseWriter, _ *http.Request) bool {
		if time.Since(begun()) > 3*time.Second {
			return false
		}
		refused.Add(1)
		w.WriteHeader(http.StatusBadGateway)
		return true
	})
	got := s.run(s.command("--", "sh", "-c", "i=0; while [ $i -lt 5000 ]; do echo $i; i=$((i+1)); done; echo err >&2"))
	require.Zero(t, got.code)
	var want strings.Builder
	for i := range 5000 {
		fmt.Fprintln(&want, i)
	}
	require.Equal(t, stream{data: []byte(want.String()), complete: true}, s.stream("stdout"))
	require.Equal(t, stream{data: []byte("err\n"), complete: true}, s.stream("stderr"))
	require.Positive(t, refused.Load())
	require.Less(t, refused.Load(), int64(20), "the pauses grow")
}

//nolint:tparallel // the subtests share a service
func TestAServiceThatIsDownDoesNotKeepTheCommandFromEnding(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for _, c := range []struct {
		name string
		flag string
		meet func(w http.ResponseWriter, r *http.Request) bool
		says string
	}{
		{"refuses", "", func(w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(http.StatusInternalServerError)
			return true
		}, "500 Internal Server Error"},
		{"asks to come again next year", "", func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Retry-After", "31536000")
			http.Error(w, "come again", http.StatusTooManyRequests)
			return true
		}, "429 Too Many Requests: come again"},
		{"isn't there", "-logs-to=https://127.0.0.1:1", nil, "connection refused"},
		{"is nowhere", "-logs-to=nowhere", nil, `"nowhere" isn't an address`},
		{"knows no such pod", "-logs-token=/dev/null", nil, "401 Unauthorized"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s.meet(c.meet)
			flags := []string{"-logs-flush=1s"}
			if c.flag != "" {
				flags = append(flags, c.flag)
			}
			got, _ := s.fails(c.says, flags...)
			requireEndWithoutService(t, got, c.says)
		})
	}
	t.Run("never answers", func(t *testing.T) {
		s.meet(neverAnswer)
		got := s.run(s.command("-logs-flush=1s", "--", "sh", "-c", "echo out; exit 3"))
		requireEndWithoutService(t, got, "it has taken no more within 1s")
	})
}

func requireEndWithoutService(t *testing.T, got result, says string) {
	t.Helper()
	require.Equal(t, 3, got.code)
	require.Empty(t, got.stdout)
	require.Contains(t, got.stderr, "entrypointer: sending logs: the log service lacks 4 of 4 bytes of stdout and 0 of 0 bytes of stderr, and their end: ")
	require.Contains(t, got.stderr, says)
	require.Less(t, got.took, deadline)
}

// Pods with dnsPolicy: None or hostNetwork use another DNS than the cluster's.
func TestAServiceIsReachedByItsIPAddressIfItsNameCannotBeResolved(t *testing.T) {
	s := serve(t)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.2:0")
	require.NoError(t, err)
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	require.NoError(t, err)
	go passOn(listener, strings.TrimPrefix(s.url, "https://"))
	stranger, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:"+port)
	require.NoError(t, err)
	defer stranger.Close()
	go func() {
		for {
			connection, err := stranger.Accept()
			if err != nil {
				return
			}
			_ = connection.Close()
		}
	}()
	for _, name := range []string{nobodyKnows, "localhost"} {
		t.Run(name, func(t *testing.T) {
			got := s.run(s.command("-logs-to=https://"+name+":"+port, "-logs-ip=127.0.0.2", "-logs-container="+name, "--", "echo", name))
			require.Zero(t, got.code)
			require.Empty(t, got.stderr)
			require.Equal(t, stream{data: []byte(name + "\n"), complete: true}, s.streamOf(name, "stdout"))
		})
	}
	const unknown = "by its IP address: verifying the log service by its CA"
	got, _ := s.fails(unknown, "-logs-to=https://another.invalid:"+port, "-logs-ip=127.0.0.2", "-logs-flush=1s")
	require.Contains(t, got.stderr, unknown, "the certificate is for another name")
	require.Contains(t, got.stderr, "lookup another.invalid")
}

// passOn forwards connections to an address.
func passOn(listener net.Listener, address string) {
	for {
		from, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer from.Close()
			to, err := net.Dial("tcp", address)
			if err != nil {
				return
			}
			defer to.Close()
			go func() { _, _ = io.Copy(to, from) }()
			_, _ = io.Copy(from, to)
		}()
	}
}

// A step writes a token into a file, and prints the token at once.
func TestAFileThatAppearsLaterIsMaskedFromThenOn(t *testing.T) {
	t.Parallel()
	s := serve(t)
	directory := t.TempDir()
	token, write, change := filepath.Join(directory, "token"), filepath.Join(directory, "write"), filepath.Join(directory, "change")
	wait := s.start(s.command("-mask-files="+token, "--", "sh", "-c",
		"echo up; "+waiting(write)+"; printf 'correct horse' > "+token+"; cat "+token+"; echo; "+
			waiting(change)+"; printf 'battery staple' > "+token+"; cat "+token+"; echo correct horse"))
	s.waitFor("stdout", "up\n")
	letGoOn(t, write)
	s.waitFor("stdout", "up\n*************\n")
	letGoOn(t, change)
	require.Zero(t, wait().code)
	require.Equal(t, "up\n*************\n"+strings.Repeat("*", 14)+"*************\n", string(s.stream("stdout").data))
}

// neverAnswer waits until the client gives up. A server notices that only after it has
// read the body.
func neverAnswer(_ http.ResponseWriter, r *http.Request) bool {
	_, _ = io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
	return true
}

func TestAServerWithAnotherCAGetsNeitherTheTokenNorTheLog(t *testing.T) {
	t.Parallel()
	s := serve(t)
	var came atomic.Int64
	s.meet(func(http.ResponseWriter, *http.Request) bool {
		came.Add(1)
		return false
	})
	s.pin = "sha256:" + strings.Repeat("0", 64)
	const another = "its chain of certificates lacks the CA"
	got, _ := s.fails(another, "-logs-flush=1s")
	require.Equal(t, 3, got.code)
	require.Contains(t, got.stderr, another)
	require.Zero(t, came.Load(), "neither the token nor the log")
}

func TestAKilledShipperIsReplacedAndLosesNothing(t *testing.T) {
	t.Parallel()
	s := serve(t)
	cmd := s.command("--", "sh", "-c", `i=0; while [ $i -lt 1500 ]; do echo "line $i"; i=$((i+1)); sleep 0.001; done`)
	wait := s.start(cmd)
	stop := make(chan struct{})
	killed := make(chan int)
	go func() {
		count := 0
		defer func() { killed <- count }()
		for count < 5 {
			select {
			case <-stop:
				return
			case <-time.After(150 * time.Millisecond):
			}
			for _, pid := range shippers(cmd.Process.Pid) {
				if syscall.Kill(pid, syscall.SIGKILL) == nil {
					count++
				}
			}
		}
	}()
	got := wait()
	close(stop)
	require.Zero(t, got.code, got.stderr)
	count := <-killed
	require.GreaterOrEqual(t, count, 3)
	var want strings.Builder
	for i := range 1500 {
		fmt.Fprintf(&want, "line %d\n", i)
	}
	require.Equal(t, stream{data: []byte(want.String()), complete: true}, s.stream("stdout"), "after %d were killed", count)
}

// Two parts are in flight, and responses arrive in any order.
func TestAShipperThatIsKilledWhileItSendsMuchLeavesNoByteUnknown(t *testing.T) {
	s := serve(t)
	s.meet(func(http.ResponseWriter, *http.Request) bool {
		time.Sleep(rand.N(20 * time.Millisecond))
		return false
	})
	const lines = 400_000
	cmd := s.command("--", "sh", "-c", fmt.Sprintf("seq -f %%09.0f 0 %d; sleep 1; seq -f %%09.0f %d %d", lines/2-1, lines/2, lines-1))
	wait := s.start(cmd)
	killed := 0
	for end := time.Now().Add(2500 * time.Millisecond); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		for _, pid := range shippers(cmd.Process.Pid) {
			if syscall.Kill(pid, syscall.SIGKILL) == nil {
				killed++
			}
		}
	}
	got := wait()
	require.Zero(t, got.code, got.stderr)
	for line := range strings.Lines(got.stderr) {
		require.Contains(t, line, "output is dropped", "nothing else is to be said")
	}
	require.GreaterOrEqual(t, killed, 2)
	have := s.stream("stdout")
	require.True(t, have.complete)
	require.Zero(t, have.missing)
	require.Len(t, have.data, 10*lines)
	require.EqualValues(t, bytes.Count(have.data, []byte{0}), have.dropped)
	for at, b := range have.data {
		want := byte('\n')
		if digit := at % 10; digit < 9 {
			want = fmt.Sprintf("%09d", at/10)[digit]
		}
		if b != 0 && b != want {
			require.Fail(t, "it isn't what was printed there", "byte %d is %q, not %q", at, b, want)
		}
	}
}

// shippers returns the shippers among the children of a supervisor, whichever thread has
// started them.
func shippers(pid int) (pids []int) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, path := range lists {
		list, _ := os.ReadFile(path)
		for _, name := range strings.Fields(string(list)) {
			argv, _ := os.ReadFile(filepath.Join("/proc", name, "cmdline"))
			if child, err := strconv.Atoi(name); err == nil && bytes.HasPrefix(argv, []byte("entrypointer-shipper\x00")) {
				pids = append(pids, child)
			}
		}
	}
	return pids
}

func TestSecretsAreMasked(t *testing.T) {
	t.Parallel()
	s := serve(t)
	files := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(files, "password"), []byte("correct horse\n"), 0o600))
	cmd := s.command("-mask-env=TOKEN", "-mask-files="+files, "--", "sh", "-c",
		`printf 'tok'; sleep 0.4; echo "en-of-mine and $HOME"; cat `+files+`/password; echo correct horse | base64`)
	cmd.Env = append(os.Environ(), "TOKEN=token-of-mine", "HOME=/home/of-me")
	got := s.run(cmd)
	require.Zero(t, got.code)
	// The file ends with a line break, which stays.
	require.Equal(t, "************* and /home/of-me\n*************\n*******************=\n", string(s.stream("stdout").data))
}

func TestADescendantThatHoldsThePipeDelaysNothing(t *testing.T) {
	t.Parallel()
	s := serve(t)
	got := s.run(s.command("--", "sh", "-c", "("+s.staying()+") ; echo done"))
	require.Zero(t, got.code)
	require.Less(t, got.took, patience)
	require.Equal(t, stream{data: []byte("done\n"), complete: true}, s.stream("stdout"))
}

func TestOutputByWayOfProcIsCaptured(t *testing.T) {
	t.Parallel()
	s := serve(t)
	got := s.run(s.command("--", "sh", "-c", `echo to my parent > /proc/$PPID/fd/1; echo again > /dev/stdout; echo err > /dev/stderr`))
	require.Zero(t, got.code)
	require.Empty(t, got.stdout+got.stderr)
	require.Equal(t, "to my parent\nagain\n", string(s.stream("stdout").data))
	require.Equal(t, "err\n", string(s.stream("stderr").data))
}

func TestMessagesOfTheSupervisorAreInTheCommandsLog(t *testing.T) {
	t.Parallel()
	s := serve(t)
	got := s.run(s.command("--", "no-such-command"))
	require.Equal(t, 127, got.code)
	require.Empty(t, got.stderr)
	require.Contains(t, string(s.stream("stderr").data), `entrypointer: starting "no-such-command": executable not found`)
}

func TestTheStatusReportsTheStateOfTheLog(t *testing.T) {
	t.Parallel()
	s := serve(t)
	status := filepath.Join(t.TempDir(), "status")
	s.run(s.command("-status-file="+status, "--", "echo", "hello"))
	have, err := os.ReadFile(status)
	require.NoError(t, err)
	require.Contains(t, string(have), `"logs":{"mode":"stream","stdout":{"printed":6,"stored":6,"dropped":0,"complete":true},"stderr":{"printed":0,"stored":0,"dropped":0,"complete":true}}`)

	s.meet(func(w http.ResponseWriter, _ *http.Request) bool {
		http.Error(w, "the disk is full", http.StatusInsufficientStorage)
		return true
	})
	_, last := s.fails("the disk is full", "-logs-flush=1s")
	require.Contains(t, last, `"stdout":{"printed":4,"stored":0,"dropped":0}`)
	require.Contains(t, last, "the disk is full")
}

func TestTheCommandNeverWaitsForTheService(t *testing.T) {
	s := serve(t)
	s.meet(neverAnswer)
	// More than the pipe and the ring hold.
	got := s.run(s.command("-logs-flush=0s", "--", "head", "-c", strconv.Itoa(200<<20), "/dev/zero"))
	require.Zero(t, got.code)
	require.Less(t, got.took, deadline)
}

func TestAContainerRunsWithTheFlagsThatItIsGiven(t *testing.T) {
	t.Parallel()
	s := serve(t)
	asks := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Annotations: map[string]string{pod.InjectAnnotation: "true", "entrypointer.dev/logs": "tee"},
			Labels:      map[string]string{"tekton.dev/taskRun": "build", "tekton.dev/pipelineRun": "a", "app": "web"},
		},
		Spec: corev1.PodSpec{ServiceAccountName: "default", Containers: []corev1.Container{{
			Name: "main", Image: "busybox", Command: []string{"sh", "-c"}, Args: []string{"echo $PASSWORD; echo $TOKEN"},
			Env: []corev1.EnvVar{{Name: "PASSWORD", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{Key: "k"}}}, {Name: "TOKEN", ValueFrom: &corev1.EnvVarSource{FileKeyRef: &corev1.FileKeySelector{Key: "k"}}}},
		}}},
	}
	injector := &pod.Injector{CopierImage: "copier", Logs: &pod.LogService{Address: s.url, CA: s.pin, Audience: "logs", CopierImage: "copier-with-logs"}}
	injected, err := injector.Inject(t.Context(), "tenant", asks)
	require.NoError(t, err)
	// The volume is the kubelet's.
	args := slices.Replace(injected.Pod.Spec.Containers[0].Args, 0, 1, "-logs=tee", "-logs-token="+s.token)
	args = slices.DeleteFunc(args, func(arg string) bool { return arg == "-logs-token="+pod.TokenMountPath+"/token" })
	cmd := exec.CommandContext(t.Context(), entrypoint, args...)
	cmd.Env = append(os.Environ(), "PASSWORD=correct horse", "TOKEN=battery staple")
	got := s.run(cmd)
	require.Zero(t, got.code, got.stderr)
	require.Equal(t, "correct horse\nbattery staple\n", got.stdout)
	require.Equal(t, stream{data: []byte("*************\n**************\n"), complete: true}, s.stream("stdout"))
}

func TestFlagsThatContradictEachOtherAreRefused(t *testing.T) {
	s := serve(t)
	for flag, says := range map[string]string{
		"-mode=exec":      `parsing "-mode=exec": not together with -logs`,
		"-logs=everyone":  `parsing "-logs=everyone": use stream or tee`,
		"-logs-flush=now": `parsing "-logs-flush=now": no duration`,
		"-logs-label=":    `parsing "-logs-label=": it needs a value`,
		"-mask-env=":      `parsing "-mask-env=": it needs a value`,
	} {
		got := s.run(s.command(flag, "--", "true"))
		require.Equal(t, 125, got.code)
		require.Contains(t, got.stderr, says)
	}
}

func TestTheLogServiceKnowsTheLabelsOfTheWebhook(t *testing.T) {
	asks := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Annotations: map[string]string{pod.InjectAnnotation: "true", "entrypointer.dev/logs": "stream"}, Labels: map[string]string{"app": "web"},
		},
		Spec: corev1.PodSpec{ServiceAccountName: "default", Containers: []corev1.Container{{Name: "main", Image: "busybox", Command: []string{"true"}}}},
	}
	asks.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "report-29929875", Controller: new(true)}}
	var want []string
	for _, key := range loglabels.OfPods() {
		asks.Labels[key] = "x"
		want = append(want, "-logs-label="+key+"=x")
	}
	want = append(want, "-logs-label="+loglabels.Job+"=report-29929875", "-logs-label="+loglabels.CronJob+"=report")
	require.LessOrEqual(t, len(want), streams.MaxLabels, "the service refuses a stream with more")
	for _, flag := range want {
		key, value, _ := strings.Cut(strings.TrimPrefix(flag, "-logs-label="), "=")
		require.NoError(t, streams.CheckLabel(key, value))
	}
	injector := &pod.Injector{CopierImage: "copier", Logs: &pod.LogService{Address: "https://logs", CA: "sha256:0", Audience: "logs", CopierImage: "copier-with-logs"}}
	injected, err := injector.Inject(t.Context(), "tenant", asks)
	require.NoError(t, err)
	got := slices.DeleteFunc(injected.Pod.Spec.Containers[0].Args, func(arg string) bool { return !strings.HasPrefix(arg, "-logs-label=") })
	require.Equal(t, want, got)
}
