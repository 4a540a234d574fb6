// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Pipes measures how fast two containers of one pod can send each other messages, by
// each way that a pod offers, on the cluster that KUBECONFIG names, and prints the table
// of docs/between-containers.md. With -update, it writes it there.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/test/framework"
)

const (
	peerImage = "ko://github.com/entrypointer/entrypointer/test/bench/pipes/peer"
	page      = "docs/between-containers.md"
	// patience is what a pod may take to start and to end on a small machine, beside its
	// measurements.
	patience = 5 * time.Minute
	// measurements are more than there are, each of which takes its time.
	measurements = 30
)

// A result is what test/bench/pipes/peer says of a transport.
type result struct {
	Transport   string
	Size        int
	PerSecond   float64
	Median, P99 time.Duration
	Trips       int
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("bench: ")
	update := flag.Bool("update", false, "write the table into "+page)
	lasts := flag.Duration("lasts", 3*time.Second, "how long each measurement takes")
	flag.Parse()
	if err := run(*lasts, *update); err != nil {
		log.Fatal(err)
	}
}

func run(lasts time.Duration, update bool) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	cluster, err := framework.Connect()
	if err != nil {
		return err
	}
	image, err := framework.Image(ctx, peerImage)
	if err != nil {
		return err
	}
	namespace, err := cluster.NewNamespace(ctx, "bench-", nil)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		_ = cluster.Kube.CoreV1().Namespaces().Delete(ctx, namespace, metav1.DeleteOptions{})
	}()
	results, err := measure(ctx, cluster, namespace, peers(image, lasts), lasts)
	if err != nil {
		return err
	}
	table := render(results, lasts)
	fmt.Print(table)
	if !update {
		return nil
	}
	return framework.ReplaceIn(page, "pipes", table)
}

// peers is a pod whose containers talk to each other.
func peers(image string, lasts time.Duration) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "peers"}, Spec: corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever,
		Volumes: []corev1.Volume{
			{Name: "disk", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			{Name: "memory", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}},
		},
	}}
	for _, name := range []string{"ask", "answer"} {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{
			Name: name, Image: image, Command: []string{"/ko-app/peer"}, Args: []string{name, "/disk", "/memory", lasts.String()},
			VolumeMounts: []corev1.VolumeMount{{Name: "disk", MountPath: "/disk"}, {Name: "memory", MountPath: "/memory"}},
		})
	}
	return p
}

// measure runs the pod, and returns what it found.
func measure(ctx context.Context, cluster *framework.Cluster, namespace string, p *corev1.Pod, lasts time.Duration) (results []result, err error) {
	pods := cluster.Kube.CoreV1().Pods(namespace)
	if _, err := pods.Create(ctx, p, metav1.CreateOptions{}); err != nil {
		return nil, fmt.Errorf("creating pod %q: %w", p.Name, err)
	}
	err = framework.Eventually(ctx, patience+measurements*lasts, fmt.Sprintf("pod %q to have measured", p.Name), func(ctx context.Context) error {
		now, err := pods.Get(ctx, p.Name, metav1.GetOptions{})
		switch {
		case err != nil:
			return err
		case now.Status.Phase == corev1.PodSucceeded:
			return nil
		}
		for _, status := range now.Status.ContainerStatuses {
			if end := status.State.Terminated; end != nil && end.ExitCode != 0 {
				said, _ := cluster.Logs(ctx, namespace, p.Name, status.Name)
				return framework.Permanent(fmt.Errorf("container %q has failed with %d: %s", status.Name, end.ExitCode, said))
			}
		}
		return fmt.Errorf("it is %s", now.Status.Phase)
	})
	if err != nil {
		return nil, err
	}
	said, err := cluster.Logs(ctx, namespace, p.Name, "ask")
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal([]byte(said), &results); err != nil {
		return nil, fmt.Errorf("reading what pod %q has found: %w: %q", p.Name, err, said)
	}
	return results, nil
}
