// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

// A pod as a newer API server would send it: with fields at every level that
// our vendored types don't know.
const fromTheFuture = `{
  "metadata": {"name": "p", "annotations": {"entrypointer.dev/inject": "true"}, "future": 1},
  "future": {"deep": [1, 2]},
  "spec": {
    "future": "spec",
    "volumes": [{"name": "v", "emptyDir": {"future": true}}],
    "initContainers": [{"name": "first", "image": "i", "command": ["x"], "future": "init"}],
    "containers": [
      {"name": "a", "image": "i", "command": ["run"], "args": ["1"], "future": "a",
       "volumeMounts": [{"name": "v", "mountPath": "/v", "future": "mount"}]},
      {"name": "b", "image": "i", "command": ["run"], "future": "b"}
    ]
  }
}`

func TestFieldsThatWeDontKnowSurvive(t *testing.T) {
	after := applied(t, fromTheFuture)

	at := func(path ...any) any {
		var here any = after
		for _, step := range path {
			switch step := step.(type) {
			case string:
				here = here.(map[string]any)[step]
			case int:
				here = here.([]any)[step]
			}
		}
		return here
	}
	require.InEpsilon(t, 1, at("metadata", "future"), 0)
	require.Equal(t, map[string]any{"deep": []any{1.0, 2.0}}, at("future"))
	require.Equal(t, "spec", at("spec", "future"))
	require.Equal(t, true, at("spec", "volumes", 0, "emptyDir", "future"))
	require.Equal(t, "entrypointer-init", at("spec", "initContainers", 0, "name"))
	require.NotContains(t, at("spec", "initContainers", 0), "future", "ours has nothing of the one that was first")
	require.Equal(t, "init", at("spec", "initContainers", 1, "future"))
	require.Equal(t, "a", at("spec", "containers", 0, "future"))
	require.Equal(t, "mount", at("spec", "containers", 0, "volumeMounts", 0, "future"))
	require.Equal(t, "b", at("spec", "containers", 1, "future"))
}

// Were it taken for ours, it would be put elsewhere as our types know it.
func TestAnInitContainerOfTheAuthorsWithANameOfOursKeepsItsFields(t *testing.T) {
	for name, test := range map[string]struct {
		injector *pod.Injector
		tools    string
	}{
		"entrypointer-tool-mine": {newInjector(nil), "none"},
		"entrypointer-tool-ni":   {offering(pod.DeliveryInitContainer, ni), "none"},
		"entrypointer-tool-yq":   {offering(pod.DeliveryInitContainer, ni), "ni"},
		"entrypointer-init":      {mounting(), "none"},
	} {
		t.Run(name, func(t *testing.T) {
			document := fmt.Sprintf(`{"metadata": {"annotations": {"entrypointer.dev/inject": "true", "entrypointer.dev/tools": %q}}, "spec": {
				"initContainers": [{"name": %q, "image": "i", "future": 1}, {"name": "second", "image": "i", "future": 2}],
				"containers": [{"name": "a", "image": "i", "command": ["run"]}]}}`, test.tools, name)
			spec := appliedBy(t, test.injector, document)["spec"].(map[string]any)
			containers := spec["initContainers"].([]any)
			require.Equal(t, []any{
				map[string]any{"name": name, "image": "i", "future": 1.0},
				map[string]any{"name": "second", "image": "i", "future": 2.0},
			}, containers[len(containers)-2:])
		})
	}
}

