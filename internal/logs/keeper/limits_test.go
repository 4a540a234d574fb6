// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package keeper

import (
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"knative.dev/pkg/configmap"
	"sigs.k8s.io/yaml"
)

func TestTheShippedExampleShowsTheDefaults(t *testing.T) {
	file, err := os.ReadFile("../../../config/logs/310-config-logs.yaml")
	require.NoError(t, err)
	var shipped corev1.ConfigMap
	require.NoError(t, yaml.UnmarshalStrict(file, &shipped))
	require.Equal(t, ConfigMap, shipped.Name)
	example := shipped.Data[configmap.ExampleKey]
	require.Equal(t, exampleKey, configmap.ExampleKey)
	require.Equal(t, configmap.Checksum(example), shipped.Annotations[configmap.ExampleChecksumAnnotation],
		"correct the annotation when the example changes")
	var shown map[string]string
	require.NoError(t, yaml.Unmarshal([]byte(example), &shown))
	require.Len(t, shown, len(limitSetters)+1, "the example shows every key there is")
	for _, data := range []map[string]string{shipped.Data, shown, nil} {
		limits, err := ReadLimits(data)
		require.NoError(t, err)
		require.Empty(t, limits.Namespaces)
		limits.Namespaces = nil
		require.Equal(t, &DefaultLimits, limits)
	}
}

func TestANamespaceCanHaveItsOwnLimits(t *testing.T) {
	limits, err := ReadLimits(map[string]string{
		"quota.team-a": "5Gi", "retention.team-a": "0", "streams.team-b": "10", "linger.team-b": "5s", "quota": "100Mi", "retention": "12h", "interval": "10s",
	})
	require.NoError(t, err)
	require.Equal(t, NamespaceLimits{0, 5 << 30, 100_000, LingerByStorage}, limits.Of("team-a"))
	require.Equal(t, NamespaceLimits{12 * time.Hour, 100 << 20, 10, 5 * time.Second}, limits.Of("team-b"))
	require.Equal(t, NamespaceLimits{12 * time.Hour, 100 << 20, 100_000, LingerByStorage}, limits.Of("team-c"))
	require.Equal(t, 10*time.Second, limits.Interval)
}

func TestInvalidLimitsAreReported(t *testing.T) {
	for key, value := range map[string]string{
		"retention": "-1h", "retention.a": "30 days", "quota": "-1", "quota.b": "lots", "streams": "", "interval": "0", "linger": "31s", "linger.a": "soon", "quota.": "1", "quotas": "1", "retention.a.b": "1h",
	} {
		_, err := ReadLimits(map[string]string{key: value})
		require.ErrorContains(t, err, "key \""+key+"\"", "%s=%s", key, value)
	}
}

// An object of a volume costs no money, so its containers hold little back.
func TestTheLingerOfTheOperatorOrElseOfTheStorageCounts(t *testing.T) {
	k := New(nil, nil, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	require.Equal(t, 30*time.Second, k.Linger("team-a"))
	k.OwnLinger = LingerOnVolume
	require.Equal(t, time.Second, k.Linger("team-a"))
	limits, err := ReadLimits(map[string]string{"linger": "10s", "linger.team-b": "0"})
	require.NoError(t, err)
	k.Use(limits)
	require.Equal(t, 10*time.Second, k.Linger("team-a"))
	require.Zero(t, k.Linger("team-b"))
}
