// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/internal/logs/endpoint"
	"github.com/entrypointer/entrypointer/pkg/pod"
	"github.com/entrypointer/entrypointer/test/framework"
)

const (
	printerImage = "ko://github.com/entrypointer/entrypointer/test/bench/logs/printer"
	// patience is what a pod may take to start on a small machine, and to end.
	patience = 3 * time.Minute
)

// A bench is three namespaces: one whose pods are unwrapped, and two whose pods send their
// logs. In one of these two, output is dropped that is printed faster than it is sent. In
// the other one, the command waits, as by default.
type bench struct {
	cluster             *framework.Cluster
	image               string
	plain, own, waiting string
	pods                int // made so far
}

func prepare(ctx context.Context) (*bench, error) {
	cluster, err := framework.Connect()
	if err != nil {
		return nil, err
	}
	b := &bench{cluster: cluster}
	if b.image, err = framework.Image(ctx, printerImage); err != nil {
		return nil, err
	}
	if b.plain, err = b.cluster.NewNamespace(ctx, "bench-", nil); err != nil {
		return nil, err
	}
	if b.own, err = b.cluster.NewNamespace(ctx, "bench-", map[string]string{pod.InjectAnnotation: "true", "entrypointer.dev/logs": "stream", "entrypointer.dev/logs-when-full": "drop"}); err != nil {
		return nil, err
	}
	b.waiting, err = b.cluster.NewNamespace(ctx, "bench-", map[string]string{pod.InjectAnnotation: "true", "entrypointer.dev/logs": "stream"})
	return b, err
}

func (b *bench) cleanUp(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	for _, namespace := range []string{b.plain, b.own, b.waiting} {
		_ = b.cluster.Kube.CoreV1().Namespaces().Delete(ctx, namespace, metav1.DeleteOptions{})
	}
}

// A printing is what a container prints: so many bytes at a time, so often.
type printing struct {
	bytes int
	rate  float64 // a second; 0 is as often as it goes
	lasts time.Duration
	total int64 // bytes after which it ends, 0 for no such end
}

// A report is what test/bench/logs/printer says in the end.
type report struct {
	Median, P99 time.Duration
	Bytes       int64
	Took        time.Duration
	Ended       time.Time
}

// start makes a pod with a container for each printing, and waits until they run.
// Where there is one, and nothing but the time ends it, it has one core.
func (b *bench) start(ctx context.Context, namespace string, all ...printing) (name string, err error) {
	b.pods++
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "prints-" + strconv.Itoa(b.pods), Annotations: map[string]string{pod.InjectAnnotation: "true"}}}
	p.Spec.RestartPolicy = corev1.RestartPolicyNever
	for i, printing := range all {
		c := corev1.Container{
			Name: fmt.Sprint("c", i), Image: b.image, Command: []string{"/ko-app/printer"},
			Args: []string{namespace + "/" + p.Name, fmt.Sprint(printing.bytes), fmt.Sprint(printing.rate), printing.lasts.String(), fmt.Sprint(printing.total)},
		}
		if len(all) == 1 && printing.total == 0 {
			c.Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
			c.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m")}
		}
		p.Spec.Containers = append(p.Spec.Containers, c)
	}
	if _, err := b.cluster.Kube.CoreV1().Pods(namespace).Create(ctx, p, metav1.CreateOptions{}); err != nil {
		return "", fmt.Errorf("creating a pod: %w", err)
	}
	_, err = b.wait(ctx, namespace, p.Name, corev1.PodRunning, corev1.PodSucceeded)
	return p.Name, err
}

func (b *bench) wait(ctx context.Context, namespace, name string, phases ...corev1.PodPhase) (p *corev1.Pod, err error) {
	err = framework.Eventually(ctx, patience, fmt.Sprintf("pod %q to be one of %v", name, phases), func(ctx context.Context) (err error) {
		if p, err = b.cluster.Kube.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{}); err != nil {
			return err
		}
		if slices.Contains(phases, p.Status.Phase) {
			return nil
		}
		if p.Status.Phase == corev1.PodFailed {
			return framework.Permanent(fmt.Errorf("it failed: %s", said(p)))
		}
		return fmt.Errorf("it is %s", p.Status.Phase)
	})
	return p, err
}

