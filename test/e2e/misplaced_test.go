// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"github.com/entrypointer/entrypointer/pkg/pod"
	"github.com/entrypointer/entrypointer/test/framework"
)

// marks are annotations and labels of an object, and of its pod template.
type marks struct{ annotations, labels, templateAnnotations, templateLabels string }

// manifests are those of workloads, by their kinds.
var manifests = map[string]func(marks) string{
	"Deployment": func(m marks) string { return m.object("apps/v1", "Deployment", m.selected()) },
	"StatefulSet": func(m marks) string {
		return m.object("apps/v1", "StatefulSet", m.selected())
	},
	"ReplicaSet": func(m marks) string { return m.object("apps/v1", "ReplicaSet", m.selected()) },
	"DaemonSet":  func(m marks) string { return m.object("apps/v1", "DaemonSet", m.selected()) },
	"Job": func(m marks) string {
		return m.object("batch/v1", "Job", "template: "+m.template("restartPolicy: Never, "))
	},
	"CronJob": func(m marks) string {
		return m.object("batch/v1", "CronJob", `schedule: "0 0 1 1 *", jobTemplate: {spec: {template: `+m.template("restartPolicy: Never, ")+"}}")
	},
	"Service": func(m marks) string {
		return m.object("serving.knative.dev/v1", "Service", "template: "+m.template(""))
	},
}

func (m marks) object(apiVersion, kind, spec string) string {
	return fmt.Sprintf("{apiVersion: %s, kind: %s, metadata: {name: a, annotations: {%s}, labels: {%s}}, spec: {%s}}", apiVersion, kind, m.annotations, m.labels, spec)
}

func (m marks) selected() string {
	return "selector: {matchLabels: {app: a}}, template: " + m.template("")
}

func (m marks) template(spec string) string {
	return fmt.Sprintf(`{metadata: {annotations: {%s}, labels: {app: a, %s}}, spec: {%scontainers: [{name: main, image: busybox, command: ["true"]}]}}`,
		m.templateAnnotations, m.templateLabels, spec)
}

const (
	asks       = `entrypointer.dev/inject: "true"`
	optsOut    = `entrypointer.dev/inject: "false"`
	option     = `timeout.entrypointer.dev/main: 1h`
	misspelled = `entrypoint.dev/inject: "true"`
	wrongValue = `entrypointer.dev/inject: "True"`
)

// Whatever somebody new to the annotations writes, in each place where it has no effect.
func TestAnAnnotationOrALabelWithoutEffectOnAWorkloadIsWarnedOf(t *testing.T) {
	t.Parallel()
	in, all, out := optedInNamespace(t), forAllPods(t), plainNamespace(t)
	optIn := `until namespace "` + out + `" opts in: kubectl annotate --overwrite namespace ` + out + " entrypointer.dev/inject=true"
	for kind, manifest := range manifests {
		path := "spec.template.metadata.annotations"
		if kind == "CronJob" {
			path = "spec.jobTemplate.spec.template.metadata.annotations"
		}
		noLabel, doesNotAsk := "label entrypointer.dev/inject has no effect: set the annotation of that name in "+path, "a pod of a "+kind+" is wrapped if it asks"
		if kind == "Service" {
			doesNotAsk = "" // a Revision is wrapped without asking
		}
		for what, test := range map[string]struct {
			namespace string
			marks     marks
			want      string
		}{
			"none":                              {in, marks{}, ""},
			"none, not opted in":                {out, marks{}, ""},
			"right":                             {in, marks{templateAnnotations: asks}, ""},
			"an option, for all":                {all, marks{templateAnnotations: option}, ""},
			"an option without asking":          {in, marks{templateAnnotations: option}, doesNotAsk},
			"on the object":                     {in, marks{annotations: asks}, "annotation entrypointer.dev/inject has no effect on a " + kind + ": set it in " + path},
			"on both":                           {in, marks{annotations: asks, templateAnnotations: asks}, ""},
			"a label":                           {in, marks{labels: asks}, noLabel},
			"a label of the template":           {in, marks{templateLabels: asks}, noLabel},
			"asks, not opted in":                {out, marks{templateAnnotations: asks}, optIn},
			"an option, not opted in":           {out, marks{templateAnnotations: option}, optIn},
			"opting out, not opted in":          {out, marks{templateAnnotations: optsOut}, ""},
			"a misspelled prefix, not opted in": {out, marks{templateAnnotations: misspelled}, "did you mean entrypointer.dev/inject?"},
			"a wrong value, not opted in":       {out, marks{templateAnnotations: wrongValue}, optIn},
			"on the object, for nobody":         {out, marks{annotations: asks}, "annotation entrypointer.dev/inject has no effect on a " + kind},
		} {
			requireWarning(t, kind+", "+what, test.namespace, manifest(test.marks), test.want)
		}
	}
}

