// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/entrypointer/entrypointer/test/framework"
)

// A configurationAPI is the part of the API for one kind of webhook configurations that the
// tests need.
type configurationAPI struct {
	names []string
	// clients returns how the webhooks of a configuration are called, by their names.
	clients func(ctx context.Context, name string) (map[string]admissionregistrationv1.WebhookClientConfig, error)
	patch   func(ctx context.Context, name string, patch []byte) error
}

func configurationAPIs() []configurationAPI {
	mutating, validating := cluster.Kube.AdmissionregistrationV1().MutatingWebhookConfigurations(), cluster.Kube.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	return []configurationAPI{{
		names: []string{framework.PodWebhook, framework.NamespaceWebhook},
		clients: func(ctx context.Context, name string) (map[string]admissionregistrationv1.WebhookClientConfig, error) {
			c, err := mutating.Get(ctx, name, metav1.GetOptions{})
			clients := map[string]admissionregistrationv1.WebhookClientConfig{}
			for _, w := range c.Webhooks {
				clients[w.Name] = w.ClientConfig
			}
			return clients, err
		},
		patch: func(ctx context.Context, name string, patch []byte) error {
			_, err := mutating.Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
			return err
		},
	}, {
		names: []string{framework.ConfigWebhook, "workloads.entrypointer.dev"},
		clients: func(ctx context.Context, name string) (map[string]admissionregistrationv1.WebhookClientConfig, error) {
			c, err := validating.Get(ctx, name, metav1.GetOptions{})
			clients := map[string]admissionregistrationv1.WebhookClientConfig{}
			for _, w := range c.Webhooks {
				clients[w.Name] = w.ClientConfig
			}
			return clients, err
		},
		patch: func(ctx context.Context, name string, patch []byte) error {
			_, err := validating.Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
			return err
		},
	}}
}

// An entry that calls the injector by another name needs our CA, and each of the others has one
// of its own, or none. No API server calls these: no resource has their group.
func TestEntriesThatSomebodyAddsKeepNoReplicaUnready(t *testing.T) {
	const copied, withURL, withService = "copied.example.test", "url.example.test", "service.example.test"
	services := map[string]map[string]any{
		copied:      {"service": map[string]any{"namespace": framework.SystemNamespace, "name": framework.WebhookService, "path": "/copied"}},
		withURL:     {"url": "https://policies.example.test/"},
		withService: {"service": map[string]any{"namespace": "policies", "name": framework.WebhookService}},
	}
	var added, removed []map[string]any
	for name, client := range services {
		added = append(added, map[string]any{
			"name": name, "clientConfig": client, "failurePolicy": "Ignore", "sideEffects": "None", "admissionReviewVersions": []string{"v1"},
			"rules": []map[string]any{{"apiGroups": []string{"example.test"}, "apiVersions": []string{"v1"}, "operations": []string{"CREATE"}, "resources": []string{"examples"}}},
		})
		removed = append(removed, map[string]any{"$patch": "delete", "name": name})
	}
	for _, api := range configurationAPIs() {
		for _, name := range api.names {
			t.Cleanup(func() {
				require.NoError(t, api.patch(context.WithoutCancel(t.Context()), name, webhooksPatch(t, removed)))
			})
			require.NoError(t, api.patch(t.Context(), name, webhooksPatch(t, added)))
		}
	}
	before, err := cluster.InjectorPods(t.Context())
	require.NoError(t, err)
	// Replicas that start wait for the configurations.
	require.NoError(t, cluster.Kube.CoreV1().Pods(framework.SystemNamespace).Delete(t.Context(), before[0].Name, metav1.DeleteOptions{}))
	eventually(t, 2*time.Minute, "the replica in the place of "+before[0].Name, func() error {
		now, err := cluster.InjectorPods(t.Context())
		if err != nil {
			return err
		}
		for _, p := range now {
			if p.UID == before[0].UID {
				return errors.New("it hasn't ended yet")
			}
		}
		return nil
	})
	require.NoError(t, cluster.WaitForInjector(t.Context()))
	for _, api := range configurationAPIs() {
		for _, name := range api.names {
			clients, err := api.clients(t.Context(), name)
			require.NoError(t, err)
			require.NotEmpty(t, clients[copied].CABundle, "%s: a copy calls the injector", name)
			require.Empty(t, clients[withURL].CABundle, name)
			require.Empty(t, clients[withService].CABundle, name)
		}
	}
}

func webhooksPatch(t *testing.T, webhooks []map[string]any) []byte {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"webhooks": webhooks})
	require.NoError(t, err)
	return patch
}
