// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Timeline runs a pod whose containers wait for each other on the cluster that
// KUBECONFIG names, deletes it, and prints when each container was started, became
// ready, was asked to stop, and ended. With -update, it draws docs/order.svg.
package main

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/pkg/pod"
	"github.com/entrypointer/entrypointer/test/framework"
)

//go:embed pod.yaml
var podText []byte

const (
	// patience is what the whole run may take.
	patience = 2 * time.Minute
	// working is how long the pod is left alone when all of it runs.
	working = time.Second
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("timeline: ")
	update := flag.Bool("update", false, "draw docs/order.svg")
	flag.Parse()
	if err := run(*update); err != nil {
		log.Fatal(err)
	}
}

func run(update bool) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	l, err := observe(ctx)
	if err != nil {
		return err
	}
	fmt.Print(l)
	if !update {
		return nil
	}
	top, err := framework.RepositoryRoot()
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(top, "docs/order.svg"), []byte(draw(l)), 0o644)
}

// A life is what was seen of one container. A time is zero if that didn't happen.
type life struct {
	container                                string
	waiting, started, ready, stopping, ended time.Time
}

// A timeline is what was seen of a pod.
type timeline struct {
	lives   []life
	deleted time.Time
}

// begin and end are those of all that was seen.
func (l timeline) begin() time.Time {
	first := l.deleted
	for _, c := range l.lives {
		for _, at := range []time.Time{c.waiting, c.started} {
			if !at.IsZero() && at.Before(first) {
				first = at
			}
		}
	}
	return first
}

func (l timeline) end() time.Time {
	last := l.deleted
	for _, c := range l.lives {
		if c.ended.After(last) {
			last = c.ended
		}
	}
	return last
}

// String has a line for each container, in seconds since the first began.
func (l timeline) String() string {
	var b strings.Builder
	since := func(at time.Time) string {
		if at.IsZero() {
			return "-"
		}
		return fmt.Sprintf("%.3f", at.Sub(l.begin()).Seconds())
	}
	for _, c := range l.lives {
		fmt.Fprintf(&b, "%-8s waits %s, started %s, ready %s, stopping %s, ended %s\n",
			c.container, since(c.waiting), since(c.started), since(c.ready), since(c.stopping), since(c.ended))
	}
	fmt.Fprintf(&b, "the pod was deleted at %s\n", since(l.deleted))
	return b.String()
}

// readPod is the pod to run.
func readPod(ctx context.Context) (*corev1.Pod, error) {
	objects, err := framework.Decode(podText)
	if err != nil {
		return nil, err
	}
	p, err := framework.Typed[corev1.Pod](objects[0])
	if err != nil {
		return nil, err
	}
	for i := range p.Spec.Containers {
		c := &p.Spec.Containers[i]
		if c.Image, err = framework.Image(ctx, c.Image); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// observe runs the pod.
func observe(ctx context.Context) (l timeline, err error) {
	cluster, err := framework.Connect()
	if err != nil {
		return l, err
	}
	if err := cluster.WaitForInjector(ctx); err != nil {
		return l, err
	}
	namespace, err := cluster.NewNamespace(ctx, "timeline-", map[string]string{pod.InjectAnnotation: "true"})
	if err != nil {
		return l, err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		_ = cluster.Kube.CoreV1().Namespaces().Delete(ctx, namespace, metav1.DeleteOptions{})
	}()
	wanted, err := readPod(ctx)
	if err != nil {
		return l, err
	}
	p, err := cluster.Kube.CoreV1().Pods(namespace).Create(ctx, wanted, metav1.CreateOptions{})
	if err != nil {
		return l, fmt.Errorf("creating the pod: %w", err)
	}
	for _, c := range p.Spec.Containers {
		l.lives = append(l.lives, life{container: c.Name})
	}
	o := observation{cluster: cluster, pod: p}
	for i := range l.lives {
		if err := o.awaitWaiting(ctx, &l.lives[i]); err != nil {
			return l, err
		}
	}
	followed := make(chan error, len(l.lives))
	for i := range l.lives {
		go func() { followed <- o.follow(ctx, &l.lives[i]) }()
	}
	if err := o.awaitReady(ctx); err != nil {
		return l, err
	}
	time.Sleep(working)
	l.deleted = time.Now()
	if err := cluster.Kube.CoreV1().Pods(namespace).Delete(ctx, p.Name, metav1.DeleteOptions{}); err != nil {
		return l, fmt.Errorf("deleting the pod: %w", err)
	}
	for range l.lives {
		err = errors.Join(err, <-followed)
	}
	return l, err
}

// An observation is of one pod.
type observation struct {
	cluster *framework.Cluster
	pod     *corev1.Pod
}

// awaitWaiting asks the supervisor of a container since when it waits, if it depends on
// others.
func (o observation) awaitWaiting(ctx context.Context, l *life) error {
	if o.pod.Annotations["depends-on.entrypointer.dev/"+l.container] == "" {
		return nil
	}
	return framework.Eventually(ctx, patience, "container "+l.container+" to wait", func(ctx context.Context) error {
		said, err := o.cluster.Exec(ctx, o.pod.Namespace, o.pod.Name, l.container, pod.EntrypointPath, "status")
		if err != nil {
			return err
		}
		var status struct {
			Phase        string    `json:"phase"`
			WaitingSince time.Time `json:"waitingSince"`
		}
		if err := json.Unmarshal([]byte(said), &status); err != nil {
			return err
		}
		if status.WaitingSince.IsZero() {
			return fmt.Errorf("it is %q", status.Phase)
		}
		l.waiting = status.WaitingSince
		return nil
	})
}

// awaitReady waits for the word of the last container of the order.
func (o observation) awaitReady(ctx context.Context) error {
	return framework.Eventually(ctx, patience, "container web to be ready", func(ctx context.Context) error {
		said, err := o.cluster.Logs(ctx, o.pod.Namespace, o.pod.Name, "web")
		if err == nil && !strings.Contains(said, "ready\n") {
			err = fmt.Errorf("it says %q", said)
		}
		return err
	})
}

// follow notes when a container has said what, by the clock of the node's runtime, until
// it has ended.
func (o observation) follow(ctx context.Context, l *life) error {
	stream, err := o.cluster.Kube.CoreV1().Pods(o.pod.Namespace).GetLogs(o.pod.Name,
		&corev1.PodLogOptions{Container: l.container, Follow: true, Timestamps: true}).Stream(ctx)
	if err != nil {
		return fmt.Errorf("following container %q: %w", l.container, err)
	}
	defer stream.Close()
	lines := bufio.NewScanner(stream)
	for lines.Scan() {
		at, word, _ := strings.Cut(lines.Text(), " ")
		when, err := time.Parse(time.RFC3339Nano, at)
		if err != nil {
			return fmt.Errorf("reading the log of container %q: %w", l.container, err)
		}
		switch word {
		case "started":
			l.started = when
		case "ready":
			l.ready = when
		case "stopping":
			l.stopping = when
		case "ended":
			l.ended = when
		}
	}
	if l.started.IsZero() || l.ended.IsZero() {
		return errors.Join(fmt.Errorf("container %q didn't say that it was started and has ended", l.container), lines.Err())
	}
	return lines.Err()
}
