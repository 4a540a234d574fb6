// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build neighbours

package neighbours

import (
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

// A process is killed at the end of the test, and has its output shown if the test fails.
type process struct {
	*exec.Cmd
	ended chan struct{}
}

func start(t *testing.T, command *exec.Cmd) *process {
	t.Helper()
	output, err := os.Create(filepath.Join(t.TempDir(), "output"))
	require.NoError(t, err)
	command.Stdout, command.Stderr = output, output
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(t, command.Start())
	p := &process{command, make(chan struct{})}
	go func() {
		_ = command.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = command.Process.Kill()
		<-p.ended
		if t.Failed() {
			said, _ := os.ReadFile(output.Name())
			t.Logf("%s has said:\n%s", command, said[max(0, len(said)-10_000):])
		}
		require.NoError(t, output.Close())
	})
	return p
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
		corev1.Container{Image: "busybox", Command: []string{command}}, corev1.Container{Image: "proxy"}))
	require.NoError(t, err)
	return result.Pod.Spec.Containers[0].Args
}

func TestTheWorkEndsItsNeighbour(t *testing.T) {
	supervisor := build(t, "../..", "./cmd/entrypoint")
	self, err := os.Executable()
	require.NoError(t, err)
	for _, n := range All() {
		t.Run(n.Name, func(t *testing.T) {
			running := start(t, exec.Command(build(t, n.Module, n.Program), n.Args...))
			work := exec.Command(supervisor, argsOfMain(t, &n, self)...)
			work.Env = append(os.Environ(), workURL+"="+n.Ready)
			start(t, work).requireEnd(t, 0)
			running.requireEnd(t, 0)
		})
	}
}
