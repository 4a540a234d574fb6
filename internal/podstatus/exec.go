// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package podstatus

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/entrypointer/entrypointer/internal/objects"
	"github.com/entrypointer/entrypointer/pkg/pod"
)

// maxAnswer bounds the answer of a supervisor, in bytes: a tenant's container could print
// without an end.
const maxAnswer = 64 << 10

// executor returns a function that runs a command of the supervisor in a container, as kubectl
// exec does.
func executor(c objects.Client) func(ctx context.Context, pod, container string, command ...string) ([]byte, error) {
	return func(ctx context.Context, name, container string, command ...string) ([]byte, error) {
		request := c.REST.Post().AbsPath("/api/v1/namespaces", c.Namespace, "pods", name, "exec").
			Param("container", container).Param("stdout", "true").Param("stderr", "true").Param("command", pod.EntrypointPath)
		for _, word := range command {
			request = request.Param("command", word)
		}
		url := request.URL()
		sockets, err := remotecommand.NewWebSocketExecutor(c.Config, "GET", url.String())
		if err != nil {
			return nil, err
		}
		spdy, err := remotecommand.NewSPDYExecutor(c.Config, "POST", url)
		if err != nil {
			return nil, err
		}
		// As kubectl: API servers before 1.31, and some proxies, speak SPDY alone. And a role
		// may have only the verb of SPDY's requests, create, and not that of WebSockets, get.
		executor, err := remotecommand.NewFallbackExecutor(sockets, spdy, func(err error) bool {
			return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err) || isForbidden(err)
		})
		if err != nil {
			return nil, err
		}
		var stdout, stderr bounded
		if err := executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: &stdout, Stderr: &stderr}); err != nil {
			if said := strings.TrimSpace(stderr.String()); said != "" {
				return nil, errors.New(strings.TrimPrefix(said, "entrypointer: "))
			}
			return nil, err
		}
		return []byte(stdout.String()), nil
	}
}

// isForbidden reports whether the user may not exec. An upgrade that fails says so in words
// alone.
func isForbidden(err error) bool {
	return err != nil && (apierrors.IsForbidden(err) || strings.Contains(err.Error(), `cannot get resource "pods/exec"`) || strings.Contains(err.Error(), `cannot create resource "pods/exec"`))
}

// errEnded is the error of a container that runs no longer.
var errEnded = errors.New("its container has just ended")

// hasEnded reports whether the container doesn't run any more, as kubelets and runtimes say
// in words alone: the kubelet, runc, containerd and CRI-O.
func hasEnded(err error) bool {
	return err != nil && slices.ContainsFunc([]string{"container not found", "cannot exec in a stopped ", "container is in CONTAINER_EXITED state", "container is not created or running"}, func(words string) bool {
		return strings.Contains(err.Error(), words)
	})
}

// bounded is a buffer of at most maxAnswer bytes. It has no other method of a buffer, such
// as ReadFrom, by which more could come in; and a stream that is given up can still write.
type bounded struct {
	lock sync.Mutex
	kept bytes.Buffer
}

// Write adds bytes, and fails when there are too many.
func (b *bounded) Write(p []byte) (int, error) {
	b.lock.Lock()
	defer b.lock.Unlock()
	if b.kept.Len()+len(p) > maxAnswer {
		return 0, errTooLong
	}
	return b.kept.Write(p)
}

func (b *bounded) String() string {
	b.lock.Lock()
	defer b.lock.Unlock()
	return b.kept.String()
}

var errTooLong = errors.New("the answer is longer than that of a supervisor")
