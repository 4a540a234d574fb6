//go:build outage

// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package outage

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/entrypointer/entrypointer/config"
	injectorconfig "github.com/entrypointer/entrypointer/internal/config"
)

// podWebhooks is the name of the configuration with the webhooks of pods.
const podWebhooks = "pods.entrypointer.dev"

// installWebhook creates the injector's namespace, and what config/webhook has for pods, with
// this client in the place of the injector.
func (s *apiServer) installWebhook(t testing.TB, client admissionregistrationv1.WebhookClientConfig) {
	t.Helper()
	s.namespace(t, "entrypointer-system", nil, map[string]string{"entrypointer-copier-image": ourImage})
	s.create(t, manifest(t, "webhook/220-refuse-unwrapped-pods.yaml"))
	s.create(t, manifest(t, "webhook/225-refuse-undecided-pods.yaml"))
	configuration := webhookConfiguration(t, client)
	_, err := s.AdmissionregistrationV1().MutatingWebhookConfigurations().Create(t.Context(), configuration, metav1.CreateOptions{})
	require.NoError(t, err)
}

// webhookConfiguration is that of the webhooks of pods, with this client.
func webhookConfiguration(t testing.TB, client admissionregistrationv1.WebhookClientConfig) *admissionregistrationv1.MutatingWebhookConfiguration {
	t.Helper()
	for _, document := range documents(manifest(t, "webhook/600-webhooks.yaml")) {
		var configuration admissionregistrationv1.MutatingWebhookConfiguration
		require.NoError(t, yaml.Unmarshal(document, &configuration)) // of several kinds
		if configuration.Name != podWebhooks {
			continue
		}
		for at := range configuration.Webhooks {
			configuration.Webhooks[at].ClientConfig = client
		}
		return &configuration
	}
	require.Fail(t, "config/webhook lacks "+podWebhooks)
	return nil
}

// callInjector has the webhooks call this client from now on.
func (s *apiServer) callInjector(t testing.TB, client admissionregistrationv1.WebhookClientConfig) {
	t.Helper()
	api := s.AdmissionregistrationV1().MutatingWebhookConfigurations()
	current, err := api.Get(t.Context(), podWebhooks, metav1.GetOptions{})
	require.NoError(t, err)
	for at := range current.Webhooks {
		current.Webhooks[at].ClientConfig = client
	}
	_, err = api.Update(t.Context(), current, metav1.UpdateOptions{})
	require.NoError(t, err)
}

// installOutage creates what config/outage has, with the injector's word that it would wrap
// plain pods by an image, "" if it wouldn't.
func (s *apiServer) installOutage(t testing.TB, image string) {
	t.Helper()
	s.create(t, manifest(t, outageManifest))
	s.promise(t, image)
}

// promise has the injector say by which image it would wrap plain pods.
func (s *apiServer) promise(t testing.TB, image string) {
	t.Helper()
	s.annotateInjectors(t, injectorconfig.OutageAnnotation, image)
}

// annotateInjectors annotates the injector's namespace.
func (s *apiServer) annotateInjectors(t testing.TB, key, value string) {
	t.Helper()
	namespace, err := s.CoreV1().Namespaces().Get(t.Context(), "entrypointer-system", metav1.GetOptions{})
	require.NoError(t, err)
	if namespace.Annotations == nil {
		namespace.Annotations = map[string]string{}
	}
	namespace.Annotations[key] = value
	if value == "" {
		delete(namespace.Annotations, key)
	}
	_, err = s.CoreV1().Namespaces().Update(t.Context(), namespace, metav1.UpdateOptions{})
	require.NoError(t, err)
}

const outageManifest = "outage/210-taskruns.yaml"

// manifest is a file of config.
func manifest(t testing.TB, file string) []byte {
	t.Helper()
	text, err := config.Manifests.ReadFile(file)
	require.NoError(t, err)
	return text
}

func documents(manifest []byte) [][]byte { return bytes.Split(manifest, []byte("\n---\n")) }

// create creates the policies and bindings of a manifest.
func (s *apiServer) create(t testing.TB, manifest []byte) {
	t.Helper()
	for _, document := range documents(manifest) {
		switch api := s.AdmissionregistrationV1(); kindOf(t, document).Kind {
		case "MutatingAdmissionPolicy":
			create(t, api.MutatingAdmissionPolicies().Create, document)
		case "MutatingAdmissionPolicyBinding":
			create(t, api.MutatingAdmissionPolicyBindings().Create, document)
		case "ValidatingAdmissionPolicy":
			create(t, api.ValidatingAdmissionPolicies().Create, document)
		case "ValidatingAdmissionPolicyBinding":
			create(t, api.ValidatingAdmissionPolicyBindings().Create, document)
		default:
			require.Fail(t, "no such kind", "%s", document)
		}
	}
}

// remove deletes a mutating policy or its binding.
func (s *apiServer) remove(t testing.TB, document []byte) {
	t.Helper()
	api, object := s.AdmissionregistrationV1(), kindOf(t, document)
	if object.Kind == "MutatingAdmissionPolicy" {
		require.NoError(t, api.MutatingAdmissionPolicies().Delete(t.Context(), object.Name, metav1.DeleteOptions{}))
		return
	}
	require.Equal(t, "MutatingAdmissionPolicyBinding", object.Kind)
	require.NoError(t, api.MutatingAdmissionPolicyBindings().Delete(t.Context(), object.Name, metav1.DeleteOptions{}))
}

func kindOf(t testing.TB, document []byte) (object metav1.PartialObjectMetadata) {
	t.Helper()
	require.NoError(t, yaml.Unmarshal(document, &object))
	return object
}

func create[T any](t testing.TB, create func(context.Context, *T, metav1.CreateOptions) (*T, error), document []byte) {
	t.Helper()
	var object T
	require.NoError(t, yaml.UnmarshalStrict(document, &object))
	_, err := create(t.Context(), &object, metav1.CreateOptions{})
	require.NoError(t, err)
}
