// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package workloads is the admission webhook that warns of mistakes in the annotations of
// Deployments, Jobs, TaskRuns and the like: an unknown option, a wrong value, a misspelt
// prefix. Their author would otherwise learn of them when a pod is refused, or never.
//
// The warnings depend on the object and on the operator's configuration only, so that a
// forged request learns nothing about a namespace. What depends on the namespace is
// checked by policies (config/webhook/230-warn-of-misplaced-annotations.yaml).
package workloads

import (
	"context"
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	"knative.dev/pkg/configmap"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/injection"

	"github.com/entrypointer/entrypointer/internal/admission"
	"github.com/entrypointer/entrypointer/internal/config"
	"github.com/entrypointer/entrypointer/pkg/pod"
)

// WebhookName is the name of the ValidatingWebhookConfiguration.
const WebhookName = "workloads.entrypointer.dev"

// NewAdmissionController returns a constructor of the workloads' webhook.
func NewAdmissionController(settings *config.Store) injection.ControllerConstructor {
	return func(ctx context.Context, _ configmap.Watcher) *controller.Impl {
		return admission.NewWarner(ctx, WebhookName, "/workloads", (&checker{settings}).warn)
	}
}

type checker struct {
	config interface{ Load() *config.Config }
}

// An API server cuts each warning to 256 characters as soon as all of them together are
// longer than 4,096 (k8s.io/apiserver/pkg/endpoints/filters/warning.go).
const (
	maxWarning  = 512
	maxWarnings = 4096 - maxWarning
)

// warn returns what is wrong with the annotations and labels of an object.
func (c *checker) warn(_ context.Context, request *admissionv1.AdmissionRequest) (warnings []string) {
	o, err := decode(request)
	if err != nil {
		return nil // the API server says so
	}
	var all []pod.Warning
	for _, m := range o.metadata {
		all = append(all, pod.MisspeltPrefixes(m.Annotations, m.Labels)...)
	}
	found, err := c.check(o)
	warnings = pod.Messages(append(all, found...))
	if err != nil {
		warnings = append(warnings, fmt.Sprintf("entrypointer: pods of this %s%s: %v", o.kind, o.refused(), err))
	}
	return bounded(warnings)
}

// check checks the annotations of the object's pods as if they were wrapped.
func (c *checker) check(o *object) ([]pod.Warning, error) {
	if o.pod == nil || !pod.Mentions(o.pod.Annotations) {
		return nil, nil
	}
	current := c.config.Load()
	injector := &pod.Injector{
		AllPods:  true,
		Policy:   current.Policy,
		Tools:    current.Tools,
		Defaults: []pod.Defaults{current.Defaults},
	}
	return injector.Check("", o.pod)
}

// bounded shortens warnings, and drops the same ones and those that an API server would
// cut.
func bounded(warnings []string) (kept []string) {
	total, said := 0, map[string]bool{}
	for _, text := range warnings {
		if len(text) > maxWarning {
			text = strings.ToValidUTF8(text[:maxWarning-len("...")], "") + "..."
		}
		if said[text] || total+len(text) > maxWarnings {
			continue
		}
		total, said[text] = total+len(text), true
		kept = append(kept, text)
	}
	return kept
}