// end waits until a pod has ended, and returns what its containers report.
func (b *bench) end(ctx context.Context, namespace, name string) ([]report, error) {
	p, err := b.wait(ctx, namespace, name, corev1.PodSucceeded)
	if err != nil {
		return nil, err
	}
	reports := make([]report, len(p.Status.ContainerStatuses))
	for i, status := range p.Status.ContainerStatuses {
		if err := json.Unmarshal([]byte(status.State.Terminated.Message), &reports[i]); err != nil {
			return nil, fmt.Errorf("reading what container %q of pod %q reports: %w: %q", status.Name, name, err, status.State.Terminated.Message)
		}
	}
	return reports, nil
}

func said(p *corev1.Pod) (text string) {
	for _, status := range p.Status.ContainerStatuses {
		if end := status.State.Terminated; end != nil {
			text += fmt.Sprintf("%s: %d %s; ", status.Name, end.ExitCode, end.Message)
		}
	}
	return text
}

// print has one container print, and returns what it reports.
func (b *bench) print(ctx context.Context, namespace string, what printing) (name string, r report, err error) {
	if name, err = b.start(ctx, namespace, what); err != nil {
		return name, r, err
	}
	reports, err := b.end(ctx, namespace, name)
	if err != nil {
		return name, r, err
	}
	return name, reports[0], nil
}

// dropped is how many bytes the log service knows to be lost of a pod's stdout, once
// that is complete.
func (b *bench) dropped(ctx context.Context, namespace, name string) (lost int64, err error) {
	root := "/apis/" + endpoint.Group + "/" + endpoint.Version + "/namespaces/" + namespace + "/logs"
	err = framework.Eventually(ctx, time.Minute, "the log of pod "+name+" to be complete", func(ctx context.Context) error {
		var list struct{ Logs []struct{ ID, Name string } }
		raw, err := b.cluster.Kube.Discovery().RESTClient().Get().AbsPath(root).Param("pod", name).DoRaw(ctx)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(raw, &list); err != nil {
			return err
		}
		for _, stream := range list.Logs {
			if stream.Name != "stdout" {
				continue
			}
			raw, err := b.cluster.Kube.Discovery().RESTClient().Get().AbsPath(root + "/" + stream.ID).DoRaw(ctx)
			if err != nil {
				return err
			}
			var state struct {
				Dropped  []string
				Complete bool
			}
			if err := json.Unmarshal(raw, &state); err != nil {
				return err
			}
			if !state.Complete {
				return fmt.Errorf("stream %s isn't", stream.ID)
			}
			lost, err = length(state.Dropped)
			return err
		}
		return fmt.Errorf("there is no stdout among %v", list.Logs)
	})
	return lost, err
}

// length is how many bytes are in ranges.
func length(ranges []string) (bytes int64, _ error) {
	for _, r := range ranges {
		var first, last int64
		if _, err := fmt.Sscanf(r, "%d-%d", &first, &last); err != nil {
			return 0, fmt.Errorf("reading the range %q: %w", r, err)
		}
		bytes += last - first + 1
	}
	return bytes, nil
}

// serviceThere has the log service run, or not.
func (b *bench) serviceThere(ctx context.Context, there bool) error {
	if there {
		if err := b.cluster.Scale(ctx, endpoint.Namespace, framework.LogService, 1); err != nil {
			return err
		}
		_, err := b.cluster.LogServicePod(ctx)
		return err
	}
	if err := b.cluster.Scale(ctx, endpoint.Namespace, framework.LogService, 0); err != nil {
		return err
	}
	return framework.Eventually(ctx, patience, "the log service to be gone", func(ctx context.Context) error {
		list, err := b.cluster.Kube.CoreV1().Pods(endpoint.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=" + framework.LogService})
		if err == nil && len(list.Items) > 0 {
			err = fmt.Errorf("there are %d pods", len(list.Items))
		}
		return err
	})
}
