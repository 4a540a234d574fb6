// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Waiters measures what containers that wait for another one cost their node: the
// supervisor's looks, and the startupProbe by which the kubelet asks it.
// It compares a pod of such containers with one whose containers sleep, on the cluster
// that KUBECONFIG names, and prints the table of docs/benchmarks.md. With -update, it
// writes it there.
//
// It reads the CPU time of the whole machine, so it has to run on the only node of the
// cluster, while nothing else does.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/pkg/pod"
	"github.com/entrypointer/entrypointer/test/framework"
)

// patience is what the start of a pod may take.
const patience = 3 * time.Minute

func main() {
	log.SetFlags(0)
	log.SetPrefix("bench: ")
	update := flag.Bool("update", false, "write the table into docs/benchmarks.md")
	containers := flag.Int("containers", 20, "how many of a pod wait")
	rounds := flag.Int("rounds", 3, "how often to measure each pod")
	long := flag.Duration("for", 20*time.Second, "how long to watch a pod")
	flag.Parse()
	if err := run(*containers, *rounds, *long, *update); err != nil {
		log.Fatal(err)
	}
}

func run(containers, rounds int, long time.Duration, update bool) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	b, err := prepare(ctx, containers, long)
	if err != nil {
		return err
	}
	defer b.cleanUp(ctx)
	for range rounds {
		for _, k := range b.kinds {
			if err := b.measure(ctx, k); err != nil {
				return err
			}
		}
	}
	table := b.render()
	fmt.Print(table)
	if !update {
		return nil
	}
	return framework.ReplaceIn(framework.Benchmarks, "waiters", table)
}

// A kind is a pod, and the share of one core that the node was busy while it ran.
type kind struct {
	name   string
	waits  bool
	policy corev1.RestartPolicy
	busy   []float64
}

type bench struct {
	cluster    *framework.Cluster
	namespace  string
	image      string
	containers int
	long       time.Duration
	kinds      []*kind // the pod that sleeps first
}

func prepare(ctx context.Context, containers int, long time.Duration) (*bench, error) {
	cluster, err := framework.Connect()
	if err != nil {
		return nil, err
	}
	if err := cluster.WaitForInjector(ctx); err != nil {
		return nil, err
	}
	b := &bench{cluster: cluster, containers: containers, long: long, kinds: []*kind{
		{name: "sleep", policy: corev1.RestartPolicyAlways},
		{name: "wait, in a Deployment's pod", waits: true, policy: corev1.RestartPolicyAlways},
		{name: "wait, in a Job's pod", waits: true, policy: corev1.RestartPolicyNever},
	}}
	if b.image, err = framework.Image(ctx, "busybox:1.37"); err != nil {
		return nil, err
	}
	b.namespace, err = cluster.NewNamespace(ctx, "bench-", map[string]string{pod.InjectAnnotation: "true"})
	return b, err
}

func (b *bench) cleanUp(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	_ = b.cluster.Kube.CoreV1().Namespaces().Delete(ctx, b.namespace, metav1.DeleteOptions{})
}

// measure runs a pod, and watches the machine once all of its containers run.
func (b *bench) measure(ctx context.Context, k *kind) error {
	pods := b.cluster.Kube.CoreV1().Pods(b.namespace)
	p, err := pods.Create(ctx, b.pod(k), metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("creating a pod whose containers %s: %w", k.name, err)
	}
	defer func() {
		_ = pods.Delete(context.WithoutCancel(ctx), p.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
	}()
	running := func(ctx context.Context) error {
		got, err := pods.Get(ctx, p.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		n := 0
		for _, s := range got.Status.ContainerStatuses {
			if s.State.Running != nil {
				n++
			}
		}
		if n <= b.containers {
			return fmt.Errorf("%d of its containers run", n)
		}
		return nil
	}
	if err := framework.Eventually(ctx, patience, "all containers of pod "+p.Name+" to run", running); err != nil {
		return err
	}
	time.Sleep(5 * time.Second) // what its start has caused is over
	before, err := busyTime()
	if err != nil {
		return err
	}
	time.Sleep(b.long)
	after, err := busyTime()
	if err != nil {
		return err
	}
	k.busy = append(k.busy, float64(after-before)/float64(b.long))
	return nil
}

// pod has containers that sleep, or wait for one that doesn't become ready.
func (b *bench) pod(k *kind) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "bench-", Annotations: map[string]string{}},
		Spec:       corev1.PodSpec{RestartPolicy: k.policy, AutomountServiceAccountToken: new(bool)},
	}
	for i := range b.containers + 1 {
		name := fmt.Sprintf("c%d", i)
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: name, Image: b.image, Command: []string{"sleep", "600"}})
		if k.waits && i > 0 {
			p.Annotations["depends-on.entrypointer.dev/"+name] = "c0:ready"
		}
	}
	if k.waits {
		p.Annotations[pod.InjectAnnotation] = "true"
		p.Annotations["ready-when.entrypointer.dev/c0"] = "file:///never"
	}
	return p
}

func (k *kind) median() float64 {
	sorted := slices.Sorted(slices.Values(k.busy))
	return sorted[len(sorted)/2]
}