func TestThePatchLeadsToTheInjectedPod(t *testing.T) {
	for name, document := range map[string]string{
		"lists that are there":   fromTheFuture,
		"lists that are missing": `{"metadata":{"name":"p","labels":{"tekton.dev/taskRun":"t"}},"spec":{"containers":[{"name":"step-a","command":["x"]}]}}`,
		"an injected pod, forged": `{"metadata":{"labels":{"tekton.dev/taskRun":"t"}},"spec":{"initContainers":[
			{"name":"entrypointer-init","image":"forged","volumeMounts":[{"name":"entrypointer-bin","mountPath":"/entrypointer/bin"}]}],
			"containers":[{"name":"step-a","command":["x"]}]}}`,
	} {
		t.Run(name, func(t *testing.T) {
			var before, after corev1.Pod
			require.NoError(t, json.Unmarshal([]byte(document), &before))
			encoded, err := json.Marshal(applied(t, document))
			require.NoError(t, err)
			require.NoError(t, json.Unmarshal(encoded, &after))
			want := inject(t, newInjector(nil), &before).Pod
			require.Empty(t, pod.Patch(want, &after))
			wantJSON, err := json.Marshal(want)
			require.NoError(t, err)
			gotJSON, err := json.Marshal(after)
			require.NoError(t, err)
			require.JSONEq(t, string(wantJSON), string(gotJSON))
		})
	}
}

// applied injects a pod and applies the patch to the document, as an API server does.
func applied(t *testing.T, document string) map[string]any {
	t.Helper()
	return appliedBy(t, newInjector(nil), document)
}

func appliedBy(t *testing.T, injector *pod.Injector, document string) map[string]any {
	t.Helper()
	var before corev1.Pod
	require.NoError(t, json.Unmarshal([]byte(document), &before))
	operations, err := json.Marshal(pod.Patch(&before, inject(t, injector, &before).Pod))
	require.NoError(t, err)
	patch, err := jsonpatch.DecodePatch(operations)
	require.NoError(t, err)
	patched, err := patch.Apply([]byte(document))
	require.NoError(t, err)
	var after map[string]any
	require.NoError(t, json.Unmarshal(patched, &after))
	return after
}

// A dry run shows what other webhooks have done, too.
func TestOnlyOurChangesAreTakenOfAPodThatOthersHaveChanged(t *testing.T) {
	before := annotated(asking(running("web", "serve"), running("db", "serve")), "depends-on.entrypointer.dev/web", "db:started")
	before.Spec.Volumes = []corev1.Volume{{Name: "data"}}
	before.Spec.InitContainers = []corev1.Container{running("prepare", "x")}
	before.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	ours := inject(t, newInjector(nil), before).Pod

	others := ours.DeepCopy()
	others.Labels = map[string]string{"mesh": "true"}
	others.Annotations["mesh.example.test/status"] = "injected"
	others.Spec.Volumes = slices.Insert(others.Spec.Volumes, 0, corev1.Volume{Name: "mesh"})
	others.Spec.Volumes = append(others.Spec.Volumes, corev1.Volume{Name: "token"})
	others.Spec.InitContainers = append([]corev1.Container{running("mesh-init", "x")}, others.Spec.InitContainers...)
	others.Spec.Containers = append([]corev1.Container{running("mesh-proxy", "x")}, others.Spec.Containers...)
	web := &others.Spec.Containers[1]
	web.VolumeMounts = append(web.VolumeMounts, corev1.VolumeMount{Name: "token", MountPath: "/token"})
	web.TerminationMessagePath = corev1.TerminationMessagePathDefault

	alone := pod.OursAlone(before, others)
	require.NotPanics(t, func() { pod.Patch(before, alone) })
	requireSamePod(t, alone, patched(t, before, alone), "the patch leads elsewhere")
	require.Equal(t, ours.Annotations, alone.Annotations)
	require.Empty(t, alone.Labels)
	require.ElementsMatch(t, ours.Spec.Volumes, alone.Spec.Volumes)
	require.ElementsMatch(t, ours.Spec.InitContainers, alone.Spec.InitContainers)
	for at, c := range ours.Spec.Containers {
		require.Equal(t, c.Args, alone.Spec.Containers[at].Args)
		require.ElementsMatch(t, c.VolumeMounts, alone.Spec.Containers[at].VolumeMounts)
	}

	// Another webhook may remove a container, or one that is wrapped.
	removed := ours.DeepCopy()
	removed.Spec.Containers = removed.Spec.Containers[1:]
	require.NotPanics(t, func() { pod.Patch(before, pod.OursAlone(before, removed)) })
}
