// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

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

// A process is one of this machine, and how it is told from another one that gets its id.
type process struct {
	pid      int
	expected func(argv []string, cgroup string) bool
}

// send sends the process a signal.
func (p process) send(sig unix.Signal) error { return sendSignal(p.pid, sig, p.expected) }

// open opens a file of the process below /proc.
func (p process) open(name string) (*os.File, error) {
	file, err := os.Open(fmt.Sprintf("/proc/%d/%s", p.pid, name))
	if err != nil {
		return nil, fmt.Errorf("opening what process %d sees: %w", p.pid, err)
	}
	return file, nil
}

// stall stops the process without ending it, and returns how to let it go on.
func (p process) stall(ctx context.Context) (healer, error) {
	goOn, err := guarded(ctx, "true", fmt.Sprintf("kill -CONT %d 2>/dev/null || true", p.pid), nil)
	if err != nil {
		return nil, err
	}
	return goOn, p.send(unix.SIGSTOP)
}

// processLimit is what a container that was killed may take to be started again.
const processLimit = 30 * time.Second

// processesOf returns the processes of a program of ours in a pod, which this machine has. It
// waits for a container that is being started again.
func processesOf(ctx context.Context, pod corev1.Pod, program string) (found []process, err error) {
	belongs := func(argv []string, cgroup string) bool {
		// The systemd driver has underscores.
		own := strings.Contains(cgroup, "pod"+string(pod.UID)) || strings.Contains(cgroup, "pod"+strings.ReplaceAll(string(pod.UID), "-", "_"))
		return own && argv[0] == program
	}
	err = framework.Eventually(ctx, processLimit, program+" of pod "+pod.Name, func(context.Context) error {
		directories, err := filepath.Glob("/proc/[0-9]*")
		if err != nil {
			return err
		}
		for _, directory := range directories {
			pid, err := strconv.Atoi(filepath.Base(directory))
			if err != nil {
				continue
			}
			if argv, cgroup, err := identity(pid); err == nil && belongs(argv, cgroup) {
				found = append(found, process{pid, belongs})
			}
		}
		if len(found) == 0 {
			return errors.New("no process of this machine is it; run this as root on the node")
		}
		return nil
	})
	return found, err
}

// signalContainers sends a signal to a program of ours in some pods. If one of them has
// none, none of them gets it.
func signalContainers(ctx context.Context, pods []corev1.Pod, program string, sig unix.Signal) error {
	var all []process
	for i := range pods {
		found, err := processesOf(ctx, pods[i], program)
		if err != nil {
			return err
		}
		all = append(all, found...)
	}
	var errs []error
	for _, p := range all {
		errs = append(errs, p.send(sig))
	}
	return errors.Join(errs...)
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
func component(name string) (process, error) {
	files := clientcmd.NewDefaultClientConfigLoadingRules().GetLoadingPrecedence()
	if len(files) != 1 {
		return process{}, fmt.Errorf("looking for process %q: KUBECONFIG names %d files", name, len(files))
	}
	state := filepath.Dir(files[0])
	text, err := os.ReadFile(filepath.Join(state, "pids", name+".json"))
	if err != nil {
		return process{}, fmt.Errorf("looking for process %q: %w; only a cluster of test/cluster has these files beside its kubeconfig", name, err)
	}
	var remembered struct{ PID int }
	if err := json.Unmarshal(text, &remembered); err != nil {
		return process{}, fmt.Errorf("looking for process %q: %w", name, err)
	}
	// Each of these processes has a file of this cluster among its arguments.
	return process{remembered.PID, func(argv []string, _ string) bool {
		return filepath.Base(argv[0]) == name && strings.Contains(strings.Join(argv[1:], " "), state+"/")
	}}, nil
}

// killComponent kills a component, as kill -9 does, and starts it again in the end.
func killComponent(name string) inject {
	return func(context.Context, *environment) (healer, error) {
		p, err := component(name)
		if err != nil {
			return nil, err
		}
		return restart, p.send(unix.SIGKILL)
	}
}

// restart starts the components that don't run.
func restart(ctx context.Context) error {
	_, err := framework.Run(ctx, "go", "run", "-C", "test/cluster", ".", "up")
	return err
}

// stallComponent stops a component without ending it until the fault is over.
func stallComponent(name string) inject {
	return func(ctx context.Context, _ *environment) (healer, error) {
		p, err := component(name)
		if err != nil {
			return nil, err
		}
		return p.stall(ctx)
	}
}
