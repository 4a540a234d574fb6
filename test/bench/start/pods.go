// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/entrypointer/entrypointer/pkg/pod"
	"github.com/entrypointer/entrypointer/test/framework"
)

const (
	// programImage's program says when it began.
	programImage = "ko://github.com/entrypointer/entrypointer/test/bench/handoff/step"
	program      = "/ko-app/step"
	// patience is what one pod may take on a small machine.
	patience = time.Minute
)

// A kind is a way of starting a pod, and how long it took from its creation to the
// start of its command, each time.
type kind struct {
	name      string
	delivery  string // of the supervisor, empty where there is none
	idle      bool   // with an init container that does nothing
	namespace string
	starts    []time.Duration
}

type bench struct {
	cluster *framework.Cluster
	image   string
	kinds   []*kind // the pod that is unwrapped first
}

func prepare(ctx context.Context) (*bench, error) {
	cluster, err := framework.Connect()
	if err != nil {
		return nil, err
	}
	if err := cluster.WaitForInjector(ctx); err != nil {
		return nil, err
	}
	b := &bench{cluster: cluster, kinds: []*kind{
		{name: "unwrapped"},
		{name: "with an init container that does nothing", idle: true},
		{name: "with `delivery: init-container`", delivery: framework.InitContainer},
	}}
	mounts, err := cluster.HasImageVolumes()
	if err != nil {
		return nil, err
	}
	if mounts {
		b.kinds = append(b.kinds, &kind{name: "with `delivery: image-volume`", delivery: framework.ImageVolume})
	}
	if b.image, err = framework.Image(ctx, programImage); err != nil {
		return nil, err
	}
	for _, k := range b.kinds {
		var annotations map[string]string
		if k.delivery != "" {
			annotations = map[string]string{pod.InjectAnnotation: "true", pod.DeliveryAnnotation: k.delivery}
		}
		if k.namespace, err = cluster.NewNamespace(ctx, "bench-", annotations); err != nil {
			return nil, err
		}
	}
	return b, nil
}

func (b *bench) cleanUp(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	for _, k := range b.kinds {
		_ = b.cluster.Kube.CoreV1().Namespaces().Delete(ctx, k.namespace, metav1.DeleteOptions{})
	}
}

// startPods has the kinds take turns. The first of each, which may have images
// pulled, doesn't count.
func (b *bench) startPods(ctx context.Context, rounds int) error {
	for round := range rounds + 1 {
		for _, k := range b.kinds {
			took, err := b.start(ctx, k)
			if err != nil {
				return err
			}
			if round > 0 {
				k.starts = append(k.starts, took)
			}
		}
	}
	return nil
}

func (b *bench) start(ctx context.Context, k *kind) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	pods := b.cluster.Kube.CoreV1().Pods(k.namespace)
	creation := time.Now()
	p, err := pods.Create(ctx, b.pod(k), metav1.CreateOptions{})
	if err != nil {
		return 0, fmt.Errorf("creating a pod %s: %w", k.name, err)
	}
	defer func() { _ = pods.Delete(context.WithoutCancel(ctx), p.Name, metav1.DeleteOptions{}) }()
	if got := framework.Delivery(p); got != k.delivery {
		return 0, fmt.Errorf("pod %q has the supervisor by %q instead of %q", p.Name, got, k.delivery)
	}
	if err := b.done(ctx, p); err != nil {
		return 0, err
	}
	said, err := b.cluster.Logs(ctx, k.namespace, p.Name, "main")
	if err != nil {
		return 0, err
	}
	began, _, _ := strings.Cut(said, " ")
	at, err := time.Parse(time.RFC3339Nano, began)
	if err != nil {
		return 0, fmt.Errorf("reading when pod %q began: %w", p.Name, err)
	}
	return at.Sub(creation), nil
}

// pod is one that says when it began, and ends.
func (b *bench) pod(k *kind) *corev1.Pod {
	main := corev1.Container{Name: "main", Image: b.image, Command: []string{program}, Args: []string{"0s"}}
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "start-"},
		Spec:       corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{main}},
	}
	if k.delivery != "" {
		p.Annotations = map[string]string{pod.InjectAnnotation: "true"}
	}
	if k.idle {
		idle := main
		idle.Name = "idle"
		p.Spec.InitContainers = []corev1.Container{idle}
	}
	return p
}

// done waits until a pod has succeeded.
func (b *bench) done(ctx context.Context, p *corev1.Pod) error {
	watch, err := b.cluster.Kube.CoreV1().Pods(p.Namespace).Watch(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("metadata.name", p.Name).String(), ResourceVersion: p.ResourceVersion,
	})
	if err != nil {
		return fmt.Errorf("watching pod %q: %w", p.Name, err)
	}
	defer watch.Stop()
	for event := range watch.ResultChan() {
		switch now, _ := event.Object.(*corev1.Pod); {
		case now == nil:
		case now.Status.Phase == corev1.PodSucceeded:
			return nil
		case now.Status.Phase == corev1.PodFailed:
			return fmt.Errorf("starting pod %q: it failed: %s", p.Name, now.Status.Message)
		}
	}
	return errors.Join(fmt.Errorf("starting pod %q: it wasn't done after %v", p.Name, patience), ctx.Err())
}
