// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"

	"github.com/entrypointer/entrypointer/pkg/pod"
	"github.com/entrypointer/entrypointer/test/framework"
)

const (
	// servicesOf is how many Knative Services a namespace has. Each is asked at most once in
	// the time that it takes to scale to zero, which is some 15 s.
	servicesOf = 3
	// answerLimit is what a Service that scales from zero may take to answer.
	answerLimit = time.Minute
)

// A service is a Knative Service. It answers with the processes that it sees, so its user
// sees whether it is wrapped.
type service struct {
	place place
	known *servingv1.Service
	// idle says that it has no pod, and asked that somebody waits for its answer. An answer
	// came last at the time answered.
	idle, asked bool
	answered    time.Time
}

// services are those of all namespaces.
type services struct {
	mu  sync.Mutex
	all []*service
}

// create makes the Services, and waits until they have scaled to zero.
func (s *services) create(ctx context.Context, cluster *framework.Cluster, spaces [3]string) error {
	image, err := framework.Image(ctx, "ko://github.com/entrypointer/entrypointer/examples/hello")
	if err != nil {
		return err
	}
	group, grouped := errgroup.WithContext(ctx)
	for p, namespace := range spaces {
		for i := range servicesOf {
			made := &service{place: place(p)}
			s.all = append(s.all, made)
			group.Go(func() (err error) {
				made.known, err = createService(grouped, cluster, namespace, fmt.Sprint("hello-", i), image)
				return err
			})
		}
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return framework.Eventually(ctx, 2*time.Minute, "the Knative Services to have scaled to zero", func(ctx context.Context) error {
		for p, namespace := range spaces {
			if err := s.look(ctx, cluster, namespace, place(p)); err != nil {
				return err
			}
		}
		for _, one := range s.all {
			if !one.idle {
				return fmt.Errorf("Knative Service %q in namespace %q has a pod", one.known.Name, one.known.Namespace) //nolint:staticcheck // ST1005: it is its name
			}
		}
		return nil
	})
}

// createService makes a Service, and waits until it answers.
func createService(ctx context.Context, cluster *framework.Cluster, namespace, name, image string) (*servingv1.Service, error) {
	made := &servingv1.Service{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}}
	made.Spec.Template.Spec.Containers = []corev1.Container{{Image: image}}
	if _, err := cluster.Serving.ServingV1().Services(namespace).Create(ctx, made, metav1.CreateOptions{}); err != nil {
		return nil, fmt.Errorf("creating Knative Service %q in namespace %q: %w", name, namespace, err)
	}
	ready, err := cluster.WaitForService(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	// The ingress may hear of a route a moment later.
	return ready, framework.Eventually(ctx, time.Minute, "an answer of the Service", func(ctx context.Context) error {
		_, err := cluster.Ask(ctx, ready, "/")
		return err
	})
}

// look notes which Services of a namespace have no pod, but for those that end.
func (s *services) look(ctx context.Context, cluster *framework.Cluster, namespace string, at place) error {
	began := time.Now()
	pods, err := cluster.Kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: servingServiceLabel})
	if err != nil {
		return fmt.Errorf("listing the pods of Knative Services: %w", err)
	}
	run := map[string]bool{}
	for i := range pods.Items {
		if pods.Items[i].DeletionTimestamp == nil {
			run[pods.Items[i].Labels[servingServiceLabel]] = true
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.all {
		if one.place == at && one.known != nil && !one.asked && began.After(one.answered) {
			one.idle = !run[one.known.Name]
		}
	}
	return nil
}

const servingServiceLabel = "serving.knative.dev/service"

// take returns a Service of a namespace that has no pod, or nil.
func (s *services) take(at place) *service {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.all {
		if one.place == at && one.idle {
			one.idle, one.asked = false, true
			return one
		}
	}
	return nil
}

// errNoTable is that of an answer that doesn't say what runs.
var errNoTable = errors.New("the answer has no PID 1")

// ask sends a request to a Service that was taken, and returns whether what answers is
// wrapped.
func (s *services) ask(ctx context.Context, cluster *framework.Cluster, one *service) (wrapped bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	answer, err := cluster.Ask(ctx, one.known, "/")
	s.mu.Lock()
	one.asked, one.answered = false, time.Now()
	s.mu.Unlock()
	if err != nil {
		return false, err
	}
	_, processes := framework.SplitProcesses(answer)
	first := framework.PID1Command(processes)
	if first == "" {
		return false, fmt.Errorf("%w: %q", errNoTable, answer)
	}
	return strings.HasPrefix(first, pod.EntrypointPath+" "), nil
}
