// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/util/retry"

	"github.com/entrypointer/entrypointer/internal/logs/endpoint"
	"github.com/entrypointer/entrypointer/test/framework"
	"github.com/entrypointer/entrypointer/test/koimage"
)

// moduleImage builds the image of a program of the module in a directory of the repository.
func moduleImage(t *testing.T, module, program string) string {
	t.Helper()
	top, err := framework.RepositoryRoot()
	require.NoError(t, err)
	return koimage.Build(t, filepath.Join(top, filepath.FromSlash(module)), program)
}

// s3Bucket starts a server of S3 in a namespace of its own, and returns its bucket's URL.
func s3Bucket(t *testing.T) string {
	t.Helper()
	namespace := plainNamespace(t)
	server := plainPod("s3", corev1.Container{
		Name: "s3", Image: moduleImage(t, "test/stores/versitygw", "."),
		Args:           []string{"-listen", ":7070", "-directory", "/data", "-access", "access", "-secret", "secret"},
		VolumeMounts:   []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
		ReadinessProbe: &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(7070)}}},
	})
	group := int64(65532)
	server.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: &group}
	server.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	return "s3://logs?region=us-east-1&use_path_style=true&endpoint=http://" + startServer(t, namespace, server) + ":7070"
}

// startServer creates a pod, waits until its container is ready, and returns its address.
func startServer(t *testing.T, namespace string, server *corev1.Pod) (address string) {
	t.Helper()
	createPod(t, namespace, server)
	waitUntilRunning(t, namespace, server.Name)
	eventually(t, 2*time.Minute, "pod "+server.Name+" to be ready", func() error {
		p, err := cluster.Kube.CoreV1().Pods(namespace).Get(t.Context(), server.Name, metav1.GetOptions{})
		if err == nil && (len(p.Status.ContainerStatuses) == 0 || !p.Status.ContainerStatuses[0].Ready) {
			err = fmt.Errorf("its container isn't")
		}
		if err == nil {
			address = p.Status.PodIP
		}
		return err
	})
	return address
}

// changeLogService changes how the log service is deployed, and waits until it is.
func changeLogService(ctx context.Context, change func(*appsv1.DeploymentSpec)) error {
	deployments := cluster.Kube.AppsV1().Deployments(endpoint.Namespace)
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		deployment, err := deployments.Get(ctx, framework.LogService, metav1.GetOptions{})
		if err == nil {
			change(&deployment.Spec)
			_, err = deployments.Update(ctx, deployment, metav1.UpdateOptions{})
		}
		return err
	})
	if err != nil {
		return err
	}
	return cluster.WaitForDeployment(ctx, endpoint.Namespace, framework.LogService)
}

// logServiceOn has the log service be replicas on a bucket until the end of the test.
func logServiceOn(t *testing.T, bucket string, replicas int32) {
	t.Helper()
	logServiceWith(t, func(spec *appsv1.DeploymentSpec) {
		pod := &spec.Template.Spec
		container := &pod.Containers[0]
		require.Equal(t, "-directory", container.Args[0])
		container.Args[0], container.Args[1] = "-bucket", bucket
		container.Env = append(container.Env, corev1.EnvVar{Name: "AWS_ACCESS_KEY_ID", Value: "access"}, corev1.EnvVar{Name: "AWS_SECRET_ACCESS_KEY", Value: "secret"})
		pod.Volumes, container.VolumeMounts = nil, nil
		spec.Replicas, spec.Strategy = &replicas, appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType}
	})
}

// logServiceWith changes how the log service is deployed until the end of the test.
func logServiceWith(t *testing.T, change func(*appsv1.DeploymentSpec)) {
	t.Helper()
	deployment, err := cluster.Kube.AppsV1().Deployments(endpoint.Namespace).Get(t.Context(), framework.LogService, metav1.GetOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
		defer cancel()
		require.NoError(t, changeLogService(ctx, func(spec *appsv1.DeploymentSpec) { *spec = deployment.Spec }))
		_, err := cluster.LogServicePod(ctx)
		require.NoError(t, err)
	})
	require.NoError(t, changeLogService(t.Context(), change))
}

// ask reads from the log service through the API server.
func ask(ctx context.Context, path string) ([]byte, error) {
	return cluster.Kube.CoreV1().RESTClient().Get().RequestURI("/apis/logs.entrypointer.dev/v1alpha1/namespaces/" + path).DoRaw(ctx)
}