func TestAnAnnotationOrALabelWithoutEffectOnATaskRunOrAPodIsWarnedOf(t *testing.T) {
	t.Parallel()
	in, out := optedInNamespace(t), plainNamespace(t)
	for kind, manifest := range map[string]func(marks) string{
		"TaskRun": func(m marks) string {
			return m.object("tekton.dev/v1", "TaskRun", `taskSpec: {steps: [{image: busybox, command: ["true"]}]}`)
		},
		"Pod": func(m marks) string {
			return m.object("v1", "Pod", `containers: [{name: main, image: busybox, command: ["true"]}]`)
		},
	} {
		const noLabel = "label entrypointer.dev/inject has no effect"
		requireWarning(t, kind+", right", in, manifest(marks{annotations: asks}), "")
		requireWarning(t, kind+", a label", in, manifest(marks{labels: asks}), noLabel)
		requireWarning(t, kind+", a label, not opted in", out, manifest(marks{labels: asks}), noLabel)
		requireWarning(t, kind+", a misspelled prefix, not opted in", out, manifest(marks{annotations: misspelled}), "did you mean entrypointer.dev/inject?")
		requireWarning(t, kind+", asks, not opted in", out, manifest(marks{annotations: asks}), `annotation entrypointer.dev/inject has no effect until namespace "`+out+`" opts in`)
		requireWarning(t, kind+", opting out, not opted in", out, manifest(marks{annotations: optsOut}), "")
	}
}

// mistakes are annotations of a pod template, and what the injector says of them when the
// template is applied.
var mistakes = map[string]struct{ annotations, want string }{
	"a wrong value":           {asks + `, entrypointer.dev/timeout: "10 minutes"`, `pods of this KIND are refused: reading annotation entrypointer.dev/timeout: "10 minutes" is wrong; it can be a duration`},
	"a misspelled value":      {asks + `, entrypointer.dev/mode: exce`, `did you mean "exec"?`},
	"a wrong value of inject": {wrongValue, `pods of this KIND are refused: reading annotation entrypointer.dev/inject: "True" is neither "true" nor "false"`},
	"an unknown option":       {asks + `, entrypointer.dev/timout: 1h`, `annotation entrypointer.dev/timout is unknown and has no effect; did you mean "entrypointer.dev/timeout"?`},
	"another domain":          {asks + `, entrypointer.io/timeout: 1h`, `did you mean "entrypointer.dev/timeout"?`},
	"another word":            {misspelled, `annotation entrypoint.dev/inject is unknown and has no effect; did you mean "entrypointer.dev/inject"?`},
	"a letter less":           {`entrypoiner.dev/inject: "true"`, `did you mean "entrypointer.dev/inject"?`},
}

func TestAMistakeInAnAnnotationIsWarnedOfWhenAWorkloadIsApplied(t *testing.T) {
	t.Parallel()
	in, all, out := optedInNamespace(t), forAllPods(t), plainNamespace(t)
	kinds := map[string]func(marks) string{
		"TaskRun": func(m marks) string {
			m.annotations = m.templateAnnotations
			return m.object("tekton.dev/v1", "TaskRun", `taskSpec: {steps: [{image: busybox, command: ["true"]}]}`)
		},
		"PipelineRun": func(m marks) string {
			m.annotations = m.templateAnnotations
			return m.object("tekton.dev/v1", "PipelineRun", `pipelineSpec: {tasks: [{name: a, taskSpec: {steps: [{image: busybox, command: ["true"]}]}}]}`)
		},
	}
	maps.Copy(kinds, manifests)
	for kind, manifest := range kinds {
		for what, mistake := range mistakes {
			want := strings.ReplaceAll(mistake.want, "KIND", kind)
			for _, namespace := range []string{in, all} {
				requireWarning(t, kind+", "+what, namespace, manifest(marks{templateAnnotations: mistake.annotations}), want)
			}
		}
		requireWarning(t, kind+", not opted in", out, manifest(marks{templateAnnotations: "entrypointer.io/timeout: 1h"}), "")
	}
	for kind, manifest := range manifests {
		requireWarning(t, kind+", on the object", in, manifest(marks{annotations: misspelled}), `did you mean "entrypointer.dev/inject"?`)
		requireWarning(t, kind+", a sidecar", in, manifest(marks{templateAnnotations: asks + ", entrypointer.dev/end-sidecars: isto"}), `did you mean "istio"?`)
		requireWarning(t, kind+", a container too many", in, manifest(marks{templateAnnotations: asks + ", timeout.entrypointer.dev/nosuch: 1h"}),
			`the pod has no container "nosuch" in spec.containers; it has "main"`)
	}
	bare := marks{annotations: "entrypointer.io/timeout: 1h"}.object("v1", "Pod", `containers: [{name: main, image: busybox, command: ["true"]}]`)
	for _, namespace := range []string{in, all} {
		requireWarning(t, "Pod", namespace, bare, `did you mean "entrypointer.dev/timeout"?`)
	}
}

