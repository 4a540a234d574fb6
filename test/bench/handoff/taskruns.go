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
	"github.com/entrypointer/entrypointer/test/kit"
)

const (
	stepImage = "ko://github.com/entrypointer/entrypointer/test/bench/handoff/step"
	// patience is what a TaskRun may take on a small machine.
	patience = 3 * time.Minute
)

// stepTakes is the time that a step takes. Were it the same for all, it would be
// as far from one step's end to the next as from the start of one container to
// that of the next, and Tekton's looks, once a second from that start, would find
// each step ready, or none, by chance.
func stepTakes(i int) time.Duration {
	return time.Duration(50+i*70%200) * time.Millisecond
}

// A bench is two namespaces to run the same TaskRuns in.
type bench struct {
	cluster        *kit.Cluster
	image          string
	plain, optedIn string
}

func prepare(ctx context.Context) (*bench, error) {
	cluster, err := kit.Connect()
	if err != nil {
		return nil, err
	}
	if err := cluster.InjectorServes(ctx); err != nil {
		return nil, err
	}
	b := &bench{cluster: cluster}
	if b.image, err = kit.Image(ctx, stepImage); err != nil {
		return nil, err
	}
	if b.plain, err = b.namespace(ctx, nil); err != nil {
		return nil, err
	}
	b.optedIn, err = b.namespace(ctx, map[string]string{pod.InjectAnnotation: "true"})
	return b, err
}

func (b *bench) namespace(ctx context.Context, annotations map[string]string) (string, error) {
	ns, err := b.cluster.Kube.CoreV1().Namespaces().Create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "bench-", Annotations: annotations}}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("creating a namespace: %w", err)
	}
	return ns.Name, kit.Eventually(ctx, time.Minute, "the service account of namespace "+ns.Name, func(ctx context.Context) error {
		_, err := b.cluster.Kube.CoreV1().ServiceAccounts(ns.Name).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

func (b *bench) cleanUp(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	for _, namespace := range []string{b.plain, b.optedIn} {
		_ = b.cluster.Kube.CoreV1().Namespaces().Delete(ctx, namespace, metav1.DeleteOptions{})
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

// time runs a TaskRun of so many steps.
func (b *bench) time(ctx context.Context, namespace string, length int) (took taskRun, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	runs := b.cluster.Tekton.TektonV1().TaskRuns(namespace)
	watch, err := runs.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return took, fmt.Errorf("watching the TaskRuns of namespace %q: %w", namespace, err)
	}
	defer watch.Stop()
	took.created = time.Now()
	created, err := runs.Create(ctx, b.taskRun(stepTakes(0), length), metav1.CreateOptions{})
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
			took.steps, err = b.spans(ctx, run)
			return took, err
		case condition.IsFalse():
			return took, fmt.Errorf("running a TaskRun of %d steps: %s: %s", length, condition.Reason, condition.Message)
		}
	}
	return took, errors.Join(fmt.Errorf("running a TaskRun of %d steps in namespace %q: it wasn't done after %v", length, namespace, patience), ctx.Err())
}

func (b *bench) taskRun(first time.Duration, length int) *pipelinev1.TaskRun {
	spec := &pipelinev1.TaskSpec{}
	for i := range length {
		takes := stepTakes(i)
		if i == 0 {
			takes = first
		}
		spec.Steps = append(spec.Steps, pipelinev1.Step{
			Name: fmt.Sprint(i + 1), Image: b.image,
			Command: []string{"/ko-app/step"}, Args: []string{takes.String(), "$(context.taskRun.namespace)"},
		})
	}
	return &pipelinev1.TaskRun{ObjectMeta: metav1.ObjectMeta{GenerateName: "steps-"}, Spec: pipelinev1.TaskRunSpec{TaskSpec: spec}}
}

// spans reads what the steps have said.
func (b *bench) spans(ctx context.Context, run *pipelinev1.TaskRun) (spans []span, err error) {
	for _, s := range run.Status.Steps {
		log, err := b.cluster.Logs(ctx, run.Namespace, run.Status.PodName, s.Container)
		if err != nil {
			return nil, err
		}
		began, ended, _ := strings.Cut(strings.TrimSpace(log), " ")
		var took span
		var err2 error
		took.began, err = time.Parse(time.RFC3339Nano, began)
		took.ended, err2 = time.Parse(time.RFC3339Nano, ended)
		if err := errors.Join(err, err2); err != nil {
			return nil, fmt.Errorf("reading when step %q ran: %w", s.Name, err)
		}
		spans = append(spans, took)
	}
	return spans, nil
}
