// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/pkg/pod"
	"github.com/entrypointer/entrypointer/test/framework"
)

const (
	tektonEntrypoint = "/tekton/bin/entrypoint"
	// firstEnds is the file that tells of the first step's end.
	firstEnds = "/tekton/run/0/out"
	// waiters are how many steps wait.
	waiters = 2
)

// watchWaiting has a TaskRun on each side whose first step keeps the others
// waiting, and looks at the processes of these before and after a while.
func (b *bench) watchWaiting(ctx context.Context, idle time.Duration, sides ...*side) error {
	before := map[int]framework.Usage{}
	for _, s := range sides {
		run := b.taskRun(s.namespace, shape{steps: 1 + waiters})
		run.Spec.TaskSpec.Steps[0].Args[0] = "1h"
		run, err := b.cluster.Tekton.TektonV1().TaskRuns(s.namespace).Create(ctx, run, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("creating a TaskRun: %w", err)
		}
		what := fmt.Sprintf("%d steps of TaskRun %q to wait; does this run on the node?", waiters, run.Name)
		if err := framework.Eventually(ctx, patience, what, func(context.Context) error { return waitersThere(s.namespace) }); err != nil {
			return err
		}
	}
	pause(ctx, 5*time.Second) // until there is nothing left to start
	for _, s := range sides {
		for _, pids := range waitingIn(s.namespace) {
			for _, pid := range pids {
				usage, err := framework.UsageOf(pid)
				if err != nil {
					return fmt.Errorf("looking at a step that waits: %w", err)
				}
				before[pid] = usage
			}
		}
	}
	pause(ctx, idle)
	for _, s := range sides {
		for _, pids := range waitingIn(s.namespace) {
			var step framework.Usage
			for _, pid := range pids {
				usage, err := framework.UsageOf(pid)
				if err != nil {
					return fmt.Errorf("looking at a step that waits: %w", err)
				}
				step.CPU += usage.CPU - before[pid].CPU
				step.RSS += usage.RSS
			}
			s.waiting = append(s.waiting, step)
		}
	}
	return ctx.Err()
}

// waitersThere wants the first step to work and the others to wait for it.
func waitersThere(namespace string) error {
	works := processes(func(argv []string) bool { return argv[0] == "/ko-app/step" && slices.Contains(argv, namespace) })
	if len(works) == 0 {
		return errors.New("the first doesn't work yet")
	}
	if there := len(waitingIn(namespace)); there != waiters {
		return fmt.Errorf("there are %d", there)
	}
	return nil
}

// waitingIn are the processes that wait in the place of the steps, but the
// first, of a namespace, which is an argument of theirs, by the file that tells of a
// step's end.
func waitingIn(namespace string) map[string][]int {
	steps := map[string][]int{}
	for pid, argv := range processes(func(argv []string) bool {
		waits := argv[0] == tektonEntrypoint || argv[0] == pod.EntrypointPath
		return waits && slices.Contains(argv, namespace) && argv[slices.Index(argv, "-post_file")+1] != firstEnds
	}) {
		step := argv[slices.Index(argv, "-post_file")+1]
		steps[step] = append(steps[step], pid)
	}
	return steps
}

// processes are those of this machine that have such an argv, and theirs.
func processes(match func(argv []string) bool) map[int][]string {
	found := map[int][]string{}
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		cmdline, err := os.ReadFile(file)
		if err != nil || len(cmdline) == 0 {
			continue // it has ended, or is the kernel's
		}
		if argv := strings.Split(strings.TrimSuffix(string(cmdline), "\x00"), "\x00"); match(argv) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			found[pid] = argv
		}
	}
	return found
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
