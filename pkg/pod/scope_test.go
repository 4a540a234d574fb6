// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

func TestTheScopeOfANamespaceIsReadFromItsAnnotation(t *testing.T) {
	for name, test := range map[string]struct {
		annotations map[string]string
		want        pod.Scope
		mistake     string
	}{
		"no annotation": {nil, pod.NoPods, ""},
		"false":         {map[string]string{pod.InjectAnnotation: "false"}, pod.NoPods, ""},
		"true":          {map[string]string{pod.InjectAnnotation: "true"}, pod.OwnedPods, ""},
		"all":           {map[string]string{pod.InjectAnnotation: "all"}, pod.AllPods, ""},
		"no value":      {map[string]string{pod.InjectAnnotation: ""}, pod.NoPods, `"" is none of "true"`},
		"another value": {map[string]string{pod.InjectAnnotation: "yes"}, pod.NoPods, `"yes" is none of "true"`},
		"another case":  {map[string]string{pod.InjectAnnotation: "True"}, pod.NoPods, `"True" is none of "true"`},
	} {
		t.Run(name, func(t *testing.T) {
			scope, err := pod.NamespaceScope(test.annotations)
			require.Equal(t, test.want, scope)
			if test.mistake == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, test.mistake)
		})
	}
}

func TestInANamespaceForAllPodsAPodIsWrappedWithoutAsking(t *testing.T) {
	containers := []corev1.Container{running("step-build", "s"), running("app", "a"), running("queue-proxy", "q"), running("istio-proxy", "p")}
	made := func(labels, annotations map[string]string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: annotations}, Spec: corev1.PodSpec{Containers: containers}}
	}
	for name, test := range map[string]struct {
		pod     *corev1.Pod
		policy  pod.Policy
		owner   pod.Owner
		outcome pod.Outcome
		wrapped []string
	}{
		"any pod":           {pod: made(nil, nil), owner: pod.Asking, outcome: pod.Injected, wrapped: []string{"step-build", "app", "queue-proxy"}},
		"a pod that asks":   {pod: made(nil, map[string]string{pod.InjectAnnotation: "true"}), owner: pod.Asking, outcome: pod.Injected, wrapped: []string{"step-build", "app", "queue-proxy"}},
		"some containers":   {pod: made(nil, map[string]string{pod.ContainersAnnotation: "app"}), owner: pod.Asking, outcome: pod.Injected, wrapped: []string{"app"}},
		"a TaskRun's steps": {pod: controlled(made(map[string]string{"tekton.dev/taskRun": "run"}, nil), "TaskRun"), owner: pod.Tekton, outcome: pod.Injected, wrapped: []string{"step-build"}},
		"a Revision's":      {pod: controlled(made(map[string]string{"serving.knative.dev/revision": "r"}, nil), "ReplicaSet"), owner: pod.Knative, outcome: pod.Injected, wrapped: []string{"step-build", "app"}},
		"a label of TaskRuns on any other pod": {
			pod: made(map[string]string{"tekton.dev/taskRun": "run"}, nil), owner: pod.Asking, outcome: pod.Injected, wrapped: []string{"step-build", "app", "queue-proxy"},
		},
		"a pod that opts out": {
			pod: made(nil, map[string]string{pod.InjectAnnotation: "false"}), owner: pod.Asking, outcome: pod.OptedOut,
		},
		"a pod that opts out, which the operator forbids": {
			pod: made(nil, map[string]string{pod.InjectAnnotation: "false"}), policy: pod.Policy{ForbidOptOut: true},
			owner: pod.Asking, outcome: pod.Injected, wrapped: []string{"step-build", "app", "queue-proxy"},
		},
		"an operator that leaves such pods out": {
			pod: made(nil, nil), policy: pod.Policy{Owners: []pod.Owner{pod.Tekton}}, owner: pod.Asking, outcome: pod.NotSelected,
		},
		"a pod that fills a claim": {pod: filling(copierImage, nil), outcome: pod.NotOurs},
		"a copier's image that runs another command": {
			pod: filling(copierImage, []string{"/volume/sh"}), owner: pod.Asking, outcome: pod.Injected, wrapped: []string{"copier"},
		},
		"a static pod's mirror": {pod: made(nil, map[string]string{corev1.MirrorPodAnnotationKey: "x"}), owner: pod.Asking, outcome: pod.MirrorPod},
	} {
		t.Run(name, func(t *testing.T) {
			injector := newInjector(nil)
			injector.AllPods, injector.Copiers, injector.Policy = true, []string{copierImage}, test.policy
			result := inject(t, injector, test.pod)
			require.Equal(t, test.outcome, result.Outcome)
			require.Equal(t, test.owner, result.Owner)
			require.Equal(t, test.wrapped, result.Wrapped)
		})
	}
}

func filling(image string, command []string) *corev1.Pod {
	return &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "copier", Image: image, Command: command, Args: []string{"-durable", "/claim/plain/entrypoint"}}}}}
}

func controlled(p *corev1.Pod, kind string) *corev1.Pod {
	p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: "owner", Controller: new(true)}}
	return p
}

// notOursStatus is the status of a pod that doesn't ask.
const notOursStatus = `NotOurs: the pod doesn't ask by entrypointer.dev/inject: "true"`

func TestAPodThatMentionsUsAndIsNotOursSaysSo(t *testing.T) {
	for name, test := range map[string]struct {
		labels, annotations map[string]string
		status              string
		warns               string
	}{
		"nothing":                    {labels: map[string]string{"app": "a"}},
		"an option without asking":   {annotations: map[string]string{"entrypointer.dev/timeout": "1h"}, status: notOursStatus, warns: "annotation entrypointer.dev/timeout has no effect"},
		"a label":                    {labels: map[string]string{pod.InjectAnnotation: "true"}, status: notOursStatus, warns: "label entrypointer.dev/inject has no effect on a pod: set the annotation entrypointer.dev/inject"},
		"a label and the annotation": {labels: map[string]string{pod.InjectAnnotation: "true"}, annotations: map[string]string{pod.InjectAnnotation: "true"}, status: "Injected by init-container"},
		"a label of a TaskRun's pod": {labels: map[string]string{"tekton.dev/taskRun": "run", "entrypointer.dev/timeout": "1h"}, status: "Injected by init-container", warns: "label entrypointer.dev/timeout has no effect"},
	} {
		t.Run(name, func(t *testing.T) {
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: test.labels, Annotations: test.annotations}, Spec: corev1.PodSpec{Containers: []corev1.Container{running("step-a", "x")}}}
			result := inject(t, newInjector(nil), p)
			require.Equal(t, test.status, result.Pod.Annotations[pod.StatusAnnotation])
			if test.warns == "" {
				require.Empty(t, result.Warnings)
				return
			}
			require.Len(t, result.Warnings, 1)
			require.Contains(t, result.Warnings[0].Message, test.warns)
		})
	}
}
