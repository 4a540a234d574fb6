// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/entrypointer/entrypointer/internal/config"
	"github.com/entrypointer/entrypointer/pkg/pod"
	"github.com/entrypointer/entrypointer/test/framework"
)

// configure writes a key of our ConfigMap, and returns what undoes it.
func configure(t *testing.T, key, value string, options metav1.UpdateOptions) (undo []byte, _ error) {
	t.Helper()
	return setKey(t, framework.SystemNamespace, config.Name, key, value, options)
}

// configureForNow writes a key of our ConfigMap, until the end of the test.
func configureForNow(t *testing.T, key, value string) {
	t.Helper()
	setKeyForNow(t, framework.SystemNamespace, config.Name, key, value)
}

func setKey(t *testing.T, namespace, name, key, value string, options metav1.UpdateOptions) (undo []byte, _ error) {
	t.Helper()
	maps := cluster.Kube.CoreV1().ConfigMaps(namespace)
	current, err := maps.Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	undo = fmt.Appendf(nil, `{"data":{%q:null}}`, key)
	if before, ok := current.Data[key]; ok {
		undo = fmt.Appendf(nil, `{"data":{%q:%q}}`, key, before)
	}
	current.Data[key] = value
	_, err = maps.Update(t.Context(), current, options)
	return undo, err
}

func setKeyForNow(t *testing.T, namespace, name, key, value string) {
	t.Helper()
	undo, err := setKey(t, namespace, name, key, value, metav1.UpdateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		_, err := cluster.Kube.CoreV1().ConfigMaps(namespace).Patch(ctx, name, types.MergePatchType, undo, metav1.PatchOptions{})
		require.NoError(t, err)
	})
}

func TestTheOperatorMayLetAPodRunUnwrappedWhoseImageCanNotBeFound(t *testing.T) {
	namespace := optedInNamespace(t)
	p := askingPod("waived", corev1.Container{Name: "main", Image: image(t, "no-such-image-of-entrypointer:1")})
	_, err := wouldBecome(t, namespace, p)
	require.ErrorContains(t, err, "no-such-image", "by default")
	configureForNow(t, "failed-lookup", "admit")
	eventually(t, time.Minute, "the injector to admit it unwrapped", func() error {
		seen, err := wouldBecome(t, namespace, p)
		if err != nil {
			return err
		}
		return framework.CheckNotWrapped(seen)
	})
	p.Spec.Containers = append(p.Spec.Containers, busybox(t, "other", "true"))
	seen, err := wouldBecome(t, namespace, p)
	require.NoError(t, err)
	require.Equal(t, "PartlyInjected by init-container: main", seen.Annotations[pod.StatusAnnotation])
	requireWrapped(t, seen, "other")
}

func TestTheOperatorMayForbidPodsToOptOut(t *testing.T) {
	namespace := optedInNamespace(t)
	p := plainPod("opts-out", busybox(t, "step-only", "true"))
	p.Labels = map[string]string{"tekton.dev/taskRun": "any"}
	p.Annotations = map[string]string{pod.InjectAnnotation: "false"}
	seen, err := wouldBecome(t, namespace, p)
	require.NoError(t, err)
	require.NoError(t, framework.CheckNotWrapped(seen), "by default")
	configureForNow(t, "pod-opt-out", "forbidden")
	eventually(t, time.Minute, "the injector to wrap it all the same", func() error {
		seen, err := wouldBecome(t, namespace, p)
		if err == nil && framework.CheckNotWrapped(seen) == nil {
			return errors.New("it would run as it is")
		}
		return err
	})
}

func TestTheOperatorMayRefusePodsWhoseLogsCanNotBeSent(t *testing.T) {
	namespace := optedInNamespace(t)
	terminal := busybox(t, "main", "true")
	terminal.TTY = true
	p := askingPod("unsent", terminal)
	p.Annotations["entrypointer.dev/logs"] = "stream"
	seen, err := wouldBecome(t, namespace, p)
	require.NoError(t, err, "by default")
	requireWrapped(t, seen, "main")
	configureForNow(t, "unsent-logs", "refuse")
	eventually(t, time.Minute, "the injector to refuse it", func() error {
		_, err := wouldBecome(t, namespace, p)
		if err == nil {
			return errors.New("it would be admitted")
		}
		require.ErrorContains(t, err, `sending the output of container "main" to the log service: it has a terminal`)
		return nil
	})
	p.Spec.Containers[0].TTY = false
	seen, err = wouldBecome(t, namespace, p)
	require.NoError(t, err)
	requireWrapped(t, seen, "main")
}