// A warning isn't worth that anybody waits for it.
func TestWorkloadsAreAppliedWithoutWarningsInAnOutage(t *testing.T) {
	namespace := optedInNamespace(t)
	takeDown(t)
	for kind, manifest := range manifests {
		start := time.Now()
		requireWarning(t, kind, namespace, manifest(marks{templateAnnotations: mistakes["a wrong value"].annotations}), "")
		t.Logf("%s: %v", kind, time.Since(start))
		requireWarning(t, kind+", which a policy finds", namespace, manifest(marks{annotations: asks}), "has no effect on a "+kind)
	}
}

// The policies' expressions are evaluated in the API server, and a tenant's values decide
// how long that takes.
func TestAWorkloadWithAnnotationsUpToTheirLimitIsAdmitted(t *testing.T) {
	t.Parallel()
	namespace := optedInNamespace(t)
	const full = 250_000 // of 256 KiB
	many := func(key string) map[string]string {
		annotations := map[string]string{}
		for i := range full / (len(key) + 8) {
			annotations[fmt.Sprintf(key, i)] = ""
		}
		return annotations
	}
	for what, annotations := range map[string]map[string]string{
		"unknown options":      many("entrypointer.dev/x%d"),
		"unknown containers":   many("timeout.entrypointer.dev/x%d"),
		"wrong prefixes":       many("entrypoint%d/inject"),
		"a list of nothing":    {pod.ContainersAnnotation: strings.Repeat(",", full)},
		"a list of containers": {pod.ContainersAnnotation: strings.Repeat("main,", full/5)},
		"a long value":         {pod.InjectAnnotation: strings.Repeat("\n", full)},
	} {
		d := clockDeployment(t, "full", 1)
		maps.Copy(d.Spec.Template.Annotations, annotations)
		d.Labels, d.Annotations = nil, annotations
		_, err := cluster.Kube.AppsV1().Deployments(namespace).Create(t.Context(), d, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		require.NoError(t, err, what)
	}
}

// A pod has room for 60,000 annotations. The injector reads 10,000 of a pod that it wraps.
func TestAPodWithTheMostAnnotationsIsAdmitted(t *testing.T) {
	t.Parallel()
	for namespace, most := range map[string]int{optedInNamespace(t): 10_000, forAllPods(t): 10_000, plainNamespace(t): 60_000} {
		p := plainPod("full", busybox(t, "main", "true"))
		p.Annotations = map[string]string{}
		for i := range most {
			p.Annotations[fmt.Sprintf("%x", i)] = ""
		}
		_, err := cluster.Kube.CoreV1().Pods(namespace).Create(t.Context(), p, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		require.NoError(t, err)
	}
}

// requireWarning creates an object without effect, and looks for the warning of ours
// with which the API server answers. There is none if want is "".
func requireWarning(t *testing.T, what, namespace, manifest, want string) {
	t.Helper()
	var heard warnings
	client, err := dynamic.NewForConfig(heardBy(&heard))
	require.NoError(t, err)
	objects, err := framework.Decode([]byte(manifest))
	require.NoError(t, err, manifest)
	for _, object := range objects {
		resource, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
		_, err = client.Resource(resource).Namespace(namespace).Create(t.Context(), object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		require.NoError(t, err, "%s: %s", what, manifest)
	}
	ours := slices.DeleteFunc(heard, func(text string) bool { return !strings.Contains(text, "entrypointer") })
	if want == "" {
		require.Empty(t, ours, what)
		return
	}
	require.True(t, slices.ContainsFunc(ours, func(text string) bool { return strings.Contains(text, want) }), "%s: %q", what, ours)
}
