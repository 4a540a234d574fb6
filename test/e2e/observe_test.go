// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
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

// decisionsAbout returns the lines of the injector's log about decisions on pods whose
// names contain a text, once there are at least so many.
func decisionsAbout(t *testing.T, name string, atLeast int) (about []map[string]any) {
	t.Helper()
	eventually(t, time.Minute, "lines about pods "+name, func() error {
		text, err := framework.Run(t.Context(), "kubectl", "-n", framework.SystemNamespace, "logs", "-l", framework.InjectorSelector, "--tail=-1")
		if err != nil {
			return err
		}
		about = nil
		for text := range strings.Lines(string(text)) {
			if !strings.Contains(text, name) {
				continue
			}
			var line map[string]any
			if err := json.Unmarshal([]byte(text), &line); err != nil {
				return fmt.Errorf("%s: %w", text, err)
			}
			if line["outcome"] != nil {
				about = append(about, line)
			}
		}
		if len(about) < atLeast {
			return fmt.Errorf("there are %d", len(about))
		}
		return nil
	})
	return about
}

func TestADecisionIsOneLineOfTheInjectorsLog(t *testing.T) {
	t.Parallel()
	namespace := optedInNamespace(t)
	name := "logged-in-" + namespace
	createPod(t, namespace, askingPod(name, busybox(t, "main", "true")))
	waitUntilDone(t, namespace, name)
	about := decisionsAbout(t, name, 1)
	require.Len(t, about, 1)
	for field, want := range map[string]any{"namespace": namespace, "pod": name, "outcome": "Injected", "owner": "Annotation", "wrapped": []any{"main"}} {
		require.Equal(t, want, about[0][field], "field %s of %s", field, about[0])
	}
	require.Contains(t, about[0]["injector"], "injector-", "the replica")
}

// The API server mounts the token in each container that it finds without a mount at its
// path, after the injector, too; then it asks again.
func TestFivePodsThatGetATokenMakeFiveDecisions(t *testing.T) {
	t.Parallel()
	namespace := optedInNamespace(t)
	for i := range 5 {
		p := askingPod(fmt.Sprintf("token-%d-in-%s", i, namespace), busybox(t, "main", "cat", "/var/run/secrets/kubernetes.io/serviceaccount/namespace"))
		p.Spec.AutomountServiceAccountToken = new(true)
		requireTokensOfOthers(t, createPod(t, namespace, p))
	}
	name := "token-0-in-" + namespace
	require.Equal(t, corev1.PodSucceeded, waitUntilDone(t, namespace, name).Status.Phase)
	require.Equal(t, namespace, logs(t, namespace, name, "main"), "the token is there for the container")
	about := decisionsAbout(t, "-in-"+namespace, 5)
	require.Len(t, about, 5)
	for _, line := range about {
		require.Equal(t, "Injected", line["outcome"])
	}
}

// requireTokensOfOthers requires that the containers of a pod have a token mounted, and
// our init containers have none.
func requireTokensOfOthers(t *testing.T, p *corev1.Pod) {
	t.Helper()
	tokens := func(c corev1.Container) (names []string) {
		for _, m := range c.VolumeMounts {
			if m.MountPath == "/var/run/secrets/kubernetes.io/serviceaccount" {
				names = append(names, m.Name)
			}
		}
		return names
	}
	for _, c := range p.Spec.InitContainers {
		require.Len(t, tokens(c), 1, c.Name)
		require.True(t, strings.HasPrefix(tokens(c)[0], "entrypointer-"), "%s has %v", c.Name, tokens(c))
	}
	for _, c := range p.Spec.Containers {
		require.Len(t, tokens(c), 1, c.Name)
		require.True(t, strings.HasPrefix(tokens(c)[0], "kube-api-access-"), "%s has %v", c.Name, tokens(c))
	}
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
