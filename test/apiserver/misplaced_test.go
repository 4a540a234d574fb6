// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

// What the policies say of an annotation or a label, in the order in which they say it.
const (
	wrongPlace   = "annotations of entrypointer are in the wrong place, and have no effect"
	noLabel      = "labels of entrypointer have no effect"
	notOptedIn   = "annotations of entrypointer have no effect, because the namespace doesn't opt in"
	doesNotAsk   = "annotations of entrypointer have no effect, because the pod doesn't ask"
	existsBefore = "annotations of entrypointer have no effect on a pod that exists"
	misspelled   = "an annotation is not one of entrypointer, and has no effect"
	unknown      = "an annotation of entrypointer is unknown, and has no effect"
	wrongInject  = "an annotation of entrypointer has a wrong value, and pods are refused"
	noContainer  = "an annotation of entrypointer names a container that isn't in the template"
	noDelivery   = "annotation entrypointer.dev/delivery has no effect on pods, set it on the namespace"
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
		"a misspelled prefix":                    {"true", nil, nil, keys{"entrypoint.dev/inject": "true"}, nil, []string{misspelled}},
		"a misspelled prefix on the object":      {"true", keys{"entrypoint.dev/inject": "true"}, nil, nil, nil, []string{misspelled}},
		"another's annotation like ours":         {"true", nil, nil, keys{"entrypoint.dev/path": "/bin/sh"}, nil, nil},
		"an unknown option":                      {"true", nil, nil, keys{"entrypointer.dev/inject": "true", "entrypointer.dev/timout": "1h"}, nil, []string{unknown}},
		"an unknown option of a container":       {"all", nil, nil, keys{"timout.entrypointer.dev/app": "1h"}, nil, []string{unknown}},
		"inject with a typo":                     {"true", nil, nil, keys{"entrypointer.dev/Inject": "true"}, nil, []string{unknown}},
		"every annotation of a pod": {"true", nil, nil, keys{
			"entrypointer.dev/inject": "true", "entrypointer.dev/containers": "app, db", "entrypointer.dev/tools": "ni", "depends-on.entrypointer.dev/app": "db:ready",
		}, nil, nil},
		"a wrong value of inject":                      {"true", nil, nil, keys{"entrypointer.dev/inject": "yes"}, nil, []string{wrongInject}},
		"a container that isn't there":                 {"true", nil, nil, keys{"entrypointer.dev/inject": "true", "entrypointer.dev/containers": "app, web"}, nil, []string{noContainer}},
		"an option for one that isn't":                 {"all", nil, nil, keys{"timeout.entrypointer.dev/web": "1h"}, nil, []string{noContainer}},
		"an empty value of inject":                     {"all", nil, nil, keys{"entrypointer.dev/inject": ""}, nil, []string{wrongInject}},
		"a wrong value, not opted in":                  {"", nil, nil, keys{"entrypointer.dev/inject": "True"}, nil, []string{wrongInject}},
		"unknown, not opted in":                        {"", nil, nil, keys{"entrypointer.dev/timout": "1h"}, nil, []string{unknown}},
		"an unknown option for one that isn't":         {"all", nil, nil, keys{"timout.entrypointer.dev/web": "1h"}, nil, []string{unknown}},
		"one that isn't, not opted in":                 {"", nil, nil, keys{"entrypointer.dev/inject": "true", "timeout.entrypointer.dev/web": "1h"}, nil, []string{notOptedIn}},
		"an option for one that isn't, without asking": {"true", nil, nil, keys{"timeout.entrypointer.dev/web": "1h"}, nil, []string{doesNotAsk}},
		"a comma too many":                             {"true", nil, nil, keys{"entrypointer.dev/inject": "true", "entrypointer.dev/containers": "app,"}, nil, []string{noContainer}},
		"the delivery":                                 {"true", nil, nil, keys{"entrypointer.dev/inject": "true", "entrypointer.dev/delivery": "claim"}, nil, []string{noDelivery}},
		"the status":                                   {"true", nil, nil, keys{"entrypointer.dev/status": "Injected by init-container"}, nil, nil},
		"another vendor's annotation":                  {"true", nil, nil, keys{"entrypoint-metrics.example.com/inject": "true"}, nil, nil},
		"a container of a pod that is out":             {"all", nil, nil, keys{"entrypointer.dev/inject": "false", "timeout.entrypointer.dev/web": "1h"}, nil, nil},
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
				if kind == "Service" {
					want = forKnative(want, test.template)
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

// forKnative returns the warnings for the same annotations on a Knative Service, whose
// pods are wrapped without asking, and whose containers can't be chosen.
func forKnative(want []string, template keys) []string {
	_, chosen := template["entrypointer.dev/containers"]
	switch {
	case slices.Equal(want, []string{doesNotAsk}) && template["timeout.entrypointer.dev/web"] != "":
		return []string{noContainer}
	case slices.Equal(want, []string{doesNotAsk}), slices.Equal(want, []string{noContainer}) && chosen:
		return nil
	default:
		return want
	}
}

func TestAWorkloadWhoseAnnotationsAreTooManyToCheckIsNotWarnedOf(t *testing.T) {
	warningsOf := warnings(t, "misplaced-on-workloads.entrypointer.dev")
	many := keys{}
	for i := range 501 {
		many[fmt.Sprint("entrypointer.dev/x", i)] = ""
	}
	for what, annotations := range map[string]keys{
		"many keys":    many,
		"a long value": {"entrypointer.dev/inject": "true", "entrypointer.dev/containers": strings.Repeat(",", 200_000)},
	} {
		object := &unstructured.Unstructured{Object: map[string]any{"metadata": metadata(nil, nil), "spec": map[string]any{"template": map[string]any{
			"metadata": metadata(annotations, nil), "spec": map[string]any{"containers": []any{map[string]any{"name": "app"}}},
		}}}}
		require.Empty(t, warningsOf(t, request{operation: admission.Create, resource: "deployments", kind: "Deployment", object: object, namespace: tenant("true")}), what)
	}
}

func TestThePoliciesKnowEveryOption(t *testing.T) {
	var names []string
	for _, option := range pod.Options() {
		names = append(names, "'"+option.Name+"'")
	}
	want := "[" + strings.Join(names, ", ") + "]"
	for _, policy := range []string{"misplaced-on-workloads.entrypointer.dev", "misplaced-on-pods.entrypointer.dev"} {
		spec := shipped[admissionregistrationv1.ValidatingAdmissionPolicy](t, "230-warn-of-misplaced-annotations.yaml", "ValidatingAdmissionPolicy", policy).Spec
		at := slices.IndexFunc(spec.Variables, func(v admissionregistrationv1.Variable) bool { return v.Name == "options" })
		require.GreaterOrEqual(t, at, 0, policy)
		require.Equal(t, want, spec.Variables[at].Expression, "%s: write the options of pod.Options", policy)
	}
}

func TestAnAnnotationOfAJobTemplateIsWarnedOf(t *testing.T) {
	warningsOf := warnings(t, "misplaced-on-workloads.entrypointer.dev")
	cronJob := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "a"}, "spec": map[string]any{"jobTemplate": map[string]any{
		"metadata": metadata(keys{"entrypointer.dev/inject": "true"}, nil), "spec": map[string]any{"template": map[string]any{}},
	}}}}
	require.Equal(t, []string{wrongPlace}, warningsOf(t,
		request{operation: admission.Create, resource: "cronjobs", kind: "CronJob", object: cronJob, namespace: tenant("true")}))
}

