// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/internal/config"
	"github.com/entrypointer/entrypointer/test/kit"
)

// configure would write a key of the ConfigMap, if it weren't a dry run.
func configure(t *testing.T, key, value string) error {
	t.Helper()
	maps := cluster.Kube.CoreV1().ConfigMaps(kit.SystemNamespace)
	current, err := maps.Get(t.Context(), config.Name, metav1.GetOptions{})
	require.NoError(t, err)
	if current.Data == nil {
		current.Data = map[string]string{}
	}
	current.Data[key] = value
	_, err = maps.Update(t.Context(), current, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}

func TestAConfigurationThatCanNotBeReadIsRefused(t *testing.T) {
	t.Parallel()
	for _, bad := range []struct {
		key, value string
		says       []string
	}{
		{"failed-lookup", "ignore", []string{`key "failed-lookup"`, `"ignore"`, `"refuse"`, `"admit"`}},
		{"lookup-timeout", "1m", []string{`key "lookup-timeout"`, `"1m"`, "100ms", "3s"}},
		{"pod-opt-out", "no", []string{`key "pod-opt-out"`, `"no"`, `"allowed"`, `"forbidden"`}},
		{"lookup-timout", "1s", []string{`key "lookup-timout" is unknown`, "lookup-timeout"}},
		{"_example", "lookup-timeout: 1s", []string{"_example"}},
	} {
		err := configure(t, bad.key, bad.value)
		require.Error(t, err, "%s: %s", bad.key, bad.value)
		for _, part := range bad.says {
			require.ErrorContains(t, err, part)
		}
	}
	require.NoError(t, configure(t, "lookup-timeout", "1s"))
}
