// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/entrypointer/entrypointer/pkg/pod"
	"github.com/entrypointer/entrypointer/test/framework"
)

// template is a pod template whose pods are found by the label app.
func template(p *corev1.Pod) corev1.PodTemplateSpec {
	p.Labels = map[string]string{"app": p.Name}
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: p.Labels, Annotations: p.Annotations},
		Spec:       p.Spec,
	}
}

// serving is the template of a workload that runs until it is told to stop.
func serving(t *testing.T, name string) (corev1.PodTemplateSpec, *metav1.LabelSelector) {
	t.Helper()
	p := askingPod(name, busybox(t, "main", forever...))
	p.Spec.RestartPolicy = corev1.RestartPolicyAlways
	made := template(p)
	return made, &metav1.LabelSelector{MatchLabels: made.Labels}
}

// podOfApp waits until a workload has a pod.
func podOfApp(t *testing.T, namespace, app string) (p *corev1.Pod) {
	t.Helper()
	eventually(t, patience, fmt.Sprintf("a pod of %q in namespace %q", app, namespace), func() (err error) {
		p, err = cluster.PodOf(t.Context(), namespace, "app="+app)
		return err
	})
	return p
}

func TestPodsAreWrappedWhoeverMakesThem(t *testing.T) {
	t.Parallel()
	namespace := optedInNamespace(t)
	requireRuns := func(t *testing.T, app, owner string) {
		t.Helper()
		p := podOfApp(t, namespace, app)
		require.Equal(t, owner, metav1.GetControllerOf(p).Kind)
		requireWrapped(t, p, "main")
		waitUntilRunning(t, namespace, p.Name)
		require.Equal(t, pod.EntrypointPath+"\n", execIn(t, namespace, p.Name, "main", "readlink", "/proc/1/exe"))
	}
	requireDone := func(t *testing.T, app string) {
		t.Helper()
		p := podOfApp(t, namespace, app)
		require.Equal(t, "Job", metav1.GetControllerOf(p).Kind)
		requireWrapped(t, p, "main")
		require.Equal(t, corev1.PodSucceeded, waitUntilDone(t, namespace, p.Name).Status.Phase)
		require.Equal(t, pod.EntrypointPath+"\n", logs(t, namespace, p.Name, "main"))
	}
	t.Run("StatefulSet", func(t *testing.T) {
		t.Parallel()
		made, selector := serving(t, "stateful")
		_, err := cluster.Kube.AppsV1().StatefulSets(namespace).Create(t.Context(), &appsv1.StatefulSet{
			ObjectMeta: metav1.ObjectMeta{Name: "stateful"},
			Spec:       appsv1.StatefulSetSpec{Selector: selector, Template: made},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
		requireRuns(t, "stateful", "StatefulSet")
	})
	t.Run("DaemonSet", func(t *testing.T) {
		t.Parallel()
		made, selector := serving(t, "daemon")
		// One node is enough.
		made.Spec.NodeSelector = on(aWorker(t), &corev1.Pod{}).Spec.NodeSelector
		made.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		_, err := cluster.Kube.AppsV1().DaemonSets(namespace).Create(t.Context(), &appsv1.DaemonSet{
			ObjectMeta: metav1.ObjectMeta{Name: "daemon"},
			Spec:       appsv1.DaemonSetSpec{Selector: selector, Template: made},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
		requireRuns(t, "daemon", "DaemonSet")
	})
	t.Run("Job", func(t *testing.T) {
		t.Parallel()
		_, err := cluster.Kube.BatchV1().Jobs(namespace).Create(t.Context(), &batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{Name: "job"},
			Spec:       batchv1.JobSpec{Template: template(askingPod("job", busybox(t, "main", "readlink", "/proc/1/exe")))},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
		requireDone(t, "job")
	})
	t.Run("CronJob", func(t *testing.T) {
		t.Parallel()
		_, err := cluster.Kube.BatchV1().CronJobs(namespace).Create(t.Context(), &batchv1.CronJob{
			ObjectMeta: metav1.ObjectMeta{Name: "cron"},
			Spec: batchv1.CronJobSpec{
				Schedule:          "* * * * *",
				ConcurrencyPolicy: batchv1.ForbidConcurrent,
				JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{
					Template: template(askingPod("cron", busybox(t, "main", "readlink", "/proc/1/exe"))),
				}},
			},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
		requireDone(t, "cron")
	})
}

// A job whose pods fail is tried again, as often as it says.
func TestAJobFailsAsOftenAndAsItDoesUnwrapped(t *testing.T) {
	t.Parallel()
	both := newPair(t)
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "fails"},
		Spec: batchv1.JobSpec{
			BackoffLimit: new(int32(6)),
			// By this, a wrong exit code would be noticed.
			PodFailurePolicy: &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
				Action:      batchv1.PodFailurePolicyActionFailJob,
				OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{ContainerName: new("main"), Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: []int32{42}},
			}}},
			Template: template(askingPod("fails", busybox(t, "main", "sh", "-c", "exit 42"))),
		},
	}
	messages := map[string]string{}
	for _, namespace := range []string{both.plain, both.optedIn} {
		_, err := cluster.Kube.BatchV1().Jobs(namespace).Create(t.Context(), job, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	for _, namespace := range []string{both.plain, both.optedIn} {
		eventually(t, patience, fmt.Sprintf("the Job in namespace %q to have failed", namespace), func() error {
			got, err := cluster.Kube.BatchV1().Jobs(namespace).Get(t.Context(), "fails", metav1.GetOptions{})
			if err != nil {
				return err
			}
			for _, c := range got.Status.Conditions {
				if c.Type == batchv1.JobFailed && c.Status == corev1.ConditionTrue {
					messages[namespace] = fmt.Sprintf("%s after %d failures", c.Reason, got.Status.Failed)
					return nil
				}
			}
			return fmt.Errorf("its conditions are %v", got.Status.Conditions)
		})
	}
	require.Equal(t, "PodFailurePolicy after 1 failures", messages[both.plain])
	require.Equal(t, messages[both.plain], messages[both.optedIn])
}

// When a pod is admitted, it has no name yet if somebody else gives it one.
func TestARefusalNamesWhatItsAuthorKnows(t *testing.T) {
	t.Parallel()
	namespace := optedInNamespace(t)
	missing := corev1.Container{Name: "main", Image: image(t, "no-such-image-of-entrypointer:1")}
	p := askingPod("", missing)
	p.GenerateName = "unnamed-"
	_, err := wouldBecome(t, namespace, p)
	require.ErrorContains(t, err, `pod "unnamed-*"`)

	_, err = cluster.Kube.BatchV1().Jobs(namespace).Create(t.Context(), &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "hopeless"},
		Spec:       batchv1.JobSpec{Template: template(askingPod("hopeless", missing))},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	eventually(t, patience, "an event that says why the Job has no pod", func() error {
		events, err := cluster.Kube.CoreV1().Events(namespace).List(t.Context(), metav1.ListOptions{
			FieldSelector: "involvedObject.kind=Job,involvedObject.name=hopeless,reason=FailedCreate",
		})
		if err != nil {
			return err
		}
		if len(events.Items) == 0 {
			return errors.New("there is none")
		}
		require.Contains(t, events.Items[0].Message, `of Job "hopeless"`)
		require.Contains(t, events.Items[0].Message, "set command:")
		return nil
	})
}

func TestServerSideApplyCreatesAWrappedPod(t *testing.T) {
	t.Parallel()
	namespace := optedInNamespace(t)
	p := askingPod("applied", busybox(t, "main", "sh", "-c", "echo applied"))
	p.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	document, err := json.Marshal(p)
	require.NoError(t, err)
	applied, err := cluster.Kube.CoreV1().Pods(namespace).Patch(t.Context(), p.Name, types.ApplyPatchType, document, metav1.PatchOptions{FieldManager: "somebody"})
	require.NoError(t, err)
	requireWrapped(t, applied, "main")
	require.Equal(t, containerResult{Reason: "Completed", Log: "applied\n"}, ranMain(t, namespace, p.Name))
}

// The kubelet runs a static pod from a file on its node, whatever the API server
// makes of the mirror that it shows there.
func TestTheMirrorOfAStaticPodIsUntouched(t *testing.T) {
	t.Parallel()
	p := askingPod("static", busybox(t, "main", "true"))
	p.Annotations[corev1.MirrorPodAnnotationKey] = "any"
	p.Spec.NodeName = "any"
	seen, err := wouldBecome(t, optedInNamespace(t), p)
	require.NoError(t, err)
	require.NoError(t, framework.CheckNotWrapped(seen))
}
