// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build neighbours

package neighbours

import (
	"flag"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

// endLimit is what a program may take to end, with its start.
const endLimit = 2 * time.Minute

var vault = flag.String("vault", "", "the `path` of an installed program vault; without, its agent isn't among the neighbours")

// The work is this program itself: it gets the URL in this variable.
const workURL = "NEIGHBOURS_WORK"

func TestMain(m *testing.M) {
	if url := os.Getenv(workURL); url != "" {
		response, err := http.Get(url)
		if err != nil || response.StatusCode != http.StatusOK {
			println("the work has failed")
			os.Exit(1)
		}
		_ = response.Body.Close()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// build compiles a program of a module in a directory.
func build(t *testing.T, module, program string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "program")
	command := exec.Command("go", "build", "-C", module, "-o", path, program)
	out, err := command.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return path
}

// A process is killed at the end of the test with those that it has started, and has its output
// shown if the test fails.
type process struct {
	*exec.Cmd
	ended  chan struct{}
	output string // a file
}

func start(t *testing.T, command *exec.Cmd) *process {
	t.Helper()
	output, err := os.Create(filepath.Join(t.TempDir(), "output"))
	require.NoError(t, err)
	command.Stdout, command.Stderr = output, output
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	require.NoError(t, command.Start())
	p := &process{command, make(chan struct{}), output.Name()}
	go func() {
		_ = command.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL)
		<-p.ended
		if t.Failed() {
			said := p.said(t)
			t.Logf("%s has said:\n%s", command, said[max(0, len(said)-10_000):])
		}
		require.NoError(t, output.Close())
	})
	return p
}

// said is its output so far.
func (p *process) said(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(p.output)
	require.NoError(t, err)
	return string(text)
}

// requireEnd waits for the end with this exit code.
func (p *process) requireEnd(t *testing.T, code int) {
	t.Helper()
	select {
	case <-p.ended:
		require.Equal(t, code, p.ProcessState.ExitCode(), "%s", p.ProcessState)
	case <-time.After(endLimit):
		require.Fail(t, "it runs on", "%s", p.Cmd)
	}
}

// argsOfMain are the arguments of the supervisor of the container "main", as admission
// makes them.
func argsOfMain(t *testing.T, n *Neighbour, command string) []string {
	t.Helper()
	result, err := (&pod.Injector{CopierImage: "copier"}).Inject(t.Context(), "tenant", n.Pod(
		corev1.Container{Image: "busybox", Command: []string{command}}, "neighbour", "helper"))
	require.NoError(t, err)
	return result.Pod.Spec.Containers[0].Args
}

// startNeighbour compiles it if it isn't installed, and starts it in a directory of its own.
func startNeighbour(t *testing.T, n *Neighbour) *process {
	t.Helper()
	program := n.Program
	if n.Module != "" {
		program = build(t, n.Module, n.Program)
	}
	command := exec.Command(program, n.Args...)
	command.Dir, command.Env = t.TempDir(), os.Environ()
	for name, value := range n.Env {
		command.Env = append(command.Env, name+"="+value)
	}
	for name, text := range n.Files {
		require.NoError(t, os.WriteFile(filepath.Join(command.Dir, name), []byte(text), 0o600))
	}
	if n.Helper != "" {
		require.NoError(t, os.Symlink(build(t, ".", "./"+n.Helper), filepath.Join(command.Dir, n.Helper)))
	}
	return start(t, command)
}

// startWork starts the supervisor with work that succeeds once the neighbour is ready.
func startWork(t *testing.T, n *Neighbour) *process {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	work := exec.Command(build(t, "../..", "./cmd/entrypoint"), argsOfMain(t, n, self)...)
	work.Env = append(os.Environ(), workURL+"="+n.Ready)
	return start(t, work)
}

func TestTheWorkEndsItsNeighbour(t *testing.T) {
	all := All()
	if *vault != "" {
		all = append(all, Vault(*vault))
	}
	for _, n := range all {
		t.Run(n.Name, func(t *testing.T) {
			neighbour := startNeighbour(t, &n)
			startWork(t, &n).requireEnd(t, 0)
			neighbour.requireEnd(t, 0)
		})
	}
}

// Istio's agent fails at /quitquitquit if it has no Envoy. Once it ends as the others do, it
// is one of All, and docs/limitations.md doesn't name it.
func TestIstiosAgentWithoutEnvoyRunsOnAndTheWorkSaysSo(t *testing.T) {
	n := IstioWithoutEnvoy()
	neighbour, work := startNeighbour(t, &n), startWork(t, &n)
	work.requireEnd(t, 0)
	require.Contains(t, work.said(t), "shutting down a sidecar by POST http://127.0.0.1:15020/quitquitquit: "+
		"the connection was closed without an answer: the pod runs for as long as the sidecar")
	require.Contains(t, neighbour.said(t), "/quitquitquit, notifying pilot-agent to exit")
	response, err := http.Get(n.Ready)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusOK, response.StatusCode)
}
