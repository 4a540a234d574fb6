//go:build outage

// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package outage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BenchmarkAPod creates pods of TaskRuns in namespaces without admission, with the policy,
// with a webhook that asks pkg/pod on this machine, with both, and with a webhook that is
// asked only about pods that the policy leaves. ms is the median of the creations, and
// cpu-ms the processor time of the API server for each.
func BenchmarkAPod(b *testing.B) {
	s := startAPIServer(b)
	_, client := webhook(b)
	optedIn := map[string]string{"entrypointer.dev/inject": "true"}
	s.namespace(b, "none", nil, nil, "default")
	s.namespace(b, "policy", optedIn, optIn(), "default")
	s.namespace(b, "webhook", map[string]string{"webhook": "always"}, optIn(), "default")
	s.namespace(b, "both", map[string]string{"webhook": "always", "entrypointer.dev/inject": "true"}, optIn(), "default")
	s.namespace(b, "rest", map[string]string{"webhook": "rest", "entrypointer.dev/inject": "true"}, optIn(), "default")
	s.callWebhook(b, "always", admissionregistrationv1.Fail, client)
	s.callWebhook(b, "rest", admissionregistrationv1.Fail, client, notByPolicy)
	start, used := time.Now(), cpu(b, s.pid)
	s.installWrap(b)
	for _, namespace := range []string{"policy", "webhook", "both", "rest"} {
		eventually(b, "pods are wrapped in "+namespace, func(ctx context.Context) error {
			made, err := s.dryRun(ctx, b, namespace, taskRunPod(1))
			if err == nil && !isWrapped(made) {
				err = errors.New("unwrapped")
			}
			return err
		})
	}
	b.Logf("in force after %v, and %d0 ms of processor time", time.Since(start), cpu(b, s.pid)-used)
	for _, steps := range []int{1, 3, 10, 30, 100} {
		for _, namespace := range []string{"none", "policy", "webhook", "both", "rest"} {
			b.Run(fmt.Sprintf("steps=%d/%s", steps, namespace), func(b *testing.B) {
				took := make([]time.Duration, 0, b.N)
				used := cpu(b, s.pid)
				for b.Loop() {
					start := time.Now()
					made, err := s.CoreV1().Pods(namespace).Create(b.Context(), taskRunPod(steps), metav1.CreateOptions{})
					took = append(took, time.Since(start))
					require.NoError(b, err)
					require.Equal(b, namespace != "none", isWrapped(made))
				}
				slices.Sort(took)
				b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms")
				b.ReportMetric(float64(cpu(b, s.pid)-used)*10/float64(len(took)), "cpu-ms")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}
