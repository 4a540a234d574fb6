// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"encoding/binary"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/pod-security-admission/api"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

// Whatever a pod looks like that Kubernetes admits: it admits it wrapped, or
// we refuse it in our own words; under the same PodSecurity level, at the same cost.
func FuzzAdmission(f *testing.F) {
	for seed := range uint64(64) {
		f.Add(decisions(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) { admitBoth(t, data) })
}

// What the fuzz target says is worth something only if most of its pods are
// admitted, and some of every level and class.
func TestMadePodsAreAdmitted(t *testing.T) {
	const pods = 500
	admitted, allowed := 0, map[api.Level]int{}
	for seed := range uint64(pods) {
		plain := admitBoth(t, decisions(seed))
		if plain == nil {
			continue
		}
		admitted++
		for _, level := range []api.Level{api.LevelBaseline, api.LevelRestricted} {
			if allows(t, level, plain) {
				allowed[level]++
			}
		}
	}
	t.Logf("of %d pods %d are admitted, %v", pods, admitted, allowed)
	require.Greater(t, admitted, pods/3)
	require.Greater(t, allowed[api.LevelBaseline], pods/10)
	require.Greater(t, allowed[api.LevelRestricted], pods/20)
}

// admitBoth creates a pod twice, and returns the plain one if it was admitted.
func admitBoth(t *testing.T, data []byte) *corev1.Pod {
	t.Helper()
	choose := &chooser{data: data}
	sent, limits := choose.pod(), choose.limitRange()
	sent.Spec.ServiceAccountName = "default" // as admission gives each pod one
	plain, err := cluster{limitRange: limits}.create(t, sent)
	if err != nil {
		return nil // not Kubernetes' idea of a pod
	}
	webhook := newWebhook(ordinary)
	if choose.rarely(4) {
		webhook.Policy.Delivery = pod.DeliveryAuto
	}
	if choose.rarely(2) {
		webhook.Logs = &pod.LogService{
			Address: "https://logs.example.test", CA: "sha256:" + strings.Repeat("a", 64), Audience: "logs",
			CopierImage: webhook.CopierImage, EntrypointImage: webhook.EntrypointImage,
		}
		webhook.Defaults = []pod.Defaults{pod.NamespaceDefaults("tenant", map[string]string{"entrypointer.dev/logs": "stream"})}
	}
	if choose.rarely(2) {
		webhook.Tools = tools
		webhook.Defaults = append(webhook.Defaults, pod.NamespaceDefaults("tenant", map[string]string{
			"entrypointer.dev/tools": one(choose, "ni", "ni, yq"), "entrypointer.dev/tools-in-path": "true",
		}))
	}
	wrapped, err := cluster{webhook: webhook, limitRange: limits}.create(t, sent)
	if isRefusal(err) {
		return nil
	}
	require.NoError(t, err, "%s", asJSON(t, sent))
	requireSameCost(t, plain, wrapped)
	for _, level := range []api.Level{api.LevelBaseline, api.LevelRestricted} {
		require.Equal(t, allows(t, level, plain), allows(t, level, wrapped), "%s: %v", level, judgement(t, level, wrapped))
	}
	return plain
}

// tools are those that pods may ask for.
var tools = []pod.Tool{
	{Name: "ni", Image: "registry.example.test/ni@sha256:" + strings.Repeat("6", 64), Path: "/ko-app/ni"},
	{Name: "yq", Image: "registry.example.test/yq@sha256:" + strings.Repeat("7", 64), Path: "/usr/bin/$(yq)"},
}

// decisions are bytes that decide everything, in a way that a seed repeats.
func decisions(seed uint64) []byte {
	var key [32]byte
	binary.BigEndian.PutUint64(key[:], seed)
	data := make([]byte, 512)
	_, _ = rand.NewChaCha8(key).Read(data)
	return data
}
