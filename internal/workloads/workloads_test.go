// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package workloads

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/internal/config"
	"github.com/entrypointer/entrypointer/pkg/pod"
)

// configured stands for a ConfigMap.
type configured config.Config

func (c configured) Load() *config.Config { return (*config.Config)(&c) }

func newChecker() *checker {
	return &checker{configured{Tools: []pod.Tool{{Name: "ni", Image: "registry.example/ni@sha256:" + strings.Repeat("6", 64), Path: "/ko-app/ni"}}}}
}

type keys = map[string]string

// workload returns an object of a kind whose pods have these annotations.
func workload(kind string, annotations keys, spec map[string]any) map[string]any {
	template := map[string]any{"metadata": map[string]any{"annotations": annotations}, "spec": spec}
	switch kind {
	case "CronJob":
		return map[string]any{"spec": map[string]any{"jobTemplate": map[string]any{"spec": map[string]any{"template": template}}}}
	case "Pod", "TaskRun", "PipelineRun":
		return map[string]any{"metadata": template["metadata"], "spec": spec}
	default:
		return map[string]any{"spec": map[string]any{"template": template}}
	}
}

var containers = map[string]any{"restartPolicy": "Always", "containers": []any{map[string]any{"name": "app", "image": "busybox"}, map[string]any{"name": "db", "image": "busybox"}}}

func warn(t *testing.T, c *checker, kind string, object any) []string {
	t.Helper()
	raw, err := json.Marshal(object)
	require.NoError(t, err)
	request := &admissionv1.AdmissionRequest{Kind: metav1.GroupVersionKind{Kind: kind}}
	request.Object.Raw = raw
	return c.warn(t.Context(), request)
}

var templated = []string{"Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job", "CronJob"}

