// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"knative.dev/pkg/apis"

	"github.com/entrypointer/entrypointer/pkg/pod"
	"github.com/entrypointer/entrypointer/test/framework"
)

const (
	stepImage = "ko://github.com/entrypointer/entrypointer/test/bench/handoff/step"
	// patience is what a TaskRun may take on a small machine.
	patience = 3 * time.Minute
)

// takes is the time that a step takes. If it is the same for all, it may be as
// far from one step's end to the next as from the start of one container to
// that of the next, and Tekton's looks, once a second from that start, come each a
// little too early, or each in time.
func (s shape) takes(i int) time.Duration {
	if s.alike {
		return 137 * time.Millisecond
	}
	return time.Duration(50+i*70%200) * time.Millisecond
}

// A bench is the sides to run the same TaskRuns in.
type bench struct {
	cluster *framework.Cluster
	image   string
	sides   []*side
}

func prepare(ctx context.Context) (*bench, error) {
	cluster, err := framework.Connect()
	if err != nil {
		return nil, err
	}
	if err := cluster.WaitForInjector(ctx); err != nil {
		return nil, err
	}
	b := &bench{cluster: cluster}
	if b.image, err = framework.Image(ctx, stepImage); err != nil {
		return nil, err
	}
	b.sides = []*side{{name: "Tekton alone"}, {name: "with entrypointer", delivery: framework.InitContainer}}
	mounts, err := cluster.HasImageVolumes()
	if err != nil {
		return nil, err
	}
	if mounts {
		b.sides = append(b.sides, &side{name: "with `delivery: image-volume`", delivery: framework.ImageVolume})
	}
	for _, s := range b.sides {
		s.runs = map[shape][]taskRun{}
		var annotations map[string]string
		if s.delivery != "" {
			annotations = map[string]string{pod.InjectAnnotation: "true", pod.DeliveryAnnotation: s.delivery}
		}
		if s.namespace, err = b.cluster.NewNamespace(ctx, "bench-", annotations); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// delivered wants a pod to have got the supervisor in the side's way.
func (s *side) delivered(p *corev1.Pod) error {
	if got := framework.Delivery(p); got != s.delivery {
		return fmt.Errorf("pod %q has the supervisor by %q instead of %q", p.Name, got, s.delivery)
	}
	return nil
}

func (b *bench) cleanUp(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	for _, s := range b.sides {
		_ = b.cluster.Kube.CoreV1().Namespaces().Delete(ctx, s.namespace, metav1.DeleteOptions{})
	}
}

// A taskRun is when things happened to a TaskRun.
type taskRun struct {
	created, done time.Time
	steps         []span // the commands of its steps, by their own clock
}

type span struct{ began, ended time.Time }

func (r taskRun) wall() time.Duration { return r.done.Sub(r.created) }

// phase is the time from the start of the first step to the end of the last.
func (r taskRun) phase() time.Duration { return r.steps[len(r.steps)-1].ended.Sub(r.steps[0].began) }

// handOffs are the times between steps.
func (r taskRun) handOffs() (all []time.Duration) {
	for i := 1; i < len(r.steps); i++ {
		all = append(all, r.steps[i].began.Sub(r.steps[i-1].ended))
	}
	return all
}

// time runs a TaskRun on a side.
func (b *bench) time(ctx context.Context, s *side, shape shape) (took taskRun, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	runs := b.cluster.Tekton.TektonV1().TaskRuns(s.namespace)
	watch, err := runs.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return took, fmt.Errorf("watching the TaskRuns of namespace %q: %w", s.namespace, err)
	}
	defer watch.Stop()
	took.created = time.Now()
	created, err := runs.Create(ctx, b.taskRun(s.namespace, shape), metav1.CreateOptions{})
	if err != nil {
		return took, fmt.Errorf("creating a TaskRun: %w", err)
	}
	for event := range watch.ResultChan() {
		run, ok := event.Object.(*pipelinev1.TaskRun)
		if !ok || run.Name != created.Name {
			continue
		}
		switch condition := run.Status.GetCondition(apis.ConditionSucceeded); {
		case condition.IsTrue():
			took.done = time.Now()
			took.steps, err = b.spans(ctx, s, run)
			return took, err
		case condition.IsFalse():
			return took, fmt.Errorf("running a TaskRun of %d steps: %s: %s", shape.steps, condition.Reason, condition.Message)
		}
	}
	return took, errors.Join(fmt.Errorf("running a TaskRun of %d steps in namespace %q: it wasn't done after %v", shape.steps, s.namespace, patience), ctx.Err())
}

// taskRun has the name of its namespace in the arguments of its steps, for
// watchWaiting to tell.
func (b *bench) taskRun(namespace string, shape shape) *pipelinev1.TaskRun {
	spec := &pipelinev1.TaskSpec{}
	for i := range shape.steps {
		spec.Steps = append(spec.Steps, pipelinev1.Step{
			Name: fmt.Sprint(i + 1), Image: b.image,
			Command: []string{"/ko-app/step"}, Args: []string{shape.takes(i).String(), namespace},
		})
	}
	return &pipelinev1.TaskRun{ObjectMeta: metav1.ObjectMeta{GenerateName: "steps-"}, Spec: pipelinev1.TaskRunSpec{TaskSpec: spec}}
}

// spans reads what the steps have said.
func (b *bench) spans(ctx context.Context, s *side, run *pipelinev1.TaskRun) (spans []span, err error) {
	p, err := b.cluster.Kube.CoreV1().Pods(run.Namespace).Get(ctx, run.Status.PodName, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading the pod of a TaskRun: %w", err)
	}
	if err := s.delivered(p); err != nil {
		return nil, err
	}
	for _, step := range run.Status.Steps {
		said, err := b.cluster.Logs(ctx, run.Namespace, run.Status.PodName, step.Container)
		if err != nil {
			return nil, err
		}
		took, err := parseSpan(said)
		if err != nil {
			return nil, fmt.Errorf("reading when step %q ran: %w", step.Name, err)
		}
		spans = append(spans, took)
	}
	return spans, nil
}

func parseSpan(said string) (s span, err error) {
	fields := strings.Fields(said)
	if len(fields) != 2 {
		return s, fmt.Errorf("it says %q", said)
	}
	if s.began, err = time.Parse(time.RFC3339Nano, fields[0]); err != nil {
		return s, err
	}
	s.ended, err = time.Parse(time.RFC3339Nano, fields[1])
	return s, err
}
