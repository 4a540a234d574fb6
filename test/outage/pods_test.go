//go:build outage

// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package outage

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

// taskRunPod is the pod of a TaskRun, as Tekton 1.15 makes it.
func taskRunPod(steps int) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: "run-", Labels: map[string]string{"app.kubernetes.io/managed-by": "tekton-pipelines", "tekton.dev/taskRun": "run"},
			Annotations:     map[string]string{"pipeline.tekton.dev/release": "v1.15.0"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "tekton.dev/v1", Kind: "TaskRun", Name: "run", UID: "1", Controller: new(true)}},
		},
		Spec: corev1.PodSpec{
			RestartPolicy:  corev1.RestartPolicyNever,
			InitContainers: []corev1.Container{{Name: "prepare", Image: "entrypoint", Command: []string{"/ko-app/entrypoint", "init", "/ko-app/entrypoint", "/tekton/bin/entrypoint"}}},
		},
	}
	volume := func(name string) {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	}
	var mounts []corev1.VolumeMount
	for _, at := range []string{"bin", "workspace", "home", "results", "steps", "artifacts"} {
		volume("tekton-internal-" + at)
		mounts = append(mounts, corev1.VolumeMount{Name: "tekton-internal-" + at, MountPath: "/tekton/" + at})
	}
	p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "tekton-internal-downward", VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{
		Items: []corev1.DownwardAPIVolumeFile{{Path: "ready", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['tekton.dev/ready']"}}},
	}}})
	for i := range steps {
		volume(fmt.Sprintf("tekton-internal-run-%d", i))
		wait := []string{"-wait_file", "/tekton/downward/ready", "-wait_file_content"}
		if i > 0 {
			wait = []string{"-wait_file", fmt.Sprintf("/tekton/run/%d/out", i-1)}
		}
		own := slices.Clone(mounts)
		if i == 0 {
			own = append(own, corev1.VolumeMount{Name: "tekton-internal-downward", MountPath: "/tekton/downward", ReadOnly: true})
		}
		for j := range steps {
			own = append(own, corev1.VolumeMount{Name: fmt.Sprintf("tekton-internal-run-%d", j), MountPath: fmt.Sprintf("/tekton/run/%d", j), ReadOnly: i != j})
		}
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{
			Name: fmt.Sprintf("step-s%d", i), Image: "busybox", VolumeMounts: own, Command: []string{"/tekton/bin/entrypoint"},
			Args: slices.Concat(wait, []string{
				"-post_file", fmt.Sprintf("/tekton/run/%d/out", i), "-termination_path", "/tekton/termination",
				"-step_metadata_dir", fmt.Sprintf("/tekton/run/%d/status", i), "-entrypoint", "echo", "--", "hello",
			}),
			TerminationMessagePath: "/tekton/termination",
		})
	}
	return p
}

// webhook serves what pkg/pod decides. It returns the number of its calls, and the
// configuration to reach it.
func webhook(t testing.TB) (*atomic.Int64, admissionregistrationv1.WebhookClientConfig) {
	t.Helper()
	calls := &atomic.Int64{}
	return calls, serve(t, func(ctx context.Context, namespace string, before *corev1.Pod) (*corev1.Pod, error) {
		calls.Add(1)
		result, err := injector.Inject(ctx, namespace, before)
		return result.Pod, err
	})
}

// serve serves a webhook that makes one pod of another.
func serve(t testing.TB, change func(context.Context, string, *corev1.Pod) (*corev1.Pod, error)) admissionregistrationv1.WebhookClientConfig {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		var before corev1.Pod
		if err := errors.Join(json.NewDecoder(r.Body).Decode(&review), json.Unmarshal(review.Request.Object.Raw, &before)); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		response := &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
		after, err := change(r.Context(), review.Request.Namespace, &before)
		if err != nil {
			response.Allowed, response.Result = false, &metav1.Status{Message: err.Error()}
		} else if patch := pod.Patch(&before, after); len(patch) > 0 {
			response.Patch, _ = json.Marshal(patch)
			response.PatchType = new(admissionv1.PatchTypeJSONPatch)
		}
		review.Request, review.Response = nil, response
		_ = json.NewEncoder(w).Encode(review)
	}))
	t.Cleanup(server.Close)
	url := server.URL
	return admissionregistrationv1.WebhookClientConfig{
		URL: &url, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
	}
}

// callWebhook configures the webhook for namespaces with a label.
func (s *apiServer) callWebhook(t testing.TB, name string, policy admissionregistrationv1.FailurePolicyType, client admissionregistrationv1.WebhookClientConfig) {
	t.Helper()
	_, err := s.AdmissionregistrationV1().MutatingWebhookConfigurations().Create(t.Context(), &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: name + ".entrypointer.dev", ClientConfig: client, FailurePolicy: &policy, AdmissionReviewVersions: []string{"v1"},
			SideEffects:        new(admissionregistrationv1.SideEffectClassNone),
			ReinvocationPolicy: new(admissionregistrationv1.IfNeededReinvocationPolicy),
			NamespaceSelector:  &metav1.LabelSelector{MatchLabels: map[string]string{"webhook": name}},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
			}},
		}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
}
