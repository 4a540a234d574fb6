// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

func TestADecisionIsExplainedForEachContainer(t *testing.T) {
	injector := newInjector(nil)
	injector.Defaults = []pod.Defaults{pod.NamespaceDefaults("tenant", map[string]string{"entrypointer.dev/timeout": "1h", "entrypointer.dev/logs": "tee"})}
	const proxied = "another webhook adds and manages it (proxy-containers in the operator's configuration); a pod that asks can name it in annotation entrypointer.dev/containers"
	for name, test := range map[string]struct {
		pod  *corev1.Pod
		want map[string]string // why a container isn't wrapped, "" for a wrapped one
	}{
		"a pod that asks":           {asking(running("app", "x"), running("istio-proxy", "x")), map[string]string{"app": "", "istio-proxy": proxied}},
		"some of its containers":    {annotated(asking(running("app", "x"), running("istio-proxy", "x")), "entrypointer.dev/containers", "istio-proxy"), map[string]string{"app": "annotation entrypointer.dev/containers doesn't name it", "istio-proxy": ""}},
		"a TaskRun with a sidecar":  {labelled("tekton.dev/taskRun", "TaskRun", running("step-a", "x"), running("sidecar-db", "x")), map[string]string{"step-a": "", "sidecar-db": "it is a sidecar of the TaskRun, and only steps are wrapped"}},
		"a Revision's queue":        {labelled("serving.knative.dev/revision", "ReplicaSet", running("user", "x"), running("queue-proxy", "x")), map[string]string{"user": "", "queue-proxy": "it is Knative's own"}},
		"a TaskRun's injected part": {labelled("tekton.dev/taskRun", "TaskRun", running("step-a", "x"), running("linkerd-proxy", "x")), map[string]string{"step-a": "", "linkerd-proxy": "it is a sidecar of the TaskRun, and only steps are wrapped"}},
	} {
		t.Run(name, func(t *testing.T) {
			outcome, explanations, err := injector.Explain("tenant", test.pod)
			require.NoError(t, err)
			require.Equal(t, pod.Injected, outcome)
			got := map[string]string{}
			for _, e := range explanations {
				got[e.Container] = e.Why
			}
			require.Equal(t, test.want, got)
			if len(inject(t, injector, test.pod).Wrapped) == 0 {
				t.Error("it isn't wrapped")
			}
		})
	}
}

func TestEachOptionIsExplainedByTheAnnotationThatSetsIt(t *testing.T) {
	injector := newInjector(nil)
	injector.Defaults = []pod.Defaults{
		pod.NamespaceDefaults("tenant", map[string]string{"entrypointer.dev/timeout": "1h", "entrypointer.dev/grace-period": "5s"}),
		{Source: "as the operator has it by default", Values: map[string]string{"timeout": "2h", "report-signal": "true"}},
	}
	p := annotated(asking(running("a", "x"), running("b", "x")), "timeout.entrypointer.dev/a", "1m", "entrypointer.dev/grace-period", "9s")
	_, explanations, err := injector.Explain("tenant", p)
	require.NoError(t, err)
	sources := map[string][2]string{}
	for _, e := range explanations {
		for _, s := range e.Settings {
			sources[e.Container+" "+s.Option] = [2]string{s.Value, s.Source}
		}
	}
	require.Equal(t, [2]string{"1m", "annotation timeout.entrypointer.dev/a"}, sources["a timeout"])
	require.Equal(t, [2]string{"1h", `annotation entrypointer.dev/timeout of namespace "tenant"`}, sources["b timeout"])
	require.Equal(t, [2]string{"9s", "annotation entrypointer.dev/grace-period"}, sources["b grace-period"])
}

func TestRelationsAreReadFromTheSupervisorsCommandLines(t *testing.T) {
	p := annotated(asking(running("db", "x"), running("web", "x"), running("proxy", "x"), running("a", "x"), running("b", "x")),
		"depends-on.entrypointer.dev/web", "db:ready", "ready-when.entrypointer.dev/db", "tcp://:1", "wait-for.entrypointer.dev/web", "http://:15021/ready",
		"stop-when.entrypointer.dev/proxy", "web:exited", "stdin.entrypointer.dev/b", "a")
	p.Spec.RestartPolicy = corev1.RestartPolicyNever
	require.ElementsMatch(t, []pod.Relation{
		{Option: "depends-on", Container: "web", On: "db", Condition: "ready"},
		{Option: "wait-for", Container: "web", On: "http://:15021/ready"},
		{Option: "stop-when", Container: "proxy", On: "web", Condition: "exited"},
		{Option: "stdin", Container: "b", On: "a"},
	}, pod.Relations(inject(t, newInjector(nil), p).Pod))
	require.Empty(t, pod.Relations(p), "it isn't wrapped")
}

func TestAPodThatIsNotWrappedIsExplainedByItsOutcome(t *testing.T) {
	outcome, explanations, err := newInjector(nil).Explain("tenant", &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{running("app", "x")}}})
	require.NoError(t, err)
	require.Equal(t, pod.NotOurs, outcome)
	require.Empty(t, explanations)
	_, _, err = newInjector(nil).Explain("tenant", annotated(asking(running("a", "x")), "entrypointer.dev/inject", "yes"))
	requireRefused(t, err, pod.InvalidAnnotation, `"yes"`)
}