func TestAMistakeInAPodTemplateIsToldWhenItIsApplied(t *testing.T) {
	const ask, refused = "entrypointer.dev/inject", "entrypointer: pods of this KIND are refused: reading annotation "
	for what, test := range map[string]struct {
		annotations keys
		want        string // of an object of KIND
	}{
		"none":               {nil, ""},
		"others'":            {keys{"prometheus.io/scrape": "true", "entrypoint.dev/path": "/bin/sh"}, ""},
		"right":              {keys{ask: "true", "entrypointer.dev/timeout": "10m", "depends-on.entrypointer.dev/app": "db:started"}, ""},
		"out":                {keys{ask: "false", "entrypointer.dev/timeout": "10 minutes"}, ""},
		"a wrong duration":   {keys{ask: "true", "entrypointer.dev/timeout": "10 minutes"}, refused + `entrypointer.dev/timeout: "10 minutes" is wrong; it can be a duration above zero with a unit, such as 90s or 1h30m`},
		"a misspelt sidecar": {keys{ask: "true", "entrypointer.dev/end-sidecars": "isto"}, refused + `entrypointer.dev/end-sidecars: "isto" is wrong; it can be "istio", "linkerd", "vault", "cloud-sql-proxy" and http://:PORT/PATH, up to 16 of them with commas, or "none"; an IP address may stand before the port; did you mean "istio"?`},
		"of a container":     {keys{ask: "true", "mode.entrypointer.dev/app": "exce"}, refused + `mode.entrypointer.dev/app: "exce" is wrong; it can be "supervise" or "exec"; did you mean "exec"?`},
		"of inject":          {keys{ask: "yes"}, refused + `entrypointer.dev/inject: "yes" is neither "true" nor "false", which are the values for a pod`},
		"a container more":   {keys{ask: "true", "entrypointer.dev/containers": "app,dv"}, refused + `entrypointer.dev/containers: the pod has no container "dv" in spec.containers; it has "app", "db"; did you mean "db"?`},
		"for none":           {keys{ask: "true", "timeout.entrypointer.dev/web": "1h"}, refused + `timeout.entrypointer.dev/web: the pod has no container "web" in spec.containers; it has "app", "db"`},
		"for all, of one":    {keys{ask: "true", "entrypointer.dev/depends-on": "db:started"}, refused + "entrypointer.dev/depends-on: the option is for single containers; write depends-on.entrypointer.dev/CONTAINER"},
		"a contradiction":    {keys{ask: "true", "entrypointer.dev/mode": "exec", "entrypointer.dev/timeout": "1h"}, refused + "entrypointer.dev/timeout: it contradicts annotation entrypointer.dev/mode: exec, which replaces the supervisor by the command; remove one of them"},
		"no end to wait for": {keys{ask: "true", "depends-on.entrypointer.dev/app": "db:completed"}, refused + `depends-on.entrypointer.dev/app: container "app" can't wait for "db" to be completed: it is restarted after a success, so that it is never completed for long; set restartPolicy: OnFailure or Never, of the pod or of that container, or name another condition`},
		"no such tool":       {keys{ask: "true", "entrypointer.dev/tools": "nii"}, refused + `entrypointer.dev/tools: there is no tool "nii"; the operator of entrypointer offers ni`},
		"perhaps not asking": {keys{"entrypointer.dev/timeout": "10"}, `entrypointer: pods of this KIND are refused, if they are wrapped: reading annotation entrypointer.dev/timeout: "10" is wrong; it can be a duration above zero with a unit, such as 90s or 1h30m`},
		"unknown":            {keys{ask: "true", "entrypointer.dev/timout": "1h"}, `entrypointer: annotation entrypointer.dev/timout is unknown and has no effect; did you mean "entrypointer.dev/timeout"?`},
		"unknown, of one":    {keys{ask: "true", "timout.entrypointer.dev/app": "1h"}, `entrypointer: annotation timout.entrypointer.dev/app is unknown and has no effect; did you mean "timeout.entrypointer.dev/app"?`},
		"of a namespace":     {keys{ask: "true", "entrypointer.dev/delivery": "claim"}, `entrypointer: annotation entrypointer.dev/delivery has no effect on a pod: it is for namespaces`},
		"a wrong domain":     {keys{ask: "true", "entrypointer.io/timeout": "1h"}, `entrypointer: annotation entrypointer.io/timeout is unknown and has no effect; did you mean "entrypointer.dev/timeout"?`},
		"a misspelt prefix":  {keys{"entrypoiner.dev/inject": "true"}, `entrypointer: annotation entrypoiner.dev/inject is unknown and has no effect; did you mean "entrypointer.dev/inject"?`},
	} {
		for _, kind := range templated {
			warnings := warn(t, newChecker(), kind, workload(kind, test.annotations, containers))
			if test.want == "" {
				require.Empty(t, warnings, "%s: %s", kind, what)
				continue
			}
			require.Len(t, warnings, 1, "%s: %s", kind, what)
			require.True(t, strings.HasPrefix(warnings[0], strings.ReplaceAll(test.want, "KIND", kind)), "%s: %s: %s", kind, what, warnings[0])
		}
	}
}

func TestAMisspeltPrefixIsToldWhereverItIs(t *testing.T) {
	const key, says = "entrypoint.dev/inject", "entrypoint.dev/inject is unknown and has no effect; did you mean "
	marked := func(field string) map[string]any { return map[string]any{field: keys{key: "true"}} }
	for _, field := range []string{"annotations", "labels"} {
		for kind, object := range map[string]map[string]any{
			"Deployment":  {"metadata": marked(field)},
			"Job":         {"spec": map[string]any{"template": map[string]any{"metadata": marked(field)}}},
			"CronJob":     {"spec": map[string]any{"jobTemplate": map[string]any{"metadata": marked(field)}}},
			"StatefulSet": {"metadata": marked(field), "spec": map[string]any{"template": map[string]any{"metadata": marked(field)}}},
			"Service":     {"metadata": marked(field)},
			"TaskRun":     {"metadata": marked(field)},
			"PipelineRun": {"metadata": marked(field)},
			"Pod":         {"metadata": marked(field)},
		} {
			warnings := warn(t, newChecker(), kind, object)
			require.Len(t, warnings, 1, "%s", kind)
			require.Contains(t, warnings[0], says, "%s", kind)
		}
	}
}

