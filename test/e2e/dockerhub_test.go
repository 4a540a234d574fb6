// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

// hubImage is as users write it. It comes from Docker Hub, or from a mirror that the
// nodes, the injector and Knative know without a word in the pod.
const hubImage = "busybox:1.37"

func TestAnImageOfDockerHubIsLookedUpPinnedAndPulledByItsOwnName(t *testing.T) {
	namespace := optedInNamespace(t)
	p := askingPod("hub", corev1.Container{Name: "main", Image: hubImage})
	var created *corev1.Pod
	eventually(t, patience, "the injector to look the image up", func() (err error) {
		created, err = cluster.Kube.CoreV1().Pods(namespace).Create(t.Context(), p, metav1.CreateOptions{})
		return err
	})
	requireWrapped(t, created, "main")
	main := created.Spec.Containers[0]
	require.True(t, strings.HasPrefix(main.Image, hubImage+"@sha256:"), main.Image)
	require.Equal(t, []string{"-image-words=1:" + main.Image, "--", "sh"}, main.Args)
	require.Equal(t, corev1.PodSucceeded, waitUntilDone(t, namespace, "hub").Status.Phase)
}

func TestAKnativeServiceOfAnImageOfDockerHubServes(t *testing.T) {
	t.Parallel()
	namespace := optedInNamespace(t)
	service := helloService(t, namespace, func(template *servingv1.RevisionTemplateSpec) {
		template.Spec.Containers[0] = corev1.Container{
			Image:   hubImage,
			Command: []string{"sh", "-c", "mkdir /tmp/www && readlink /proc/1/exe >/tmp/www/index.html && exec httpd -f -p 8080 -h /tmp/www"},
		}
	})
	require.Equal(t, pod.EntrypointPath+"\n", waitForAnswer(t, service))
}
