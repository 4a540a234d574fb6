// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/entrypointer/entrypointer/internal/intake"
)

// nowhere drops the lines of a log after they are encoded.
type nowhere struct{}

func (nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (nowhere) Sync() error                 { return nil }

// BenchmarkReview is what a review of a TaskRun's pod with a number of steps costs, from the
// HTTP request to its response, without TLS.
func BenchmarkReview(b *testing.B) {
	core := zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), nowhere{}, zap.InfoLevel)
	webhooks := newPodWebhook(b, core)
	server, err := intake.New(webhooks, func(*http.Request) *x509.CertPool { return nil }, zap.NewNop().Sugar(), otel.GetMeterProvider())
	require.NoError(b, err)
	for _, steps := range []int{2, 20} {
		review := reviewOfSteps(b, steps)
		b.Run(fmt.Sprint("steps=", steps), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				request := httptest.NewRequest(http.MethodPost, "/pods?timeout=10s", bytes.NewReader(review))
				request.Header.Set("Content-Type", "application/json")
				answer := httptest.NewRecorder()
				server.ServeHTTP(answer, request)
				require.Equal(b, http.StatusOK, answer.Code)
			}
		})
	}
}

func reviewOfSteps(b *testing.B, steps int) []byte {
	b.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "run", Labels: map[string]string{"tekton.dev/taskRun": "run"}}}
	for i := range steps {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{
			Name: fmt.Sprint("step-", i), Image: "busybox", Command: []string{"/tekton/bin/entrypoint"},
			Args: []string{
				"-wait_file", fmt.Sprintf("/tekton/run/%d/out", i-1), "-post_file", fmt.Sprintf("/tekton/run/%d/out", i),
				"-termination_path", "/tekton/termination", "-step_metadata_dir", fmt.Sprintf("/tekton/run/%d/status", i),
				"-entrypoint", "sh", "--", "-c", "echo hello",
			},
		})
	}
	object, err := json.Marshal(p)
	require.NoError(b, err)
	review, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: "1", Namespace: "tenant", Operation: admissionv1.Create,
			Kind:     metav1.GroupVersionKind{Version: "v1", Kind: "Pod"},
			Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
			Object:   runtime.RawExtension{Raw: object},
		},
	})
	require.NoError(b, err)
	return review
}
