// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && slow

package e2e

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A node has room for about a hundred pods, so that most of them wait for others.
func TestTwoHundredTaskRunsAtOnceBeginOnceAllOfTheirStepsHaveStarted(t *testing.T) {
	namespace := optedInNamespace(t)
	const runs, clients = 200, 10
	names := make(chan string, runs)
	for n := range runs {
		names <- fmt.Sprint("run-", n)
	}
	close(names)
	errs := make(chan error, runs)
	var group sync.WaitGroup
	for range clients {
		group.Go(func() {
			for name := range names {
				run := chain(t, name, 2)
				run.Spec.TaskSpec.Steps[0] = script("first", `[ -s /tekton/downward/ready ] && exec touch /order/1
if [ -e /tekton/run/0/entrypointer-started ] && [ -e /tekton/run/1/entrypointer-started ]; then exec touch /order/1 /order/early; fi
echo "started before the others"; exit 9`)
				last := &run.Spec.TaskSpec.Steps[1]
				last.Command[2] += "; [ ! -e /order/early ] || echo early"
				_, err := cluster.Tekton.TektonV1().TaskRuns(namespace).Create(t.Context(), run, metav1.CreateOptions{})
				errs <- err
			}
		})
	}
	group.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
	early := 0
	for n := range runs {
		name := fmt.Sprint("run-", n)
		got := outcomeIn(t, namespace, name)
		require.Equal(t, corev1.ConditionTrue, got.Succeeded, "%s: %+v", name, got)
		if logs(t, namespace, podOfTaskRun(t, namespace, name).Name, "step-2") == "early\n" {
			early++
		}
	}
	t.Logf("%d of %d began before Tekton said so", early, runs)
	require.Positive(t, early)
}
