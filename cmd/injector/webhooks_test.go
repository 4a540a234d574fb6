// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/yaml"

	"github.com/entrypointer/entrypointer/internal/podwebhook"
)

// What run tells the intake, and which configurations are kept, is what is installed.
func TestTheInstalledWebhooksAreThoseThatTheInjectorKnows(t *testing.T) {
	text, err := os.ReadFile("../../config/webhook/600-webhooks.yaml")
	require.NoError(t, err)
	found := map[string][]string{}
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		// The fields of the other kind that matter have the same names.
		var c admissionregistrationv1.MutatingWebhookConfiguration
		require.NoError(t, yaml.Unmarshal([]byte(document), &c))
		found[c.Kind] = append(found[c.Kind], c.Name)
		for _, w := range c.Webhooks {
			want := admissionregistrationv1.Ignore
			if *w.ClientConfig.Service.Path == podwebhook.Path && w.Name != "taskruns.entrypointer.dev" {
				want = admissionregistrationv1.Fail // the policy undecided.entrypointer.dev refuses what isn't decided
			}
			require.Equal(t, want, *w.FailurePolicy, w.Name)
		}
	}
	require.ElementsMatch(t, webhooks.Mutating, found["MutatingWebhookConfiguration"])
	require.ElementsMatch(t, webhooks.Validating, found["ValidatingWebhookConfiguration"])
}
