// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/test/framework"
)

// run is what became of an example in one namespace.
type run struct {
	// verdict is what its status says in the end.
	verdict string
	// containers are those of the user's, in the order in which they are shown.
	containers []container
	// facts are results, URLs and answers.
	facts []fact
}

type fact struct{ name, value string }

type container struct {
	name string
	// command and args are as in the pod.
	command, args []string
	said          string
	processes     []framework.Process
	// exit is the exit code, or "running".
	exit string
}

// result is an example, run in both namespaces.
type result struct {
	example        example
	plain, wrapped run
}

// everything is what the demo shows.
type everything struct {
	results  []result
	ways     []wayResult
	readings []*reading
}

// runAll runs all the examples in both namespaces at once, and meanwhile one of them in
// the other ways, and reads logs.
func runAll(ctx context.Context, cluster *framework.Cluster, ways []way, out *terminal) (all everything, err error) {
	results := make([]result, len(examples))
	pending := newPending(out)
	defer pending.stop()
	group, ctx := errgroup.WithContext(ctx)
	for i, e := range examples {
		results[i].example = e
		for namespace, to := range map[string]*run{plain: &results[i].plain, optedIn: &results[i].wrapped} {
			group.Go(func() (err error) {
				defer pending.add(e.title + " in " + namespace)(&err)
				objects, err := framework.Example(ctx, e.file)
				if err != nil {
					return err
				}
				if err := framework.KeepRunning(objects); err != nil {
					return err
				}
				if err := cluster.Create(ctx, namespace, objects...); err != nil {
					return err
				}
				*to, err = e.finish(ctx, cluster, namespace)
				return err
			})
		}
	}
	all = everything{results: results, ways: make([]wayResult, len(ways))}
	for i, w := range ways {
		group.Go(func() (err error) {
			defer pending.add(byWays.title + " in " + w.namespace)(&err)
			all.ways[i], err = w.run(ctx, cluster)
			return err
		})
	}
	group.Go(func() (err error) {
		defer pending.add("Logs of what is gone from " + optedIn)(&err)
		all.readings, err = readLogs(ctx, cluster)
		return err
	})
	err = group.Wait()
	for i := range all.ways {
		all.ways[i].plain = results[0].plain
	}
	return all, err
}

// pending tells what is done, and now and then what isn't.
type pending struct {
	mu     sync.Mutex
	out    *terminal
	names  map[string]bool
	ticker *time.Ticker
	ended  chan struct{}
}

func newPending(out *terminal) *pending {
	p := &pending{out: out, names: map[string]bool{}, ticker: time.NewTicker(10 * time.Second), ended: make(chan struct{})}
	go func() {
		for {
			select {
			case <-p.ended:
				return
			case <-p.ticker.C:
				p.mu.Lock()
				p.out.waiting(slices.Sorted(maps.Keys(p.names)))
				p.mu.Unlock()
			}
		}
	}()
	return p
}

func (p *pending) stop() {
	p.ticker.Stop()
	close(p.ended)
}

// add returns what to call when name has ended.
func (p *pending) add(name string) func(*error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.names[name] = true
	start := time.Now()
	return func(err *error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.names, name)
		p.out.done(name, time.Since(start), *err)
	}
}

// observe describes a container of a pod. Output is what it wrote.
func observe(p *corev1.Pod, name, output string) (container, error) {
	for _, c := range p.Spec.Containers {
		if c.Name != name {
			continue
		}
		said, processes := framework.SplitProcesses(output)
		return container{
			name: name, command: c.Command, args: c.Args,
			said: said, processes: processes, exit: exitOf(p, name),
		}, nil
	}
	return container{}, fmt.Errorf("looking at pod %q: it has no container %q", p.Name, name)
}

func exitOf(p *corev1.Pod, name string) string {
	for _, s := range p.Status.ContainerStatuses {
		switch {
		case s.Name != name:
		case s.State.Terminated != nil:
			return fmt.Sprint(s.State.Terminated.ExitCode)
		case s.State.Running != nil:
			return "running"
		}
	}
	return "unknown"
}

// observeSteps describes the steps of a TaskRun.
func observeSteps(ctx context.Context, cluster *framework.Cluster, taskRun *pipelinev1.TaskRun) ([]container, error) {
	p, err := cluster.Kube.CoreV1().Pods(taskRun.Namespace).Get(ctx, taskRun.Status.PodName, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("looking at the pod of TaskRun %q: %w", taskRun.Name, err)
	}
	var steps []container
	for _, s := range taskRun.Status.Steps {
		output, err := cluster.Logs(ctx, p.Namespace, p.Name, s.Container)
		if err != nil {
			return nil, err
		}
		step, err := observe(p, s.Container, output)
		if err != nil {
			return nil, err
		}
		if s.Terminated != nil { // the container's own code is 0 if the task goes on
			step.exit = fmt.Sprint(s.Terminated.ExitCode)
		}
		steps = append(steps, step)
	}
	return steps, nil
}