// requireWhole waits until all streams of a pod are complete, and looks whether that
// of each container has its text.
func requireWhole(t *testing.T, namespace, podName string, texts map[string]string) {
	t.Helper()
	var list struct{ Logs []storedLog }
	eventually(t, time.Minute, "the logs of pod "+podName, func() error {
		answer, err := ask(t.Context(), namespace+"/logs?pod="+podName)
		if err == nil {
			err = json.Unmarshal(answer, &list)
		}
		if err == nil && len(list.Logs) != 3*len(texts) {
			err = fmt.Errorf("there are %d streams", len(list.Logs))
		}
		return err
	})
	for _, log := range list.Logs {
		var state struct {
			Stored, Dropped, Missing []string
			Total                    int64
			Complete                 bool
		}
		eventually(t, time.Minute, log.Name+" of "+log.Container+" to be complete", func() error {
			answer, err := ask(t.Context(), namespace+"/logs/"+log.ID)
			if err == nil {
				err = json.Unmarshal(answer, &state)
			}
			if err == nil && !state.Complete {
				err = fmt.Errorf("it is %s", answer)
			}
			return err
		})
		require.Empty(t, append(state.Dropped, state.Missing...), "%s of %s of %s", log.Name, log.Container, podName)
		require.Equal(t, log.Name == "stderr", state.Total == 0, "%s has %d bytes", log.Name, state.Total)
		if log.Name != "stdout" {
			continue
		}
		text := texts[log.Container]
		require.Equal(t, []string{fmt.Sprintf("0-%d", len(text)-1)}, state.Stored)
		require.Equal(t, int64(len(text)), state.Total)
		answer, err := ask(t.Context(), namespace+"/logs/"+log.ID+"/data")
		require.NoError(t, err)
		require.Equal(t, text, string(answer), "%s of %s", log.Container, podName)
	}
}

// It takes the log service of the whole cluster, so it isn't parallel.
func TestNoLineIsLostWhileThreeReplicasOnS3AreUpgraded(t *testing.T) {
	logServiceOn(t, s3Bucket(t), 3)
	namespace, _ := logsNamespace(t, "stream")
	const pods = 10
	names := make([]string, pods)
	for n := range names {
		names[n] = fmt.Sprint("prints-", n)
		createPod(t, namespace, printsUntilTold(t, names[n]))
	}
	for _, name := range names {
		waitUntilRunning(t, namespace, name)
	}
	began := time.Now()
	require.NoError(t, changeLogService(t.Context(), func(spec *appsv1.DeploymentSpec) {
		if spec.Template.Annotations == nil {
			spec.Template.Annotations = map[string]string{}
		}
		spec.Template.Annotations["kubectl.kubernetes.io/restartedAt"] = began.Format(time.RFC3339)
	}))
	list, err := cluster.Kube.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "status.phase=Running"})
	require.NoError(t, err)
	t.Logf("the upgrade took %v; %d of %d pods still printed", time.Since(began), len(list.Items), pods)
	require.Len(t, list.Items, pods, "pods print during all of it")
	for _, name := range names {
		execIn(t, namespace, name, "c0", "touch", "/told/enough")
	}
	texts := make([]map[string]string, pods)
	for n, name := range names {
		texts[n] = printedUntilTold(t, namespace, name)
	}
	for n, name := range names {
		requireWhole(t, namespace, name, texts[n])
	}
}

// printsUntilTold is a pod of four containers that print ten lines every two seconds
// until there is a file /told/enough. Then each has 10 s to send what is left.
func printsUntilTold(t *testing.T, name string) *corev1.Pod {
	t.Helper()
	const prints = `n=0; until [ -e /told/enough ]; do for i in 0 1 2 3 4 5 6 7 8 9; do echo "time $n line $i"; done; n=$((n+1)); sleep 2; done; echo $n >/dev/termination-log`
	p := askingPod(name)
	grace := int64(30)
	p.Spec.TerminationGracePeriodSeconds = &grace
	p.Spec.Volumes = []corev1.Volume{{Name: "told", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	for n := range 4 {
		c := busybox(t, fmt.Sprint("c", n), "sh", "-c", prints)
		c.VolumeMounts = []corev1.VolumeMount{{Name: "told", MountPath: "/told"}}
		p.Spec.Containers = append(p.Spec.Containers, c)
	}
	return p
}

// printedUntilTold waits until such a pod is done, and returns what each of its
// containers has printed.
func printedUntilTold(t *testing.T, namespace, name string) map[string]string {
	t.Helper()
	done := waitUntilDone(t, namespace, name)
	require.Equal(t, corev1.PodSucceeded, done.Status.Phase)
	texts := map[string]string{}
	for _, s := range done.Status.ContainerStatuses {
		times, err := strconv.Atoi(strings.TrimSpace(s.State.Terminated.Message))
		require.NoError(t, err)
		var text strings.Builder
		for n := range times {
			for i := range 10 {
				_, _ = fmt.Fprintf(&text, "time %d line %d\n", n, i)
			}
		}
		texts[s.Name] = text.String()
	}
	return texts
}
