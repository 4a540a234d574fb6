// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/config"
)

func TestTheManifestsHaveTheNamesThatTheProgramsKnow(t *testing.T) {
	for file, name := range map[string]string{
		"300-config-entrypointer.yaml": config.Name, "400-webhook-secret.yaml": config.ServedSecret, "401-webhook-service.yaml": config.WebhookService,
	} {
		manifest, err := os.ReadFile("../../config/webhook/" + file)
		require.NoError(t, err)
		require.Contains(t, string(manifest), "\nmetadata:\n  name: "+name+"\n", file)
	}
}
