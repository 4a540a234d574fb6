// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// probing is a probe that fails the first time that it fails.
func probing(command ...string) *corev1.Probe {
	return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: command}}, PeriodSeconds: 1, FailureThreshold: 1}
}

// The dependency takes longer than any of the probes allows: the startupProbe for 8
// seconds, the livenessProbe for one.
func TestAContainerThatWaitsIsKilledByNoneOfItsProbes(t *testing.T) {
	t.Parallel()
	namespace := optedInNamespace(t)
	web := busybox(t, "web", "sh", "-c", "sleep 1; touch /tmp/up; mkdir /www; exec httpd -f -p 8080 -h /www")
	web.StartupProbe = probing("test", "-e", "/tmp/up")
	web.StartupProbe.FailureThreshold = 8
	web.LivenessProbe = probing("test", "-e", "/tmp/up")
	web.ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(8080)}}, PeriodSeconds: 1}
	// It listens at the port of the readinessProbe while web waits.
	db := busybox(t, "db", "sh", "-c", "httpd -f -p 8080 -h / & until test -e /tmp/go; do sleep 1; done; kill $!; wait; touch /tmp/ready; sleep 600")
	p := orderedPod("three-probes", map[string]string{"depends-on/web": "db:ready", "ready-when/db": "file:///tmp/ready"}, web, db)
	p.Labels = map[string]string{"app": "three-probes"}
	createPod(t, namespace, p)
	_, err := cluster.Kube.CoreV1().Services(namespace).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "three-probes"},
		Spec:       corev1.ServiceSpec{Selector: p.Labels, Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)

	p = waitUntilRunning(t, namespace, p.Name)
	saysThatItWaits(t, p, "web", "db:ready") // for ten seconds
	status := containerStatus(t, p, "web")
	require.Zero(t, status.RestartCount)
	require.Equal(t, new(false), status.Started)
	require.False(t, endpoints(t, namespace, "three-probes")[p.Status.PodIP])

	execIn(t, namespace, p.Name, "db", "touch", "/tmp/go")
	eventually(t, patience, "the server to be an endpoint", func() error {
		if all := endpoints(t, namespace, "three-probes"); !all[p.Status.PodIP] {
			return fmt.Errorf("the endpoints are %v", all)
		}
		return nil
	})
	require.Zero(t, containerStatus(t, p, "web").RestartCount)
	require.Contains(t, entrypointIn(t, p, "web", "status"), `"startupProbe":"succeeded"`)
}

func TestAStartupProbeThatFailsAfterAWaitRestartsItsContainer(t *testing.T) {
	t.Parallel()
	namespace := optedInNamespace(t)
	web := busybox(t, "web", "sh", "-c", "sleep 600")
	web.StartupProbe = probing("false")
	web.StartupProbe.FailureThreshold = 2
	p := orderedPod("never-starts", map[string]string{"depends-on/web": "db:started"}, web, busybox(t, "db", "sleep", "600"))
	p.Spec.RestartPolicy = corev1.RestartPolicyAlways
	createPod(t, namespace, p)
	eventually(t, patience, "web to be restarted", func() error {
		got, err := cluster.Kube.CoreV1().Pods(namespace).Get(t.Context(), p.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, s := range got.Status.ContainerStatuses {
			if s.Name == "web" && s.RestartCount > 0 && s.LastTerminationState.Terminated != nil {
				require.Equal(t, int32(143), s.LastTerminationState.Terminated.ExitCode)
				return nil
			}
		}
		return fmt.Errorf("its containers are %v", got.Status.ContainerStatuses)
	})
	eventually(t, patience, "web to say why", func() error {
		said, err := cluster.Kube.CoreV1().Pods(namespace).GetLogs(p.Name, &corev1.PodLogOptions{Container: "web", Previous: true}).DoRaw(t.Context())
		if err == nil && !strings.Contains(string(said), "entrypointer: the startupProbe has failed 2 times, the last time with: it exited with 1") {
			err = fmt.Errorf("it said %q", said)
		}
		return err
	})
}

// killSandbox kills the process that holds a pod's namespaces, as a reboot of the node does.
func killSandbox(t *testing.T, p *corev1.Pod) {
	t.Helper()
	const find = `for p in /proc/[0-9]*; do
		if test "$(cat $p/comm 2>/dev/null)" = pause && tr _ - 2>/dev/null <$p/cgroup | grep -q "$VICTIM"; then
			kill -9 ${p#/proc/} && exit
		fi
	done
	exit 1`
	c := busybox(t, "main", "sh", "-c", find)
	c.Env = []corev1.EnvVar{{Name: "VICTIM", Value: string(p.UID)}}
	killer := plainPod("killer", c)
	killer.Spec.HostPID, killer.Spec.NodeName = true, p.Spec.NodeName
	createPod(t, p.Namespace, killer)
	require.Equal(t, corev1.PodSucceeded, waitUntilDone(t, p.Namespace, "killer").Status.Phase, "killing the sandbox of %s", p.Name)
}

// Under OnFailure, the kubelet doesn't run again what has succeeded, so what is known of
// it has to outlast the sandbox.
func TestWhatHasCompletedCountsInASandboxMadeAnew(t *testing.T) {
	t.Parallel()
	namespace := optedInNamespace(t)
	migrate := busybox(t, "migrate", "sh", "-c", "echo run >>/data/runs")
	web := busybox(t, "web", "sh", "-c", "cat /data/runs; exec sleep 600")
	p := orderedPod("rebooted", map[string]string{"depends-on/web": "migrate:completed"}, web, migrate)
	p.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
	p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	for at := range p.Spec.Containers {
		p.Spec.Containers[at].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	}
	createPod(t, namespace, p)
	started := func() error {
		said, err := cluster.Logs(t.Context(), namespace, p.Name, "web")
		if err == nil && said != "run\n" {
			err = fmt.Errorf("it says %q", said)
		}
		return err
	}
	eventually(t, patience, "web to be started", started)
	before := waitUntilRunning(t, namespace, p.Name)
	killSandbox(t, before)
	eventually(t, patience, "web to be started in another life", func() error {
		if n := containerStatus(t, before, "web").RestartCount; n == 0 {
			return fmt.Errorf("it was restarted %d times", n)
		}
		return started()
	})
	require.Zero(t, containerStatus(t, before, "migrate").RestartCount, "it has completed")
}
