// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"

	"github.com/entrypointer/entrypointer/internal/logs/endpoint"
	"github.com/entrypointer/entrypointer/pkg/pod"
	"github.com/entrypointer/entrypointer/test/framework"
)

// logsNamespace is a namespace whose pods send their output, and a token of
// somebody who may read it.
func logsNamespace(t *testing.T, mode string) (namespace, token string) {
	t.Helper()
	namespace = newNamespace(t, map[string]string{pod.InjectAnnotation: "true", "entrypointer.dev/logs": mode}).Name
	return namespace, reader(t, namespace, "may", true)
}

// pointsTo is the only line of the cluster's log of a container that sends its output.
func pointsTo(namespace, pod, container string) string {
	return fmt.Sprintf("entrypointer: the output is at the log service: kubectl entrypointer logs -n %s pod/%s -c %s\n", namespace, pod, container)
}

// A storedLog is a stream that the service has of a container.
type storedLog struct{ ID, Name, Container, Start string }

// stored are the streams of a pod, once each of these containers has sent the ends
// of both.
func (c *logClient) stored(token, namespace, podName string, containers ...string) map[string]string {
	c.t.Helper()
	texts := map[string]string{}
	eventually(c.t, 30*time.Second, "the logs of pod "+podName, func() error {
		clear(texts)
		status, answer, err := c.try(http.MethodGet, fmt.Sprintf("/logs?namespace=%s&pod=%s", namespace, podName), token, "")
		if err != nil || status != http.StatusOK {
			return fmt.Errorf("%d: %s: %w", status, answer, err)
		}
		var list struct{ Logs []storedLog }
		if err := json.Unmarshal([]byte(answer), &list); err != nil {
			return err
		}
		for _, log := range list.Logs {
			status, answer := c.do(http.MethodGet, "/logs/"+log.ID, token, "")
			require.Equal(c.t, http.StatusOK, status, answer)
			if !strings.Contains(answer, `"complete":true`) {
				return fmt.Errorf("%s of container %s isn't complete: %s", log.Name, log.Container, answer)
			}
			texts[log.Container+" "+log.Name] += c.text("/logs/"+log.ID, token)
		}
		for _, container := range containers {
			if _, there := texts[container+" stdout"]; !there {
				return fmt.Errorf("there is none of container %s among %v", container, list.Logs)
			}
		}
		return nil
	})
	return texts
}

func TestTheTerminationMessageOfAFailureIsTheMaskedEndOfTheOutputThatTheClustersLogLacks(t *testing.T) {
	t.Parallel()
	namespace, _ := logsNamespace(t, "stream")
	_, err := cluster.Kube.CoreV1().Secrets(namespace).Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "s"}, StringData: map[string]string{"password": "correct-horse"},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	p := askingPod("fails", busybox(t, "main", "sh", "-c", `echo "the password $PASSWORD is wrong" >&2; exit 4`))
	p.Spec.Containers[0].TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
	p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "PASSWORD", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}, Key: "password"}}}}
	createPod(t, namespace, p)
	end := ended(t, waitUntilDone(t, namespace, "fails"), "main")
	require.Equal(t, int32(4), end.ExitCode)
	require.Equal(t, "the password ************* is wrong\n", end.Message)
}

