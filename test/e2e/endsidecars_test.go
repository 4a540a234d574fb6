// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

// meshProxy stands in for Istio's, whose image isn't among those that the cluster of
// these tests can pull. As that does, it listens at port 15020, is ready only after a
// while, ignores that others end, and quits when it is asked to at /quitquitquit: by a
// POST, from within the pod.
func meshProxy(t *testing.T) corev1.Container {
	t.Helper()
	return corev1.Container{Name: "istio-proxy", Image: image(t, "python"), Command: []string{"python3", "-c", `
import http.server, threading, time
began = time.monotonic()
class Agent(http.server.BaseHTTPRequestHandler):
    def log_message(self, *args):
        pass
    def do_GET(self):
        ready = self.path == "/healthz/ready" and time.monotonic() > began + 5
        self.send_response(200 if ready else 503)
        self.end_headers()
    def do_POST(self):
        quits = self.path == "/quitquitquit" and self.client_address[0] == "127.0.0.1"
        self.send_response(200 if quits else 404)
        self.end_headers()
        if quits:
            threading.Thread(target=server.shutdown).start()
server = http.server.ThreadingHTTPServer(("", 15020), Agent)
server.serve_forever()
print("asked to quit")
`}}
}

// meshedJob has two containers that work. One of them takes the proxy, which is ready late.
func meshedJob(t *testing.T, policy corev1.RestartPolicy, annotations map[string]string, more ...corev1.Container) *batchv1.Job {
	t.Helper()
	p := askingPod("meshed", append([]corev1.Container{
		busybox(t, "main", "wget", "-q", "-O", "-", "http://127.0.0.1:15020/healthz/ready"),
		busybox(t, "other", "sleep", "1"),
	}, more...)...)
	p.Annotations["wait-for.entrypointer.dev/main"] = "http://127.0.0.1:15020/healthz/ready"
	maps.Copy(p.Annotations, annotations)
	p.Spec.RestartPolicy = policy
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "meshed"},
		Spec:       batchv1.JobSpec{BackoffLimit: new(int32(0)), Template: template(p)},
	}
}

// completes creates a Job, waits until it is complete, and returns its pod.
func completes(t *testing.T, namespace string, job *batchv1.Job) corev1.Pod {
	t.Helper()
	_, err := cluster.Kube.BatchV1().Jobs(namespace).Create(t.Context(), job, metav1.CreateOptions{})
	require.NoError(t, err)
	waitForJob(t, namespace, job.Name)
	pods, err := cluster.Kube.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "job-name=" + job.Name})
	require.NoError(t, err)
	require.Len(t, pods.Items, 1)
	return pods.Items[0]
}

// requireEndedTogether has the proxy have been asked, and all containers have ended well.
func requireEndedTogether(t *testing.T, p corev1.Pod) {
	t.Helper()
	requireWrapped(t, &p, "main", "other")
	require.Equal(t, "asked to quit\n", logs(t, p.Namespace, p.Name, "istio-proxy"))
	for line := range strings.Lines(logs(t, p.Namespace, p.Name, "main")) {
		require.Contains(t, line, "entrypointer: waiting for ", "a proxy may take long to start")
	}
	for _, s := range p.Status.ContainerStatuses {
		require.NotNil(t, s.State.Terminated, s.Name)
		require.Zero(t, s.State.Terminated.ExitCode, s.Name)
		require.Zero(t, s.RestartCount, s.Name)
	}
}

func TestAJobCompletesBesideAProxyThatItEnds(t *testing.T) {
	t.Parallel()
	namespace := optedInNamespace(t)
	requireEndedTogether(t, completes(t, namespace, meshedJob(t, corev1.RestartPolicyNever, map[string]string{"entrypointer.dev/end-sidecars": "istio"}, meshProxy(t))))
}

// A namespace asks it of all its pods. The proxy is one that another webhook adds after us,
// and a server's pod is as before.
func TestANamespaceHasTheJobsInItEndTheirProxies(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t, map[string]string{pod.InjectAnnotation: "true", "entrypointer.dev/end-sidecars": "istio, linkerd, vault"})
	proxy := meshProxy(t)
	meddle(t, "z", ns.Name, func(spec *corev1.PodSpec) { firstIfMissing(&spec.Containers, proxy) })
	eventually(t, time.Minute, "the API server to call the other webhook", func() error {
		seen, err := wouldBecome(t, ns.Name, askingPod("meshed", busybox(t, "main", "true")))
		if err == nil && !hasContainer(seen.Spec.Containers, "istio-proxy") {
			return errors.New("it doesn't yet")
		}
		return err
	})
	requireEndedTogether(t, completes(t, ns.Name, meshedJob(t, corev1.RestartPolicyOnFailure, nil)))

	server := askingPod("server", busybox(t, "main", "true"))
	server.Spec.RestartPolicy = corev1.RestartPolicyAlways
	seen, err := wouldBecome(t, ns.Name, server)
	require.NoError(t, err)
	require.Equal(t, []string{"--", "true"}, seen.Spec.Containers[1].Args)
	server.Annotations["entrypointer.dev/end-sidecars"] = "istio"
	_, err = wouldBecome(t, ns.Name, server)
	require.ErrorContains(t, err, `container "main" is restarted after a success, so that the work of the pod is never done`)
}