// The injector itself warns of those of pods, with the annotation that may be meant.
func TestAnUnknownAnnotationOfATaskRunIsWarnedOf(t *testing.T) {
	warningsOf := warnings(t, "misplaced-on-pods.entrypointer.dev")
	for kind, resource := range map[string]string{"TaskRun": "taskruns", "PipelineRun": "pipelineruns"} {
		object := &unstructured.Unstructured{Object: map[string]any{"metadata": metadata(keys{"entrypointer.dev/timout": "1h", "timeout.entrypointer.dev/step-a": "1h"}, nil)}}
		require.Equal(t, []string{unknown}, warningsOf(t, request{operation: admission.Create, resource: resource, kind: kind, object: object, namespace: tenant("true")}))
	}
	wrong := &unstructured.Unstructured{Object: map[string]any{"metadata": metadata(keys{"entrypointer.dev/inject": "True"}, nil)}}
	require.Equal(t, []string{wrongInject}, warningsOf(t, request{operation: admission.Create, resource: "taskruns", kind: "TaskRun", object: wrong, namespace: tenant("true")}))
	mistaken := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", Annotations: keys{"entrypointer.dev/timout": "1h"}}}
	require.Empty(t, warningsOf(t, request{operation: admission.Create, resource: "pods", kind: "Pod", object: mistaken, namespace: tenant("true")}))
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
		"a misspelled prefix":                  {"true", nil, podWith(keys{"entrypointer.io/inject": "true"}, nil), []string{misspelled}},
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
