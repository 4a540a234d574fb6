// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	k8sv1 "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/yaml"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

// leastFixtures is about what Kubernetes 1.35 tests its PodSecurity levels with.
const leastFixtures = 80

// The pods with which Kubernetes tests its own PodSecurity levels: what is
// allowed stays allowed, what isn't doesn't come in behind our back.
func TestPodSecurityJudgesAWrappedPodAsItJudgedThePlainOne(t *testing.T) {
	judged := 0
	for _, level := range []api.Level{api.LevelBaseline, api.LevelRestricted} {
		for verdict, allowed := range map[string]bool{"pass": true, "fail": false} {
			for name, plain := range podSecurityFixtures(t, level, verdict) {
				t.Run(string(level)+"/"+verdict+"/"+name, func(t *testing.T) {
					plain.Annotations = withAnnotation(plain.Annotations, pod.InjectAnnotation, "true")
					wrapped := wrap(t, plain)
					if wrapped == nil {
						return // Windows
					}
					judged++
					require.Equal(t, allowed, allows(t, level, plain), "what the fixture says")
					require.Equal(t, allowed, allows(t, level, wrapped), "%v", judgement(t, level, wrapped))
				})
			}
		}
	}
	t.Logf("%d pods", judged)
	require.GreaterOrEqual(t, judged, leastFixtures)
}

// wrap returns nil for a pod that is none of ours.
func wrap(t *testing.T, plain *corev1.Pod) *corev1.Pod {
	t.Helper()
	result, err := newWebhook(ordinary).Inject(t.Context(), "tenant", plain)
	require.NoError(t, err)
	if result.Outcome == pod.Windows {
		return nil
	}
	require.Equal(t, pod.Injected, result.Outcome)
	return result.Pod
}

func allows(t *testing.T, level api.Level, p *corev1.Pod) bool {
	t.Helper()
	return judgement(t, level, p).Allowed
}

func judgement(t *testing.T, level api.Level, p *corev1.Pod) policy.AggregateCheckResult {
	t.Helper()
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	require.NoError(t, err)
	return policy.AggregateCheckResults(evaluator.EvaluatePod(api.LevelVersion{Level: level, Version: api.LatestVersion()}, &p.ObjectMeta, &p.Spec))
}

// podSecurityFixtures reads the newest of what the module carries.
func podSecurityFixtures(t *testing.T, level api.Level, verdict string) map[string]*corev1.Pod {
	t.Helper()
	location, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/pod-security-admission").Output()
	require.NoError(t, err)
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(location)), "test", "testdata", string(level), "v1.35", verdict, "*.yaml"))
	require.NoError(t, err)
	fixtures := map[string]*corev1.Pod{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		var fixture corev1.Pod
		require.NoError(t, yaml.Unmarshal(text, &fixture))
		k8sv1.SetObjectDefaults_Pod(&fixture)
		fixtures[strings.TrimSuffix(filepath.Base(file), ".yaml")] = &fixture
	}
	return fixtures
}

func withAnnotation(annotations map[string]string, key, value string) map[string]string {
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = value
	return annotations
}
