// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"testing"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
)

const injector = "system:serviceaccount:entrypointer-system:injector"

func confinement(t *testing.T, name string) *admissionPolicy {
	t.Helper()
	return newPolicy(t, shipped[admissionregistrationv1.ValidatingAdmissionPolicy](t,
		"210-confine-injector.yaml", "ValidatingAdmissionPolicy", name).Spec)
}

func TestTheInjectorDeletesItsWebhooksOnlyWithItsNamespace(t *testing.T) {
	webhooks := confinement(t, "webhooks.entrypointer.dev")
	configuration := shipped[admissionregistrationv1.MutatingWebhookConfiguration](t,
		"600-webhooks.yaml", "MutatingWebhookConfiguration", "pods.entrypointer.dev")
	deletion := request{operation: admission.Delete, resource: "mutatingwebhookconfigurations", user: injector, old: &configuration, params: installed()}
	require.Equal(t, []string{"the injector deletes its webhooks only while its namespace is being deleted"}, webhooks.refuses(t, deletion))
	deletion.params.(*corev1.Namespace).DeletionTimestamp = &metav1.Time{}
	require.Empty(t, webhooks.refuses(t, deletion))
	deletion.params, deletion.user = installed(), "admin"
	require.Empty(t, webhooks.refuses(t, deletion), "others may delete them")
}

func TestTheInjectorChangesOnlyTheCABundleAndTheOwnerOfItsWebhooks(t *testing.T) {
	webhooks := confinement(t, "webhooks.entrypointer.dev")
	owner := metav1.OwnerReference{APIVersion: "v1", Kind: "Namespace", Name: installed().Name, UID: installed().UID}
	type configuration = admissionregistrationv1.MutatingWebhookConfiguration
	for what, test := range map[string]struct {
		allowed bool
		change  func(*configuration)
	}{
		"nothing":                  {true, func(*configuration) {}},
		"the CA bundle":            {true, func(c *configuration) { c.Webhooks[0].ClientConfig.CABundle = []byte("CA") }},
		"its namespace owns it":    {true, func(c *configuration) { c.OwnerReferences = []metav1.OwnerReference{owner} }},
		"nobody owns it":           {false, func(c *configuration) { c.OwnerReferences = nil }},
		"a namespace that is gone": {false, func(c *configuration) { c.OwnerReferences[0].UID = "uid-of-before" }},
		"another namespace":        {false, func(c *configuration) { c.OwnerReferences[0].Name = "tenant" }},
		"another kind":             {false, func(c *configuration) { c.OwnerReferences[0].Kind = "ConfigMap" }},
		"an owner more":            {false, func(c *configuration) { c.OwnerReferences = append(c.OwnerReferences, owner) }},
		"a finalizer":              {false, func(c *configuration) { c.Finalizers = []string{"example.test/stays"} }},
		"no label to find it by":   {false, func(c *configuration) { c.Labels = nil }},
		"its failure policy": {false, func(c *configuration) {
			c.Webhooks[0].FailurePolicy = new(admissionregistrationv1.Ignore)
		}},
		"its conditions":           {false, func(c *configuration) { c.Webhooks[0].MatchConditions = nil }},
		"that it is called again":  {false, func(c *configuration) { c.Webhooks[0].ReinvocationPolicy = nil }},
		"everything":               {false, func(c *configuration) { c.Webhooks[0].Rules[0].Resources = []string{"*"} }},
		"whatever is in a cluster": {false, func(c *configuration) { c.Webhooks[0].NamespaceSelector = nil }},
	} {
		t.Run(what, func(t *testing.T) {
			before := shipped[configuration](t, "600-webhooks.yaml", "MutatingWebhookConfiguration", "pods.entrypointer.dev")
			before.OwnerReferences = []metav1.OwnerReference{owner}
			if what == "its namespace owns it" {
				before.OwnerReferences = nil
			}
			after := before.DeepCopy()
			test.change(after)
			says := webhooks.refuses(t, request{operation: admission.Update, resource: "mutatingwebhookconfigurations", user: injector, object: after, old: &before, params: installed()})
			require.Equal(t, test.allowed, len(says) == 0, "%v", says)
		})
	}
}

