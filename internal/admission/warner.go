// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"runtime/debug"

	"go.uber.org/zap"
	admissionv1 "k8s.io/api/admission/v1"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/logging"
)

// Warn returns warnings about one object. It must not have side effects.
type Warn func(context.Context, *admissionv1.AdmissionRequest) []string

// NewWarner returns a controller that serves warn on path, and keeps the CA bundle of the
// named ValidatingWebhookConfiguration current. Such a webhook can neither change nor
// refuse an object.
func NewWarner(ctx context.Context, name, path string, warn Warn) *controller.Impl {
	return NewValidator(ctx, name, path, warn.admit)
}

// admit admits every object. A panic costs the warnings only.
func (w Warn) admit(ctx context.Context, request *admissionv1.AdmissionRequest) (response *admissionv1.AdmissionResponse) {
	response = Allow(nil)
	defer func() {
		if recovered := recover(); recovered != nil {
			logging.FromContext(ctx).Errorw("Panic in a check", zap.Any("panic", recovered), zap.ByteString("stack", debug.Stack()))
		}
	}()
	response.Warnings = w(ctx, request)
	return response
}
