// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package podstatus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/entrypointer/entrypointer/internal/objects"
	"github.com/entrypointer/entrypointer/pkg/pod"
)

// maxAnswer bounds the answer of a supervisor, in bytes: a tenant's container could print
// without an end.
const maxAnswer = 64 << 10

// Exec returns a function that runs the supervisor's command status as kubectl exec does.
func Exec(c objects.Client) func(ctx context.Context, pod, container string) ([]byte, error) {
	return func(ctx context.Context, name, container string) ([]byte, error) {
		url := c.REST.Post().AbsPath("/api/v1/namespaces", c.Namespace, "pods", name, "exec").
			Param("container", container).Param("command", pod.EntrypointPath).Param("command", "status").
			Param("stdout", "true").Param("stderr", "true").URL()
		sockets, err := remotecommand.NewWebSocketExecutor(c.Config, "GET", url.String())
		if err != nil {
			return nil, err
		}
		spdy, err := remotecommand.NewSPDYExecutor(c.Config, "POST", url)
		if err != nil {
			return nil, err
		}
		// As kubectl: API servers before 1.31, and some proxies, speak SPDY alone.
		executor, err := remotecommand.NewFallbackExecutor(sockets, spdy, func(err error) bool {
			return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
		})
		if err != nil {
			return nil, err
		}
		var stdout, stderr bounded
		if err := executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: &stdout, Stderr: &stderr}); err != nil {
			if said := strings.TrimSpace(stderr.String()); said != "" {
				return nil, fmt.Errorf("%w: %s", err, said)
			}
			return nil, err
		}
		return stdout.Bytes(), nil
	}
}

// bounded is a buffer of at most maxAnswer bytes.
type bounded struct{ bytes.Buffer }

// Write adds bytes, and fails when there are too many.
func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > maxAnswer {
		return 0, errTooLong
	}
	return b.Buffer.Write(p)
}

var errTooLong = errors.New("the answer is longer than that of a supervisor")
