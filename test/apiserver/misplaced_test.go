// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
)

// What the policies say of an annotation or a label, in the order in which they say it.
const (
	wrongPlace   = "annotations of entrypointer are in the wrong place, and have no effect"
	noLabel      = "labels of entrypointer have no effect"
	notOptedIn   = "annotations of entrypointer have no effect, because the namespace doesn't opt in"
	doesNotAsk   = "annotations of entrypointer have no effect, because the pod doesn't ask"
	existsBefore = "annotations of entrypointer have no effect on a pod that exists"
	misspelled   = "an annotation is not one of entrypointer, and has no effect"
)

// warnings returns a function that answers what a policy that is installed warns of.
func warnings(t *testing.T, name string) func(*testing.T, request) []string {
	t.Helper()
	policy := newPolicy(t, shipped[admissionregistrationv1.ValidatingAdmissionPolicy](t,
		"230-warn-of-misplaced-annotations.yaml", "ValidatingAdmissionPolicy", name).Spec)
	return func(t *testing.T, r request) []string {
		t.Helper()
		r.params = installed()
		return policy.refuses(t, r)
	}
}

func metadata(annotations, labels map[string]string) map[string]any {
	m := map[string]any{"name": "a"}
	for field, values := range map[string]map[string]string{"annotations": annotations, "labels": labels} {
		if values == nil {
			continue
		}
		converted := map[string]any{}
		for key, value := range values {
			converted[key] = value
		}
		m[field] = converted
	}
	return m
}

type keys = map[string]string

func TestAnAnnotationInTheWrongPlaceOfAWorkloadIsWarnedOf(t *testing.T) {
	warningsOf := warnings(t, "misplaced-on-workloads.entrypointer.dev")
	ask := keys{"entrypointer.dev/inject": "true"}
	timeout := keys{"timeout.entrypointer.dev/app": "1h"}
	for what, test := range map[string]struct {
		scope            string
		own, ownLabels   keys
		template, labels keys
		want             []string
	}{
		"none, not opted in":                     {"", nil, nil, nil, nil, nil},
		"others' annotations":                    {"", keys{"notentrypointer.dev/inject": "true"}, keys{"app": "a"}, keys{"prometheus.io/scrape": "true"}, keys{"app": "a"}, nil},
		"in the template":                        {"true", nil, nil, ask, nil, nil},
		"in the template, for all":               {"all", nil, nil, timeout, nil, nil},
		"on the object":                          {"true", ask, nil, nil, nil, []string{wrongPlace}},
		"an option on the object":                {"true", timeout, nil, ask, nil, []string{wrongPlace}},
		"on both, as kustomize does":             {"true", ask, nil, ask, nil, nil},
		"a label on the object":                  {"true", nil, ask, nil, nil, []string{noLabel}},
		"a label in the template":                {"true", nil, nil, nil, ask, []string{noLabel}},
		"a label and the annotation":             {"true", nil, nil, ask, ask, nil},
		"not opted in":                           {"", nil, nil, ask, nil, []string{notOptedIn}},
		"opted out":                              {"false", nil, nil, ask, nil, []string{notOptedIn}},
		"opting out where nobody opted in":       {"", nil, nil, keys{"entrypointer.dev/inject": "false"}, nil, nil},
		"an option without asking":               {"true", nil, nil, timeout, nil, []string{doesNotAsk}},
		"a label on an object, and not opted in": {"", nil, ask, ask, nil, []string{notOptedIn}},
		"a misspelled prefix":                    {"", nil, nil, keys{"entrypoint.dev/inject": "true"}, nil, []string{misspelled}},
		"a misspelled prefix on the object":      {"", keys{"entrypoint.dev/inject": "true"}, nil, nil, nil, []string{misspelled}},
		"of which the webhook warns":             {"true", keys{"entrypoint.dev/inject": "true"}, nil, keys{"entrypoint.dev/inject": "true"}, nil, nil},
		"another's annotation like ours":         {"", nil, nil, keys{"entrypoint.dev/path": "/bin/sh"}, nil, nil},
		"what the webhook checks": {"true", nil, nil, keys{
			"entrypointer.dev/inject": "yes", "entrypointer.dev/timout": "1h", "timeout.entrypointer.dev/web": "1", "entrypointer.dev/delivery": "claim",
		}, nil, nil},
		"wrong, not opted in":         {"", nil, nil, keys{"entrypointer.dev/inject": "True"}, nil, []string{notOptedIn}},
		"unknown, not opted in":       {"", nil, nil, keys{"entrypointer.dev/timout": "1h"}, nil, []string{notOptedIn}},
		"the status":                  {"true", nil, nil, keys{"entrypointer.dev/status": "Injected by init-container"}, nil, nil},
		"another vendor's annotation": {"", nil, nil, keys{"entrypoint-metrics.example.com/inject": "true"}, nil, nil},
	} {
		t.Run(what, func(t *testing.T) {
			template := map[string]any{"metadata": metadata(test.template, test.labels), "spec": map[string]any{
				"containers": []any{map[string]any{"name": "app"}, map[string]any{"name": "db"}},
			}}
			for resource, kind := range map[string]string{"deployments": "Deployment", "jobs": "Job", "cronjobs": "CronJob", "services": "Service"} {
				spec := map[string]any{"template": template}
				if kind == "CronJob" {
					spec = map[string]any{"jobTemplate": map[string]any{"spec": spec}}
				}
				object := &unstructured.Unstructured{Object: map[string]any{"metadata": metadata(test.own, test.ownLabels), "spec": spec}}
				want := test.want
				if kind == "Service" && slices.Equal(want, []string{doesNotAsk}) {
					want = nil // a Revision is wrapped without asking
				}
				for _, operation := range []admission.Operation{admission.Create, admission.Update} {
					asked := request{operation: operation, resource: resource, kind: kind, object: object, namespace: tenant(test.scope)}
					require.Equal(t, want, warningsOf(t, asked), kind)
				}
				object.SetOwnerReferences([]metav1.OwnerReference{{Kind: "CronJob", Name: "a", Controller: new(true)}})
				require.Empty(t, warningsOf(t,
					request{operation: admission.Create, resource: resource, kind: kind, object: object, namespace: tenant(test.scope)}), "whoever wrote its owner was warned")
			}
		})
	}
}