func TestWhatAPodPrintsIsReadAfterItIsGoneWithItsSecretsMasked(t *testing.T) {
	t.Parallel()
	service := logService(t)
	namespace, token := logsNamespace(t, "stream")
	_, err := cluster.Kube.CoreV1().Secrets(namespace).Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "s"}, StringData: map[string]string{"password": "correct-horse", "key": "battery-staple", "WHOLE": "open-sesame"},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	p := askingPod("prints", busybox(t, "main", "sh", "-c", `echo "the password is $PASSWORD, and $WHOLE"; cat /secret/key >&2; cat /entrypointer/token/token; exit 4`))
	p.Spec.Volumes = []corev1.Volume{{Name: "s", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s"}}}}
	p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "s", MountPath: "/secret"}}
	p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "PASSWORD", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}, Key: "password"}}}}
	p.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}}}}
	// The kubelet gives to the user of the pod what nobody else may read.
	user := int64(1000)
	p.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: &user, FSGroup: &user}
	createPod(t, namespace, p)
	done := waitUntilDone(t, namespace, "prints")
	require.Equal(t, int32(4), done.Status.ContainerStatuses[0].State.Terminated.ExitCode)
	require.Equal(t, pointsTo(namespace, "prints", "main"), logs(t, namespace, "prints", "main"), "the cluster's log has none of it")
	deletePod(t, namespace, "prints")

	texts := service.stored(token, namespace, "prints", "main")
	first, rest, _ := strings.Cut(texts["main stdout"], "\n")
	require.Equal(t, "the password is *************, and ***********", first)
	require.NotEmpty(t, rest)
	require.Empty(t, strings.Trim(rest, "*"), "the token by which it writes")
	require.Equal(t, "**************", texts["main stderr"])
}

// The file is no Secret, and no volume of the container has it.
func TestWhatAnInitContainerFetchedForAVariableIsMasked(t *testing.T) {
	t.Parallel()
	needsFeature(t, "EnvFiles")
	service := logService(t)
	namespace, token := logsNamespace(t, "stream")
	p := askingPod("fetched", busybox(t, "main", "sh", "-c", `echo "the password is $PASSWORD"; ls /fetched`))
	p.Spec.Volumes = []corev1.Volume{{Name: "fetched", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	fetch := busybox(t, "fetch", "sh", "-c", `echo "password='correct-horse'" > /fetched/env`)
	fetch.VolumeMounts = []corev1.VolumeMount{{Name: "fetched", MountPath: "/fetched"}}
	p.Spec.InitContainers = []corev1.Container{fetch}
	p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "PASSWORD", ValueFrom: &corev1.EnvVarSource{FileKeyRef: &corev1.FileKeySelector{VolumeName: "fetched", Path: "env", Key: "password"}}}}
	createPod(t, namespace, p)
	waitUntilDone(t, namespace, "fetched")
	texts := service.stored(token, namespace, "fetched", "main")
	require.Equal(t, "the password is *************\n", texts["main stdout"])
	require.Contains(t, texts["main stderr"], "/fetched", "the file isn't there")
}

func TestTheStepsOfATaskRunAreReadAsTheyPrintAndAsTheClusterHasThem(t *testing.T) {
	t.Parallel()
	service := logService(t)
	namespace, token := logsNamespace(t, "tee")
	const lines = `i=0; while [ $i -lt 500 ]; do echo "line $i of $0"; i=$((i+1)); done; echo done >&2`
	meta := metav1.ObjectMeta{Name: "prints", Annotations: map[string]string{"entrypointer.dev/logs-flush-timeout": "2m"}} // on a busy node
	run := &pipelinev1.TaskRun{ObjectMeta: meta, Spec: pipelinev1.TaskRunSpec{TaskSpec: &pipelinev1.TaskSpec{Steps: []pipelinev1.Step{
		{Name: "first", Image: image(t, "busybox:1.37"), Command: []string{"sh", "-c", lines, "first"}},
		{Name: "short", Image: image(t, "busybox:1.37"), Command: []string{"echo", "one line"}},
		{Name: "last", Image: image(t, "busybox:1.37"), Command: []string{"sh", "-c", lines, "last"}},
	}}}}
	ran, p := runTask(t, namespace, run)
	require.Equal(t, corev1.ConditionTrue, ran.Succeeded, ran.Message)
	requireWrapped(t, p, stepContainers(p)...)
	require.NoError(t, cluster.Tekton.TektonV1().TaskRuns(namespace).Delete(t.Context(), "prints", metav1.DeleteOptions{}))

	texts := service.stored(token, namespace, p.Name, "step-first", "step-short", "step-last")
	for _, step := range []string{"first", "last"} {
		require.Equal(t, 500, strings.Count(texts["step-"+step+" stdout"], " of "+step+"\n"))
		require.Equal(t, "done\n", texts["step-"+step+" stderr"])
	}
	for _, step := range ran.Steps {
		// Two streams became one there, in whatever order they came.
		require.Equal(t, sorted(step.Log), sorted(texts[step.Container+" stdout"]+texts[step.Container+" stderr"]), step.Name)
	}
}

