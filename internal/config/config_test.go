// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"knative.dev/pkg/configmap"
	logtesting "knative.dev/pkg/logging/testing"
	"sigs.k8s.io/yaml"

	"github.com/entrypointer/entrypointer/internal/config"
	"github.com/entrypointer/entrypointer/pkg/pod"
)

// shipped is the ConfigMap that users install.
func shipped(t *testing.T) *corev1.ConfigMap {
	t.Helper()
	file, err := os.ReadFile("../../config/300-config-entrypointer.yaml")
	require.NoError(t, err)
	var cm corev1.ConfigMap
	require.NoError(t, yaml.UnmarshalStrict(file, &cm))
	return &cm
}

func TestTheShippedExampleShowsTheDefaults(t *testing.T) {
	cm := shipped(t)
	require.Equal(t, config.Name, cm.Name)
	example := cm.Data[configmap.ExampleKey]
	require.Equal(t, configmap.Checksum(example), cm.Annotations[configmap.ExampleChecksumAnnotation],
		"correct the annotation when the example changes")

	defaults, err := config.FromConfigMap(cm)
	require.NoError(t, err)
	require.Equal(t, &config.Config{LookupTimeout: 3 * time.Second}, defaults)

	var shown map[string]string
	require.NoError(t, yaml.Unmarshal([]byte(example), &shown))
	require.Len(t, shown, 3)
	explicit, err := config.FromConfigMap(&corev1.ConfigMap{Data: shown})
	require.NoError(t, err)
	require.Equal(t, defaults, explicit)
}

func TestEachKeyIsRead(t *testing.T) {
	got, err := config.FromConfigMap(&corev1.ConfigMap{Data: map[string]string{
		"lookup-timeout": "250ms", "failed-lookup": "admit", "pod-opt-out": "forbidden",
	}})
	require.NoError(t, err)
	require.Equal(t, &config.Config{
		LookupTimeout: 250 * time.Millisecond,
		Policy:        pod.Policy{ForbidOptOut: true, WaiveFailedLookups: true},
	}, got)
}

func TestABadValueSaysWhatWouldBeRight(t *testing.T) {
	for key, test := range map[string]struct{ value, says string }{
		"lookup-timeout": {"1m", `key "lookup-timeout": "1m" is not a duration from 100ms to 3s`},
		"failed-lookup":  {"ignore", `key "failed-lookup": "ignore" is neither "refuse" nor "admit"`},
		"pod-opt-out":    {"", `key "pod-opt-out": "" is neither "allowed" nor "forbidden"`},
		"lookup-timout":  {"1s", `key "lookup-timout" is unknown; the keys are failed-lookup, lookup-timeout, pod-opt-out`},
	} {
		_, err := config.FromConfigMap(&corev1.ConfigMap{Data: map[string]string{key: test.value}})
		require.ErrorContains(t, err, test.says)
	}
}

func TestTheLastGoodConfigurationStaysInForce(t *testing.T) {
	named := metav1.ObjectMeta{Name: config.Name}
	watcher := &configmap.ManualWatcher{}
	store := config.NewStore(logtesting.TestLogger(t), watcher)
	watcher.OnChange(&corev1.ConfigMap{ObjectMeta: named, Data: map[string]string{"pod-opt-out": "forbidden"}})
	watcher.OnChange(&corev1.ConfigMap{ObjectMeta: named, Data: map[string]string{"pod-opt-out": "perhaps"}})
	require.True(t, store.Load().Policy.ForbidOptOut)
}