func TestTheInjectorWritesEventsAsItselfWhereItIsConcerned(t *testing.T) {
	events := confinement(t, "events.entrypointer.dev")
	event := func(component, kind string) *corev1.Event {
		return &corev1.Event{
			Source: corev1.EventSource{Component: component}, ReportingController: component,
			InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: kind},
		}
	}
	in := func(name, annotation string) *corev1.Namespace {
		ns := tenant(annotation)
		ns.Name = name
		return ns
	}
	foreign := event("entrypointer", "Pod")
	foreign.ReportingController = "kubelet"
	for what, test := range map[string]struct {
		allowed     bool
		event, old  *corev1.Event
		namespace   *corev1.Namespace
		writtenByUs bool
	}{
		"about a pod, where somebody opted in":   {true, event("entrypointer", "ReplicaSet"), nil, in("tenant", "true"), true},
		"again":                                  {true, event("entrypointer", "ReplicaSet"), event("entrypointer", "ReplicaSet"), in("tenant", "true"), true},
		"about a namespace":                      {true, event("entrypointer", "Namespace"), nil, in("default", ""), true},
		"about its own":                          {true, event("entrypointer", "ConfigMap"), nil, in("entrypointer-system", ""), true},
		"about a pod elsewhere":                  {false, event("entrypointer", "Pod"), nil, in("tenant", ""), true},
		"about a pod where somebody opted out":   {false, event("entrypointer", "Pod"), nil, in("tenant", "false"), true},
		"about a pod of default":                 {false, event("entrypointer", "Pod"), nil, in("default", ""), true},
		"about the cluster's own":                {false, event("entrypointer", "Pod"), nil, in("kube-system", "true"), true},
		"as the kubelet":                         {false, event("kubelet", "Pod"), nil, in("tenant", "true"), true},
		"as the kubelet, in the newer field":     {false, foreign, nil, in("tenant", "true"), true},
		"over one of the kubelet's":              {false, event("entrypointer", "Pod"), event("kubelet", "Pod"), in("tenant", "true"), true},
		"the kubelet's own, which are untouched": {true, event("kubelet", "Pod"), nil, in("tenant", ""), false},
	} {
		t.Run(what, func(t *testing.T) {
			r := request{operation: admission.Create, resource: "events", user: "system:node:a", object: test.event, namespace: test.namespace}
			if test.writtenByUs {
				r.user = injector
			}
			if test.old != nil {
				r.operation, r.old = admission.Update, test.old
			}
			says := events.refuses(t, r)
			require.Equal(t, test.allowed, len(says) == 0, "%v", says)
		})
	}
}

func TestTheInjectorWritesNoSecretButItsCertificates(t *testing.T) {
	certificates := confinement(t, "certificates.entrypointer.dev")
	for what, test := range map[string]struct {
		allowed         bool
		namespace, name string
		kind            corev1.SecretType
	}{
		"certificates":               {true, "entrypointer-system", "entrypointer-webhook-certs", corev1.SecretTypeOpaque},
		"certificates, by default":   {true, "entrypointer-system", "entrypointer-webhook-certs", ""},
		"a service account's token":  {false, "entrypointer-system", "entrypointer-webhook-certs", corev1.SecretTypeServiceAccountToken},
		"another":                    {false, "entrypointer-system", "another", corev1.SecretTypeOpaque},
		"of this name, but a tenant": {false, "tenant", "entrypointer-webhook-certs", corev1.SecretTypeOpaque},
	} {
		t.Run(what, func(t *testing.T) {
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: test.name, Namespace: test.namespace}, Type: test.kind}
			ns := tenant("true")
			ns.Name = test.namespace
			says := certificates.refuses(t, request{operation: admission.Create, resource: "secrets", user: injector, object: secret, namespace: ns})
			require.Equal(t, test.allowed, len(says) == 0, "%v", says)
		})
	}
}

// By the annotation, the policy of config/outage wraps pods.
func TestTheInjectorWritesNoAnnotationOfANamespaceButOneOfItsOwn(t *testing.T) {
	policy := confinement(t, "labels.entrypointer.dev")
	const ours, images = "entrypointer-wraps-taskruns-1", "entrypointer-copier-image"
	for what, test := range map[string]struct {
		allowed       bool
		name          string
		before, after map[string]string
	}{
		"sets its own":        {true, "entrypointer-system", keys{images: "x"}, keys{images: "x", ours: "x"}},
		"the first of all":    {true, "entrypointer-system", nil, keys{ours: "x"}},
		"changes its own":     {true, "entrypointer-system", keys{images: "x", ours: "x"}, keys{images: "x", ours: "y"}},
		"removes its own":     {true, "entrypointer-system", keys{images: "x", ours: "x"}, keys{images: "x"}},
		"nothing":             {true, "tenant", keys{"a": "b"}, keys{"a": "b"}},
		"sets it elsewhere":   {false, "tenant", nil, keys{ours: "x"}},
		"changes another":     {false, "entrypointer-system", keys{images: "x"}, keys{images: "y", ours: "x"}},
		"removes another":     {false, "entrypointer-system", keys{images: "x"}, keys{ours: "x"}},
		"sets another":        {false, "entrypointer-system", nil, keys{images: "x"}},
		"opts a namespace in": {false, "tenant", nil, keys{"entrypointer.dev/inject": "true"}},
	} {
		namespace := func(annotations map[string]string) *corev1.Namespace {
			return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: test.name, Annotations: annotations}}
		}
		says := policy.refuses(t, request{operation: admission.Update, resource: "namespaces", user: injector, object: namespace(test.after), old: namespace(test.before)})
		require.Equal(t, test.allowed, len(says) == 0, "%s: %v", what, says)
	}
}