func TestTheAnnotationsOfATaskRunAreCheckedWithoutItsTask(t *testing.T) {
	for _, kind := range []string{"TaskRun", "PipelineRun"} {
		for what, test := range map[string]struct {
			annotations keys
			want        string
		}{
			"right":                 {keys{"entrypointer.dev/timeout": "1h", "mode.entrypointer.dev/step-a": "exec"}, ""},
			"of one step":           {keys{"timeout.entrypointer.dev/step-a": "10"}, `are refused: reading annotation timeout.entrypointer.dev/step-a: "10" is wrong`},
			"of all steps":          {keys{"entrypointer.dev/timeout": "10"}, `entrypointer: pods of this ` + kind + ` are refused: reading annotation entrypointer.dev/timeout: "10" is wrong`},
			"of inject":             {keys{"entrypointer.dev/inject": "True"}, `are refused: reading annotation entrypointer.dev/inject: "True" is neither`},
			"what Tekton does":      {keys{"depends-on.entrypointer.dev/step-a": "step-b:exited"}, "are refused: reading annotation depends-on.entrypointer.dev/step-a: Tekton has an order of its own"},
			"of a sidecar":          {keys{"timeout.entrypointer.dev/sidecar-a": "1h"}, ""},
			"unknown":               {keys{"entrypointer.dev/timout": "1h"}, `did you mean "entrypointer.dev/timeout"?`},
			"for Tekton's own pods": {keys{"entrypointer.dev/containers": "step-a"}, "annotation entrypointer.dev/containers has no effect on a pod of Tekton's"},
		} {
			warnings := warn(t, newChecker(), kind, workload(kind, test.annotations, nil))
			if test.want == "" {
				require.Empty(t, warnings, what)
				continue
			}
			require.Len(t, warnings, 1, what)
			require.Contains(t, warnings[0], test.want)
		}
	}
}

func TestTheAnnotationsOfAKnativeServiceAreThoseOfARevision(t *testing.T) {
	for _, kind := range []string{"Service", "Configuration"} {
		for what, test := range map[string]struct {
			annotations keys
			want        string
		}{
			"right":                 {keys{"entrypointer.dev/timeout": "1h", "timeout.entrypointer.dev/queue-proxy": "1h", "mode.entrypointer.dev/app": "supervise"}, ""},
			"a wrong value":         {keys{"entrypointer.dev/timeout": "10"}, "entrypointer: pods of this " + kind + " are refused: reading annotation entrypointer.dev/timeout"},
			"Knative's own waits":   {keys{"depends-on.entrypointer.dev/app": "queue-proxy:ready"}, "queue-proxy is Knative's own, and isn't wrapped"},
			"containers for others": {keys{"entrypointer.dev/containers": "app"}, "annotation entrypointer.dev/containers has no effect on a pod of Knative's"},
		} {
			warnings := warn(t, newChecker(), kind, workload(kind, test.annotations, containers))
			if test.want == "" {
				require.Empty(t, warnings, what)
				continue
			}
			require.Len(t, warnings, 1, what)
			require.Contains(t, warnings[0], test.want)
		}
		unnamed := map[string]any{"containers": []any{map[string]any{"image": "busybox"}}}
		require.Empty(t, warn(t, newChecker(), kind, workload(kind, keys{"timeout.entrypointer.dev/user-container": "1h"}, unnamed)))
	}
}

func TestTheOperatorsConfigurationDecidesOnATemplateToo(t *testing.T) {
	only := &checker{configured{Policy: pod.Policy{PodOptions: []string{"timeout"}}}}
	warnings := warn(t, only, "Deployment", workload("Deployment", keys{"entrypointer.dev/inject": "true", "entrypointer.dev/mode": "exec"}, containers))
	require.Len(t, warnings, 1)
	require.Contains(t, warnings[0], "the operator doesn't let pods set this option")
	tektonOnly := &checker{configured{Policy: pod.Policy{Owners: []pod.Owner{pod.Tekton}}}}
	require.Empty(t, warn(t, tektonOnly, "Deployment", workload("Deployment", keys{"entrypointer.dev/inject": "true", "entrypointer.dev/mode": "exce"}, containers)))
}

