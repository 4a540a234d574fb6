// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"knative.dev/pkg/configmap"
	"knative.dev/pkg/controller"

	"github.com/entrypointer/entrypointer/internal/admission"
	"github.com/entrypointer/entrypointer/internal/config"
)

// configWebhook is the name of the ValidatingWebhookConfiguration, and configPath the path
// of its webhook.
const configWebhook, configPath = "config.entrypointer.dev", "/config"

// newConfigValidation returns a webhook that refuses a ConfigMap that the injector
// couldn't read.
func newConfigValidation(ctx context.Context, _ configmap.Watcher) *controller.Impl {
	return admission.NewValidator(ctx, configWebhook, configPath, validateConfig)
}

// validateConfig also refuses a change of the example, which has no effect.
func validateConfig(_ context.Context, request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	var given corev1.ConfigMap
	if err := json.Unmarshal(request.Object.Raw, &given); err != nil {
		return admission.Malformed(err)
	}
	if given.Name != config.Name {
		return admission.Allow(nil)
	}
	example, has := given.Data[configmap.ExampleKey]
	checksum, checked := given.Annotations[configmap.ExampleChecksumAnnotation]
	if has && checked && checksum != configmap.Checksum(example) {
		return admission.Invalid(fmt.Errorf("key %q of ConfigMap %q has changed, which has no effect; copy the setting out of it, to the other keys of data", configmap.ExampleKey, config.Name))
	}
	if _, err := config.FromConfigMap(&given); err != nil {
		return admission.Invalid(err)
	}
	return admission.Allow(nil)
}
