// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"
)

// Logs returns what a container wrote.
func (c *Cluster) Logs(ctx context.Context, namespace, pod, container string) (string, error) {
	stream, err := c.FollowLogs(ctx, namespace, pod, container, false)
	if err != nil {
		return "", err
	}
	defer stream.Close()
	text, err := io.ReadAll(stream)
	if err != nil {
		return "", fmt.Errorf("reading the log of container %q of pod %q: %w", container, pod, err)
	}
	return string(text), nil
}

// FollowLogs returns what a container wrote and, if asked to follow, will write until it
// ends.
func (c *Cluster) FollowLogs(ctx context.Context, namespace, pod, container string, follow bool) (io.ReadCloser, error) {
	stream, err := c.Kube.CoreV1().Pods(namespace).GetLogs(pod, &corev1.PodLogOptions{Container: container, Follow: follow}).Stream(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the log of container %q of pod %q: %w", container, pod, err)
	}
	return stream, nil
}

// Exec runs a command in a container, as kubectl exec does, and returns its stdout.
func (c *Cluster) Exec(ctx context.Context, namespace, pod, container string, command ...string) (string, error) {
	request := c.Kube.CoreV1().RESTClient().Post().Resource("pods").Namespace(namespace).Name(pod).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Container: container, Command: command, Stdout: true, Stderr: true}, scheme.ParameterCodec)
	executor, err := remotecommand.NewWebSocketExecutor(c.Config, "GET", request.URL().String())
	if err != nil {
		return "", fmt.Errorf("preparing to run %q in container %q of pod %q: %w", command, container, pod, err)
	}
	var stdout, stderr bytes.Buffer
	if err := executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: &stdout, Stderr: &stderr}); err != nil {
		return "", fmt.Errorf("running %q in container %q of pod %q: %w: %s", command, container, pod, err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

// Attach connects to the terminal of a container, as kubectl attach -it does,
// until the container ends or there is no more input.
func (c *Cluster) Attach(ctx context.Context, namespace, pod, container string, input io.Reader, output io.Writer) error {
	request := c.Kube.CoreV1().RESTClient().Post().Resource("pods").Namespace(namespace).Name(pod).SubResource("attach").
		VersionedParams(&corev1.PodAttachOptions{Container: container, Stdin: true, Stdout: true, TTY: true}, scheme.ParameterCodec)
	executor, err := remotecommand.NewWebSocketExecutor(c.Config, "GET", request.URL().String())
	if err != nil {
		return fmt.Errorf("preparing to attach to container %q of pod %q: %w", container, pod, err)
	}
	if err := executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: input, Stdout: output, Tty: true}); err != nil {
		return fmt.Errorf("being attached to container %q of pod %q: %w", container, pod, err)
	}
	return nil
}

// Process is a line of what "ps -o pid,args" prints, and the examples' hello.
type Process struct {
	PID     int
	Command string
}

var (
	psHeading = regexp.MustCompile(`^ *PID +COMMAND$`)
	psLine    = regexp.MustCompile(`^ *(\d+) (\S.*)$`)
)

// SplitProcesses takes the table of processes out of an output: it tells of
// where something ran, the rest of what it did.
func SplitProcesses(output string) (said string, table []Process) {
	var rest strings.Builder
	within := false
	for line := range strings.Lines(output) {
		text := strings.TrimRight(line, "\r\n")
		if psHeading.MatchString(text) {
			within = true
			continue
		}
		if match := psLine.FindStringSubmatch(text); within && match != nil {
			pid, _ := strconv.Atoi(match[1])
			table = append(table, Process{PID: pid, Command: match[2]})
			continue
		}
		within = false
		rest.WriteString(line)
	}
	return rest.String(), table
}

// PID1Command is the command of PID 1, or empty if the table has none.
func PID1Command(table []Process) string {
	for _, p := range table {
		if p.PID == 1 {
			return p.Command
		}
	}
	return ""
}