func TestAWorkloadWhoseAnnotationsAreTooManyToCheckIsNotWarnedOf(t *testing.T) {
	warningsOf := warnings(t, "misplaced-on-workloads.entrypointer.dev")
	many := keys{}
	for i := range 501 {
		many[fmt.Sprint("entrypointer.dev/x", i)] = ""
	}
	object := &unstructured.Unstructured{Object: map[string]any{"metadata": metadata(many, nil), "spec": map[string]any{"template": map[string]any{"metadata": metadata(many, nil)}}}}
	require.Empty(t, warningsOf(t, request{operation: admission.Create, resource: "deployments", kind: "Deployment", object: object, namespace: tenant("")}))
}

func TestAnAnnotationOfAJobTemplateIsWarnedOf(t *testing.T) {
	warningsOf := warnings(t, "misplaced-on-workloads.entrypointer.dev")
	cronJob := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "a"}, "spec": map[string]any{"jobTemplate": map[string]any{
		"metadata": metadata(keys{"entrypointer.dev/inject": "true"}, nil), "spec": map[string]any{"template": map[string]any{}},
	}}}}
	require.Equal(t, []string{wrongPlace}, warningsOf(t,
		request{operation: admission.Create, resource: "cronjobs", kind: "CronJob", object: cronJob, namespace: tenant("true")}))
}

func TestAnAnnotationWithoutEffectOnAPodIsWarnedOf(t *testing.T) {
	warningsOf := warnings(t, "misplaced-on-pods.entrypointer.dev")
	podWith := func(annotations, labels keys) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", Annotations: annotations, Labels: labels}}
	}
	ask := keys{"entrypointer.dev/inject": "true"}
	injected := keys{"entrypointer.dev/inject": "true", "entrypointer.dev/status": "Injected by init-container"}
	for what, test := range map[string]struct {
		scope       string
		before, now *corev1.Pod
		want        []string
	}{
		"a pod that says nothing":              {"", nil, podWith(nil, keys{"app": "a"}), nil},
		"a pod that asks":                      {"true", nil, podWith(ask, nil), nil},
		"a pod of all":                         {"all", nil, podWith(keys{"entrypointer.dev/timeout": "1h"}, nil), nil},
		"not opted in":                         {"", nil, podWith(ask, nil), []string{notOptedIn}},
		"opts out, where nobody opted in":      {"", nil, podWith(keys{"entrypointer.dev/inject": "false"}, nil), nil},
		"a label, of which the injector warns": {"true", nil, podWith(nil, ask), nil},
		"a label that stays":                   {"true", podWith(nil, ask), podWith(keys{"app": "a"}, ask), nil},
		"a label, not opted in":                {"", nil, podWith(nil, ask), []string{noLabel}},
		"annotated when it exists":             {"true", podWith(nil, nil), podWith(ask, nil), []string{existsBefore}},
		"annotated otherwise when it exists":   {"true", podWith(injected, nil), podWith(keys{"entrypointer.dev/inject": "false"}, nil), []string{existsBefore}},
		"annotated by others when it exists":   {"true", podWith(injected, nil), podWith(keys{"entrypointer.dev/inject": "true", "tekton.dev/ready": "READY"}, nil), nil},
		"labelled when it exists":              {"true", podWith(nil, nil), podWith(nil, ask), []string{noLabel}},
		"a misspelled prefix":                  {"", nil, podWith(keys{"entrypointer.io/inject": "true"}, nil), []string{misspelled}},
		"of which the webhook warns":           {"true", nil, podWith(keys{"entrypointer.io/inject": "true"}, nil), nil},
		"an annotation is removed, uselessly":  {"true", podWith(injected, nil), podWith(nil, nil), nil},
	} {
		t.Run(what, func(t *testing.T) {
			asked := request{operation: admission.Create, resource: "pods", kind: "Pod", object: test.now, namespace: tenant(test.scope)}
			if test.before != nil {
				asked.operation, asked.old = admission.Update, runtime.Object(test.before)
			}
			require.Equal(t, test.want, warningsOf(t, asked))
			going := test.now.DeepCopy()
			going.DeletionTimestamp = &metav1.Time{}
			asked.object = going
			require.Empty(t, warningsOf(t, asked), "it is being deleted")
		})
	}
}
