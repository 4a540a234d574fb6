// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/entrypointer/entrypointer/test/framework"
)

// sendSignal sends a signal to a process whose command line and control group are as
// expected. The process can't become another one between the look and the signal.
func sendSignal(pid int, sig unix.Signal, expected func(argv []string, cgroup string) bool) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return fmt.Errorf("opening process %d: %w", pid, err)
	}
	defer func() { _ = unix.Close(fd) }()
	argv, cgroup, err := identity(pid)
	if err != nil {
		return err
	}
	if !expected(argv, cgroup) {
		return fmt.Errorf("sending %v to process %d: it is another one: %q", sig, pid, argv)
	}
	if err := unix.PidfdSendSignal(fd, sig, nil, 0); err != nil {
		return fmt.Errorf("sending %v to process %d, %q: %w", sig, pid, argv[0], err)
	}
	return nil
}

// identity reads a process' command line and its control groups.
func identity(pid int) (argv []string, cgroup string, err error) {
	directory := filepath.Join("/proc", strconv.Itoa(pid))
	line, err := os.ReadFile(filepath.Join(directory, "cmdline"))
	if err != nil {
		return nil, "", fmt.Errorf("reading the command line of process %d: %w", pid, err)
	}
	groups, err := os.ReadFile(filepath.Join(directory, "cgroup"))
	if err != nil {
		return nil, "", fmt.Errorf("reading the control groups of process %d: %w", pid, err)
	}
	return strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00"), string(groups), nil
}

// killContainers kills, as kill -9 does, a program of ours in some pods, whose processes
// this machine has.
func killContainers(pods []corev1.Pod, program string) error {
	processes, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return err
	}
	for _, p := range pods {
		belongs := func(argv []string, cgroup string) bool {
			// The systemd driver has underscores.
			own := strings.Contains(cgroup, "pod"+string(p.UID)) || strings.Contains(cgroup, "pod"+strings.ReplaceAll(string(p.UID), "-", "_"))
			return own && argv[0] == program
		}
		killed := 0
		for _, directory := range processes {
			pid, err := strconv.Atoi(filepath.Base(directory))
			if err != nil {
				continue
			}
			argv, cgroup, err := identity(pid)
			if err != nil || !belongs(argv, cgroup) {
				continue
			}
			if err := sendSignal(pid, unix.SIGKILL, belongs); err != nil {
				return err
			}
			killed++
		}
		if killed == 0 {
			return fmt.Errorf("killing %s of pod %q: no process of this machine is it; run this as root on the node", program, p.Name)
		}
	}
	return nil
}

// podsOf lists the running pods with a label.
func podsOf(ctx context.Context, cluster *framework.Cluster, namespace, selector string) (running []corev1.Pod, err error) {
	list, err := cluster.Kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, fmt.Errorf("listing the pods with %s: %w", selector, err)
	}
	for _, p := range list.Items {
		if p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
			running = append(running, p)
		}
	}
	if len(running) == 0 {
		return nil, fmt.Errorf("looking for pods with %s in namespace %q: none runs", selector, namespace)
	}
	return running, nil
}

// component returns the process of a component of the cluster that KUBECONFIG names, which
// has to be that of test/cluster.
func component(name string) (pid int, expected func(argv []string, cgroup string) bool, err error) {
	files := clientcmd.NewDefaultClientConfigLoadingRules().GetLoadingPrecedence()
	if len(files) != 1 {
		return 0, nil, fmt.Errorf("looking for process %q: KUBECONFIG names %d files", name, len(files))
	}
	state := filepath.Dir(files[0])
	text, err := os.ReadFile(filepath.Join(state, "pids", name+".json"))
	if err != nil {
		return 0, nil, fmt.Errorf("looking for process %q: %w; only a cluster of test/cluster has these files beside its kubeconfig", name, err)
	}
	var remembered struct{ PID int }
	if err := json.Unmarshal(text, &remembered); err != nil {
		return 0, nil, fmt.Errorf("looking for process %q: %w", name, err)
	}
	// Each of these processes has a file of this cluster among its arguments.
	return remembered.PID, func(argv []string, _ string) bool {
		return filepath.Base(argv[0]) == name && strings.Contains(strings.Join(argv[1:], " "), state+"/")
	}, nil
}

// killComponent kills a component, as kill -9 does, and returns how to start it again.
func killComponent(name string) func(context.Context, *environment) (func(context.Context) error, error) {
	return func(context.Context, *environment) (func(context.Context) error, error) {
		pid, expected, err := component(name)
		if err != nil {
			return nil, err
		}
		return restart, sendSignal(pid, unix.SIGKILL, expected)
	}
}

// restart starts the components that don't run.
func restart(ctx context.Context) error {
	_, err := framework.Run(ctx, "go", "run", "-C", "test/cluster", ".", "up")
	return err
}

// stallComponent stops a component without ending it, and returns how to let it go on.
func stallComponent(name string) func(context.Context, *environment) (func(context.Context) error, error) {
	return func(context.Context, *environment) (func(context.Context) error, error) {
		pid, expected, err := component(name)
		if err != nil {
			return nil, err
		}
		err = sendSignal(pid, unix.SIGSTOP, expected)
		return func(context.Context) error { return sendSignal(pid, unix.SIGCONT, expected) }, err
	}
}