func TestWhatCantBeReadIsLeftToTheAPIServer(t *testing.T) {
	asks := keys{"entrypointer.dev/inject": "true", "entrypointer.dev/timeout": "10"}
	long := map[string]any{"containers": []any{map[string]any{"name": "app", "args": []string{strings.Repeat("x", maxSpec)}}}}
	for what, object := range map[string]any{
		"a list":                    []any{},
		"an annotation of a number": map[string]any{"metadata": map[string]any{"annotations": map[string]any{"entrypoint.dev/inject": 1}}},
		"a spec of another type":    workload("Deployment", asks, map[string]any{"containers": "app"}),
		"a spec that is too long":   workload("Deployment", asks, long),
		"no spec":                   map[string]any{},
	} {
		require.Empty(t, warn(t, newChecker(), "Deployment", object), what)
	}
	require.Empty(t, newChecker().warn(t.Context(), &admissionv1.AdmissionRequest{}))
}

// A forged request learns nothing about a namespace.
func TestTheWarningsAreTheSameForEachNamespace(t *testing.T) {
	raw, err := json.Marshal(workload("Deployment", keys{"entrypointer.dev/timeout": "10", "entrypointer.dev/tools": "nii"}, containers))
	require.NoError(t, err)
	answers := map[string]bool{}
	for _, namespace := range []string{"", "default", "kube-system", "a"} {
		request := &admissionv1.AdmissionRequest{Kind: metav1.GroupVersionKind{Kind: "Deployment"}, Namespace: namespace}
		request.Object.Raw = raw
		answers[fmt.Sprint(newChecker().warn(t.Context(), request))] = true
	}
	require.Len(t, answers, 1)
}

// several returns annotations that ask, and so many more.
func several(count int, key string) keys {
	annotations := keys{"entrypointer.dev/inject": "true"}
	for i := range count {
		annotations[fmt.Sprintf(key, i)] = "10"
	}
	return annotations
}

// API servers call for no such object; other callers can send one.
func TestOfMoreKeysThanAPIServersSendNoneIsLookedAt(t *testing.T) {
	for _, kind := range []string{"Deployment", "TaskRun", "Service", "CronJob"} {
		require.Empty(t, warn(t, newChecker(), kind, workload(kind, several(maxKeys, "mode.entrypointer.dev/x%d"), containers)), kind)
	}
}

// An API server would cut more.
func TestTheWarningsAreBounded(t *testing.T) {
	many := func(key string) keys { return several(maxKeys-1, key) }
	for _, kind := range []string{"Deployment", "TaskRun", "Service", "Pod"} {
		for what, annotations := range map[string]keys{
			"unknown options":    many("entrypointer.dev/x%d"),
			"unknown containers": many("timeout.entrypointer.dev/x%d"),
			"wrong prefixes":     many("timeout.entrypointer.io/x%d"),
			"long keys":          many("entrypointer.dev/" + strings.Repeat("x", 300) + "%d"),
			"a long value":       {"entrypointer.dev/inject": strings.Repeat("ä", 120_000)},
			"a long list":        {"entrypointer.dev/inject": "true", "entrypointer.dev/containers": strings.Repeat("app,", 60_000)},
		} {
			warnings := warn(t, newChecker(), kind, workload(kind, annotations, containers))
			if kind != "Pod" {
				require.NotEmpty(t, warnings, "%s: %s", kind, what)
			}
			total := 0
			for _, text := range warnings {
				require.LessOrEqual(t, len(text), maxWarning)
				require.NotContains(t, text, "\uFFFD")
				total += len(text)
			}
			require.LessOrEqual(t, total, maxWarnings)
		}
	}
}

func FuzzWarn(f *testing.F) {
	for _, kind := range append([]string{"Service", "TaskRun", "Pod"}, templated...) {
		raw, err := json.Marshal(workload(kind, keys{"entrypointer.dev/inject": "true", "timeout.entrypointer.dev/app": "10", "entrypoint.dev/inject": "x"}, containers))
		require.NoError(f, err)
		f.Add(kind, raw)
	}
	f.Fuzz(func(t *testing.T, kind string, raw []byte) {
		request := &admissionv1.AdmissionRequest{Kind: metav1.GroupVersionKind{Kind: kind}}
		request.Object.Raw = raw
		for _, text := range newChecker().warn(t.Context(), request) {
			require.True(t, strings.HasPrefix(text, "entrypointer: "), text)
			require.LessOrEqual(t, len(text), maxWarning)
		}
	})
}
