//go:build outage

// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package outage

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

const injected = "Injected by init-container"

// BenchmarkAPod creates plain pods of TaskRuns: without admission, with the webhook alone,
// with config/outage while the injector leaves pods to wait, while it lets the policy wrap
// them and doesn't respond, and the same while it responds. The injector is pkg/pod on this
// machine. ms is the median of the creations, and cpu-ms the processor time of the API server
// for each.
func BenchmarkAPod(b *testing.B) {
	s := startAPIServer(b)
	s.tenants(b)
	_, alive := webhook(b)
	s.installWebhook(b, alive)
	optedIn := scopes[0]
	s.awaitStatus(b, optedIn, injected)
	s.measure(b, "none", "none", "")
	s.measure(b, "webhook", optedIn, injected)

	s.installOutage(b, "")
	s.awaitMarked(b, optedIn)
	s.measure(b, "wait", optedIn, injected)

	s.callInjector(b, dead(b))
	s.promise(b, copierImage)
	s.awaitStatus(b, optedIn, pod.InjectedByPolicy)
	s.measure(b, "policy", optedIn, pod.InjectedByPolicy)

	s.callInjector(b, alive)
	s.awaitStatus(b, optedIn, injected)
	s.measure(b, "both", optedIn, injected)
}

// measure creates pods that get this status.
func (s *apiServer) measure(b *testing.B, name, namespace, status string) {
	b.Helper()
	for _, steps := range []int{1, 3, 10, 30, 100} {
		b.Run(fmt.Sprintf("steps=%d/%s", steps, name), func(b *testing.B) {
			took := make([]time.Duration, 0, b.N)
			used := cpu(b, s.pid)
			for b.Loop() {
				start := time.Now()
				made, err := s.CoreV1().Pods(namespace).Create(b.Context(), taskRunPod(steps), metav1.CreateOptions{})
				took = append(took, time.Since(start))
				require.NoError(b, err)
				require.Equal(b, status, made.Annotations[pod.StatusAnnotation])
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms")
			b.ReportMetric(float64(cpu(b, s.pid)-used)*10/float64(len(took)), "cpu-ms")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// awaitStatus returns when plain pods get a status.
func (s *apiServer) awaitStatus(t testing.TB, namespace, status string) {
	t.Helper()
	s.await(t, namespace, status, func(p *corev1.Pod) bool { return p.Annotations[pod.StatusAnnotation] == status })
}

// awaitMarked returns when plain pods may wait.
func (s *apiServer) awaitMarked(t testing.TB, namespace string) {
	t.Helper()
	s.await(t, namespace, "waiting", func(p *corev1.Pod) bool { return p.Annotations[pod.MayWaitAnnotation] != "" })
}

func (s *apiServer) await(t testing.TB, namespace, what string, is func(*corev1.Pod) bool) {
	t.Helper()
	eventually(t, "plain pods are "+what, func(ctx context.Context) error {
		made, err := s.dryRun(ctx, t, namespace, taskRunPod(1))
		if err == nil && !is(made) {
			err = fmt.Errorf("one has the annotations %v", made.Annotations)
		}
		return err
	})
}