func TestTheOperatorSaysWhichRegistriesMayBeAsked(t *testing.T) {
	namespace, other := optedInNamespace(t), optedInNamespace(t)
	p := askingPod("restricted", busybox(t, "main"))
	registry, _, _ := strings.Cut(p.Spec.Containers[0].Image, "/")
	configureForNow(t, "allowed-registries."+namespace, registry)
	eventually(t, time.Minute, "the injector to refuse it in another namespace", func() error {
		_, err := wouldBecome(t, other, p)
		if err == nil {
			return errors.New("it would be admitted")
		}
		require.ErrorContains(t, err, "NotAllowed")
		require.ErrorContains(t, err, "set command:")
		return nil
	})
	seen, err := wouldBecome(t, namespace, p)
	require.NoError(t, err)
	requireWrapped(t, seen, "main")
}

func TestTheOperatorSaysWhatAnImageCarriesThatNoRegistryServes(t *testing.T) {
	namespace := optedInNamespace(t)
	loaded := "loaded.invalid/on-the-node:1"
	p := askingPod("static", corev1.Container{Name: "main", Image: loaded, Args: []string{"now"}})
	_, err := wouldBecome(t, namespace, p)
	require.ErrorContains(t, err, loaded)
	configureForNow(t, "static-images", loaded+": {entrypoint: [/run, 5$], cmd: [later]}\n")
	eventually(t, time.Minute, "the injector to know it", func() error {
		seen, err := wouldBecome(t, namespace, p)
		if err != nil {
			return err
		}
		require.Equal(t, []string{"-image-words=2:" + loaded, "--", "/run", "5$$", "now"}, seen.Spec.Containers[0].Args)
		require.Equal(t, loaded, seen.Spec.Containers[0].Image)
		return nil
	})
}

func TestAConfigurationThatCanNotBeReadIsRefused(t *testing.T) {
	t.Parallel()
	dryRun := metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}}
	for _, bad := range []struct {
		key, value string
		says       []string
	}{
		{"failed-lookup", "ignore", []string{`key "failed-lookup"`, `"ignore"`, `"refuse"`, `"admit"`}},
		{"lookup-timeout", "1m", []string{`key "lookup-timeout"`, `"1m"`, "100ms", "3s"}},
		{"unsent-logs", "no", []string{`key "unsent-logs"`, `"no"`, `"admit"`, `"refuse"`}},
		{"pod-opt-out", "no", []string{`key "pod-opt-out"`, `"no"`, `"allowed"`, `"forbidden"`}},
		{"lookup-timout", "1s", []string{`key "lookup-timout"`, "unknown", "lookup-timeout"}},
		{"allowed-registries", "https://registry.example", []string{`key "allowed-registries"`, `"https://registry.example" is no registry`}},
		{"registry-ca", "none", []string{`key "registry-ca"`, "-----BEGIN CERTIFICATE-----"}},
		{"_example", "lookup-timeout: 1s", []string{"_example"}},
	} {
		_, err := configure(t, bad.key, bad.value, dryRun)
		require.Error(t, err, "%s: %s", bad.key, bad.value)
		for _, part := range bad.says {
			require.ErrorContains(t, err, part)
		}
	}
	// What applies the ConfigMap for an operator may not know of its labels.
	_, err := cluster.Kube.CoreV1().ConfigMaps(framework.SystemNamespace).Patch(t.Context(), config.Name, types.MergePatchType,
		[]byte(`{"metadata":{"labels":null},"data":{"pod-opt-out":"no"}}`), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
	require.ErrorContains(t, err, `key "pod-opt-out"`, "without labels")
	_, err = configure(t, "lookup-timeout", "1s", dryRun)
	require.NoError(t, err)
}
