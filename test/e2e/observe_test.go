// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/entrypointer/entrypointer/test/framework"
)

func TestTheInjectorCountsWhatItDecides(t *testing.T) {
	t.Parallel()
	namespace := optedInNamespace(t)
	createPod(t, namespace, askingPod("counted", busybox(t, "main", "true")))
	_, err := wouldBecome(t, namespace, askingPod("looked-up", busybox(t, "main")))
	require.NoError(t, err)
	eventually(t, time.Minute, "both to be counted", func() error {
		replicas, err := cluster.InjectorPods(t.Context())
		if err != nil {
			return err
		}
		var all strings.Builder
		for _, replica := range replicas {
			page, err := cluster.Kube.CoreV1().Pods(framework.SystemNamespace).ProxyGet("http", replica.Name, "9090", "/metrics", nil).DoRaw(t.Context())
			if err != nil {
				return err
			}
			all.Write(page)
		}
		for _, sample := range []string{
			`entrypointer_pod_decisions_total{`, `outcome="Injected"`, `owner="Annotation"`,
			`entrypointer_pod_decision_duration_seconds_bucket{`, `entrypointer_lookup_duration_seconds_count{`,
		} {
			if !strings.Contains(all.String(), sample) {
				return fmt.Errorf("no %s in the metrics", sample)
			}
		}
		return nil
	})
}

func TestADecisionIsOneLineOfTheInjectorsLog(t *testing.T) {
	t.Parallel()
	namespace := optedInNamespace(t)
	name := "logged-in-" + namespace
	createPod(t, namespace, askingPod(name, busybox(t, "main", "true")))
	waitUntilDone(t, namespace, name)
	var about []string
	eventually(t, time.Minute, "a line about the pod", func() error {
		text, err := framework.Run(t.Context(), "kubectl", "-n", framework.SystemNamespace, "logs", "-l", framework.InjectorSelector, "--tail=-1")
		if err != nil {
			return err
		}
		about = nil
		for line := range strings.Lines(string(text)) {
			if strings.Contains(line, name) {
				about = append(about, line)
			}
		}
		if len(about) == 0 {
			return errors.New("there is none")
		}
		return nil
	})
	require.Len(t, about, 1)
	var line map[string]any
	require.NoError(t, json.Unmarshal([]byte(about[0]), &line), about[0])
	for field, want := range map[string]any{"namespace": namespace, "pod": name, "outcome": "Injected", "owner": "Annotation", "wrapped": []any{"main"}} {
		require.Equal(t, want, line[field], "field %s of %s", field, about[0])
	}
	require.Contains(t, line["injector"], "injector-", "the replica")
}

func TestAnAnnotationThatNobodyReadsIsWarnedOf(t *testing.T) {
	t.Parallel()
	namespace := optedInNamespace(t)
	p := askingPod("misspelt", busybox(t, "main", "true"))
	p.Annotations["entrypointer.dev/mod"] = "exec"
	var heard warnings
	client, err := typedcorev1.NewForConfig(heardBy(&heard))
	require.NoError(t, err)
	_, err = client.Pods(namespace).Create(t.Context(), p, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	require.NoError(t, err)
	require.Contains(t, heard, `entrypointer: annotation entrypointer.dev/mod is unknown and has no effect; did you mean "entrypointer.dev/mode"?`)
}

type warnings []string

// heardBy is how to reach the API server for one who hears its warnings.
func heardBy(heard *warnings) *rest.Config {
	config := rest.CopyConfig(cluster.Config)
	config.WarningHandler = heard
	return config
}

// HandleWarningHeader implements rest.WarningHandler.
func (w *warnings) HandleWarningHeader(_ int, _, text string) { *w = append(*w, text) }
