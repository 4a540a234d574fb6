// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

// eventsOf are the events of a namespace that a component has written.
func eventsOf(t *testing.T, namespace, component string) []corev1.Event {
	t.Helper()
	events, err := cluster.Kube.CoreV1().Events(namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "source=" + component})
	require.NoError(t, err)
	return events.Items
}

func waitForEvents(t *testing.T, namespace, component string) {
	t.Helper()
	eventually(t, time.Minute, "an event of "+component, func() error {
		if len(eventsOf(t, namespace, component)) == 0 {
			return errors.New("there is none")
		}
		return nil
	})
}

// The pods reach both replicas of the injector, and each replica may be asked twice.
func TestAWarningIsOneEventOfTheOneThatWantedThePods(t *testing.T) {
	t.Parallel()
	deployments, taskRuns := optedInNamespace(t), optedInNamespace(t)
	const misspelt = "entrypointer.dev/tiemout"

	d := clockDeployment(t, "misspelt", 4)
	d.Spec.Template.Annotations[misspelt] = "1h"
	createDeployment(t, deployments, d)
	require.NoError(t, cluster.WaitForDeployment(t.Context(), deployments, d.Name))
	waitForEvents(t, deployments, "entrypointer")

	run := taskRun("misspelt", pipelinev1.TaskSpec{Steps: []pipelinev1.Step{{Name: "only", Image: image(t, "busybox:1.37"), Command: []string{"true"}}}})
	run.Annotations = map[string]string{misspelt: "1h"}
	_, wrapped := runTask(t, taskRuns, run)
	requireWrapped(t, wrapped, "step-only")
	waitForEvents(t, taskRuns, "entrypointer")

	for namespace, kind := range map[string]string{deployments: "ReplicaSet", taskRuns: "TaskRun"} {
		events := eventsOf(t, namespace, "entrypointer")
		require.Len(t, events, 1, kind)
		require.Equal(t, kind, events[0].InvolvedObject.Kind)
		require.Equal(t, string(pod.ReasonUnknownAnnotation), events[0].Reason)
		require.Contains(t, events[0].Message, `did you mean "entrypointer.dev/timeout"?`)
	}
}

func TestARefusalIsAnEventOfTheControllerAndNoneOfOurs(t *testing.T) {
	t.Parallel()
	namespace := optedInNamespace(t)
	d := clockDeployment(t, "refused", 1)
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "main", Image: image(t, "no-such-image-of-entrypointer:1")}}
	createDeployment(t, namespace, d)
	waitForEvents(t, namespace, "replicaset-controller")
	for _, e := range eventsOf(t, namespace, "replicaset-controller") {
		require.Equal(t, "FailedCreate", e.Reason)
		require.Equal(t, "ReplicaSet", e.InvolvedObject.Kind)
		require.Contains(t, e.Message, "set command:")
	}
	require.Empty(t, eventsOf(t, namespace, "entrypointer"))
}

func TestARefusalIsTheMessageOfATaskRunAndNoEventOfOurs(t *testing.T) {
	t.Parallel()
	namespace := optedInNamespace(t)
	run := taskRun("refused", pipelinev1.TaskSpec{Steps: []pipelinev1.Step{{Name: "only", Image: image(t, "busybox:1.37"), Command: []string{"true"}}}})
	run.Annotations = map[string]string{"entrypointer.dev/timeout": "soon"}
	_, err := cluster.Tekton.TektonV1().TaskRuns(namespace).Create(t.Context(), run, metav1.CreateOptions{})
	require.NoError(t, err)
	done, err := cluster.WaitForTaskRun(t.Context(), namespace, run.Name)
	require.NoError(t, err)
	require.Contains(t, done.Status.GetCondition("Succeeded").GetMessage(), `reading annotation entrypointer.dev/timeout: "soon" is wrong`)
	require.Empty(t, eventsOf(t, namespace, "entrypointer"))
}

// Each pod has another owner, as the pods of Jobs do, and the injector warns of each.
func TestTheEventsOfOneTenantKeepOutNoneOfAnother(t *testing.T) {
	t.Parallel()
	flooded, modest := optedInNamespace(t), optedInNamespace(t)
	warnedOf := func(name string) *corev1.Pod {
		p := askingPod(name, busybox(t, "main", "true"))
		p.Annotations["entrypointer.dev/tiemout"] = "1h"
		p.Spec.NodeSelector = map[string]string{"e2e.entrypointer.dev/no-such-node": ""}
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "example.test/v1", Kind: "Example", Name: name, UID: types.UID(name), Controller: new(true)}}
		return p
	}
	const owners, atOnce = 400, 8
	var flood errgroup.Group
	flood.SetLimit(atOnce)
	for i := range owners {
		flood.Go(func() error {
			_, err := cluster.Kube.CoreV1().Pods(flooded).Create(t.Context(), warnedOf(fmt.Sprint("owner-", i)), metav1.CreateOptions{})
			return err
		})
		if i == owners/2 {
			createPod(t, modest, warnedOf("owner"))
		}
	}
	require.NoError(t, flood.Wait())
	waitForEvents(t, modest, "entrypointer")
	require.NotEmpty(t, eventsOf(t, flooded, "entrypointer"))
}