func TestAKnativeServicesLogsAreThereWhenItHasScaledToZero(t *testing.T) {
	t.Parallel()
	logService := logService(t)
	namespace, token := logsNamespace(t, "stream")
	service := helloService(t, namespace, func(template *servingv1.RevisionTemplateSpec) {
		template.Annotations = map[string]string{"autoscaling.knative.dev/window": "6s"}
	})
	waitForAnswer(t, service)
	p := servingPod(t, service)
	waitUntilPodIsGone(t, namespace, p.Name)
	texts := logService.stored(token, namespace, p.Name, "user-container")
	require.Contains(t, texts["user-container stderr"]+texts["user-container stdout"], "stopped in order", "what it printed last")
}

// What the containers print meanwhile is in their rings: all of it is stored, and
// nothing twice.
func TestAMinuteWithoutTheLogServiceLosesNothingThatTheRingsHold(t *testing.T) {
	namespace, token := logsNamespace(t, "stream")
	const (
		pods = 8
		away = time.Minute
		// some 100 lines a second
		script = `i=0; until [ -e /tmp/enough ]; do printf 'line %08d\n' $i; i=$((i+1)); [ $((i%10)) = 0 ] && sleep 0.1; done; echo $i >&2`
	)
	for i := range pods {
		createPod(t, namespace, askingPod(fmt.Sprint("prints-", i), busybox(t, "main", "sh", "-c", script)))
	}
	for i := range pods {
		waitUntilRunning(t, namespace, fmt.Sprint("prints-", i))
	}
	require.NoError(t, cluster.Scale(t.Context(), endpoint.Namespace, framework.LogService, 0))
	t.Cleanup(func() { _ = cluster.Scale(t.Context(), endpoint.Namespace, framework.LogService, 1) })
	time.Sleep(away)
	require.NoError(t, cluster.Scale(t.Context(), endpoint.Namespace, framework.LogService, 1))
	service := logService(t)
	for i := range pods {
		name := fmt.Sprint("prints-", i)
		execIn(t, namespace, name, "main", "touch", "/tmp/enough")
		done := waitUntilDone(t, namespace, name)
		require.Zero(t, done.Status.ContainerStatuses[0].State.Terminated.ExitCode)
		texts := service.stored(token, namespace, name, "main")
		lines, err := strconv.Atoi(strings.TrimSpace(texts["main stderr"]))
		require.NoError(t, err)
		require.Greater(t, lines, 10*int(away.Seconds()), "it printed meanwhile")
		var want strings.Builder
		for line := range lines {
			fmt.Fprintf(&want, "line %08d\n", line)
		}
		require.Len(t, texts["main stdout"], want.Len(), name)
		require.Equal(t, want.String(), texts["main stdout"], name)
		service.requireAccounted(token, namespace, name)
	}
}

// requireAccounted wants each byte of a pod's streams to be stored once, and none to
// be dropped or missing.
func (c *logClient) requireAccounted(token, namespace, podName string) {
	c.t.Helper()
	_, answer := c.do(http.MethodGet, fmt.Sprintf("/logs?namespace=%s&pod=%s", namespace, podName), token, "")
	var list struct{ Logs []storedLog }
	require.NoError(c.t, json.Unmarshal([]byte(answer), &list), answer)
	require.Len(c.t, list.Logs, 3, "stdout, stderr and events")
	for _, log := range list.Logs {
		_, answer := c.do(http.MethodGet, "/logs/"+log.ID, token, "")
		var state struct {
			Stored, Dropped, Missing []string
			Total                    int64
		}
		require.NoError(c.t, json.Unmarshal([]byte(answer), &state), answer)
		require.Positive(c.t, state.Total)
		require.Equal(c.t, []string{fmt.Sprintf("0-%d", state.Total-1)}, state.Stored, "%s of %s", log.Name, podName)
		require.Empty(c.t, state.Dropped)
		require.Empty(c.t, state.Missing)
	}
}
