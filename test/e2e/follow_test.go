// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// output is what a container writes, line by line.
type output struct {
	t     *testing.T
	lines chan string
}

// follow reads what a container writes until it ends, for some minutes at most.
func follow(t *testing.T, namespace, pod, container string) *output {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	stream, err := cluster.FollowLogs(ctx, namespace, pod, container, true)
	require.NoError(t, err)
	lines := make(chan string, 1000)
	go func() {
		defer stream.Close()
		defer close(lines)
		for scanner := bufio.NewScanner(stream); scanner.Scan(); {
			lines <- scanner.Text()
		}
	}()
	return &output{t, lines}
}

// next is the next line, or empty when the container has ended.
func (o *output) next() string {
	o.t.Helper()
	select {
	case line := <-o.lines:
		return line
	case <-o.t.Context().Done():
		return ""
	case <-time.After(patience):
		o.t.Fatalf("waiting for a line of output: time was up after %v", patience)
		return ""
	}
}

// rest is all that comes until the container ends.
func (o *output) rest() []string {
	o.t.Helper()
	var all []string
	deadline := time.After(patience)
	for {
		select {
		case line, more := <-o.lines:
			if !more {
				return all
			}
			all = append(all, line)
		case <-deadline:
			o.t.Fatalf("waiting for a container to end: time was up after %v; so far it wrote %q", patience, all)
		}
	}
}

func deletePod(t *testing.T, namespace, name string) {
	t.Helper()
	require.NoError(t, cluster.Kube.CoreV1().Pods(namespace).Delete(t.Context(), name, metav1.DeleteOptions{}))
}
