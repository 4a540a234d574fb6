// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/test/framework"
)

// admissions asks, over and over, what would become of a pod.
type admissions struct {
	t       *testing.T
	cancel  context.CancelFunc
	workers sync.WaitGroup

	mu       sync.Mutex
	admitted int
	refusals []string
}

func admitSteadily(t *testing.T, namespace string) *admissions {
	t.Helper()
	const atOnce, pause = 4, 50 * time.Millisecond
	p := askingPod("steady", busybox(t, "main", "true"))
	ctx, cancel := context.WithCancel(t.Context())
	a := &admissions{t: t, cancel: cancel}
	for range atOnce {
		a.workers.Go(func() {
			for ctx.Err() == nil {
				// Not the context that ends: a request that is cut short is no refusal. A
				// pod of its own: the client writes to it.
				created, err := cluster.Kube.CoreV1().Pods(namespace).Create(t.Context(), p.DeepCopy(), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
				a.count(created, err)
				time.Sleep(pause)
			}
		})
	}
	return a
}

func (a *admissions) count(created *corev1.Pod, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case err != nil:
		a.refusals = append(a.refusals, err.Error())
	case framework.CheckNotWrapped(created) == nil:
		a.refusals = append(a.refusals, "a pod would run unwrapped")
	default:
		a.admitted++
	}
}

// stop returns how many pods were admitted, and why others weren't.
func (a *admissions) stop() (admitted int, refusals []string) {
	a.cancel()
	a.workers.Wait()
	return a.admitted, a.refusals
}

func TestARolloutUnderSteadyAdmissionsRefusesNobody(t *testing.T) {
	namespace := optedInNamespace(t)
	before, err := cluster.InjectorPods(t.Context())
	require.NoError(t, err)
	replaced := map[string]bool{}
	for i := range before {
		replaced[before[i].Name] = true
	}
	ends := watchPods(t, framework.SystemNamespace, func(p *corev1.Pod) error {
		for _, s := range p.Status.ContainerStatuses {
			if ended := s.State.Terminated; ended != nil && ended.ExitCode != 0 && replaced[p.Name] {
				return fmt.Errorf("pod %q ended with code %d", p.Name, ended.ExitCode)
			}
		}
		return nil
	})
	steady := admitSteadily(t, namespace)
	_, err = framework.Run(t.Context(), "kubectl", "-n", framework.SystemNamespace, "rollout", "restart", "deployment/"+framework.Injector)
	require.NoError(t, err)
	require.NoError(t, cluster.WaitForDeployment(t.Context(), framework.SystemNamespace, framework.Injector))
	eventually(t, 3*time.Minute, "the former replicas to be gone", func() error {
		now, err := cluster.InjectorPods(t.Context())
		for i := range now {
			if replaced[now[i].Name] {
				return fmt.Errorf("pod %q is there", now[i].Name)
			}
		}
		return err
	})
	admitted, refusals := steady.stop()
	ends.stop()
	t.Logf("%d pods were admitted meanwhile", admitted)
	require.Empty(t, refusals)
	require.Greater(t, admitted, 100)
}
