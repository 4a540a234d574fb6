// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

const endSidecarsKey = "entrypointer.dev/end-sidecars"

// meshed is a pod of a container that works, and of a proxy that isn't wrapped.
func meshed(more ...corev1.Container) *corev1.Pod {
	return restarting(asking(append([]corev1.Container{running("istio-proxy", "proxy"), running("a", "x")}, more...)...), corev1.RestartPolicyNever)
}

// ofNamespace is an injector whose namespace says so.
func ofNamespace(value string) *pod.Injector {
	injector := newInjector(nil)
	injector.Defaults = []pod.Defaults{pod.NamespaceDefaults("tenant", map[string]string{endSidecarsKey: value})}
	return injector
}

const istioFlag = "-end-sidecar=http://127.0.0.1:15020/quitquitquit"

func TestTheLastContainerThatWorksEndsTheSidecars(t *testing.T) {
	for name, test := range map[string]struct {
		value  string
		change func(*corev1.Pod)
		want   []string // the flags of a
	}{
		"a proxy by its name": {"istio", nil, []string{istioFlag, "-end-sidecars-on=0-255"}},
		"all names": {"istio, linkerd\nvault,cloud-sql-proxy", nil, []string{
			istioFlag, "-end-sidecar=http://127.0.0.1:4191/shutdown", "-end-sidecar=http://127.0.0.1:8200/agent/v1/quit", "-end-sidecar=http://127.0.0.1:9091/quitquitquit", "-end-sidecars-on=0-255",
		}},
		"a URL":                       {"http://:9091/quit?now=$x", nil, []string{"-end-sidecar=http://:9091/quit?now=$$x", "-end-sidecars-on=0-255"}},
		"the same twice":              {"istio, istio", nil, []string{istioFlag, "-end-sidecars-on=0-255"}},
		"none":                        {"none", nil, nil},
		"only a success is the end":   {"istio", func(p *corev1.Pod) { restarting(p, corev1.RestartPolicyOnFailure) }, []string{istioFlag, "-end-sidecars-on=0"}},
		"a rule restarts it":          {"istio", func(p *corev1.Pod) { p.Spec.Containers[1].RestartPolicyRules = restartedAfter(42) }, []string{istioFlag, "-end-sidecars-on=0-41,43-255"}},
		"no sidecar, so far":          {"istio", func(p *corev1.Pod) { p.Spec.Containers = p.Spec.Containers[1:] }, nil},
		"a native sidecar is stopped": {"istio", nativeProxy, nil},
		"another one works": {"istio", func(p *corev1.Pod) { p.Spec.Containers = append(p.Spec.Containers, running("b", "y")) }, []string{
			"-order-dir=/entrypointer/order/a", istioFlag, "-end-sidecars-on=0-255", "-end-sidecars-when=exited:/entrypointer/order/b", "-final-exit-codes=0-255:/entrypointer/order/b",
		}},
		"another one has its own policy": {"istio", func(p *corev1.Pod) {
			p.Spec.Containers = append(p.Spec.Containers, running("b", "y"))
			p.Spec.Containers[2].RestartPolicy = new(corev1.ContainerRestartPolicyOnFailure)
		}, []string{"-order-dir=/entrypointer/order/a", istioFlag, "-end-sidecars-on=0-255", "-end-sidecars-when=exited:/entrypointer/order/b", "-final-exit-codes=0:/entrypointer/order/b"}},
		"a kernel that containers may not share": {"istio", func(p *corev1.Pod) {
			p.Spec.Containers = append(p.Spec.Containers, running("b", "y"))
			p.Spec.RuntimeClassName = new("gvisor")
		}, []string{"-order-heartbeat=true", "-order-dir=/entrypointer/order/a", istioFlag, "-end-sidecars-on=0-255", "-end-sidecars-when=exited:/entrypointer/order/b", "-final-exit-codes=0-255:/entrypointer/order/b"}},
	} {
		for by, injector := range map[string]*pod.Injector{"pod": newInjector(nil), "namespace": ofNamespace(test.value)} {
			if by == "namespace" && name == "all names" {
				continue // it depends on the containers that there are
			}
			t.Run(name+", by the "+by, func(t *testing.T) {
				p := meshed()
				if by == "pod" {
					annotated(p, endSidecarsKey, test.value)
				}
				if test.change != nil {
					test.change(p)
				}
				result := inject(t, injector, p)
				at := len(p.Spec.Containers) - 1
				for p.Spec.Containers[at].Name != "a" {
					at--
				}
				require.Equal(t, append([]string{}, test.want...), flagsBefore(result.Pod, at))
				require.Empty(t, result.Warnings)
				require.Equal(t, "Injected by init-container", result.Pod.Annotations[pod.StatusAnnotation])
				requireSamePod(t, result.Pod, patched(t, p, result.Pod), "the patch leads elsewhere")
				require.Equal(t, pod.AlreadyInjected, inject(t, injector, result.Pod).Outcome)
			})
		}
	}
}

func restartedAfter(code int32) []corev1.ContainerRestartRule {
	return []corev1.ContainerRestartRule{{Action: corev1.ContainerRestartRuleActionRestart, ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{
		Operator: corev1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{code},
	}}}
}

// nativeProxy has the proxy be what Kubernetes stops itself.
func nativeProxy(p *corev1.Pod) {
	proxy := p.Spec.Containers[0]
	proxy.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
	p.Spec.InitContainers, p.Spec.Containers = []corev1.Container{proxy}, p.Spec.Containers[1:]
}

// Each wrapped container reads the directories of the others, beside what an order asks
// for. A helper that ends after the work needs the sidecars, too. What isn't wrapped has no
// part in it.
func TestThoseThatWorkReadOfEachOthersEnd(t *testing.T) {
	p := annotated(meshed(running("b", "y"), running("c", "z"), running("helper", "h")), endSidecarsKey, "istio")
	annotated(dependsOn(p, "c", "a:started"), "stop-when.entrypointer.dev/helper", "a:exited")
	wrapped := inject(t, newInjector(nil), p).Pod
	require.Equal(t, []string{"entrypointer-order-a", "entrypointer-order-b", "entrypointer-order-c", "entrypointer-order-helper"}, orderVolumes(wrapped))
	require.Empty(t, orderMounts(wrapped.Spec.Containers[0]))
	require.ElementsMatch(t, []string{"/entrypointer/order/a:rw", "/entrypointer/order/b:ro", "/entrypointer/order/c:ro", "/entrypointer/order/helper:ro"}, orderMounts(wrapped.Spec.Containers[1]))
	require.ElementsMatch(t, []string{"/entrypointer/order/a:ro", "/entrypointer/order/b:rw", "/entrypointer/order/c:ro", "/entrypointer/order/helper:ro"}, orderMounts(wrapped.Spec.Containers[2]))
	require.Contains(t, flagsBefore(wrapped, 3), "-depends-on=started:/entrypointer/order/a")
	require.Contains(t, flagsBefore(wrapped, 3), "-end-sidecars-when=exited:/entrypointer/order/a")
	require.Contains(t, flagsBefore(wrapped, 3), "-end-sidecars-when=exited:/entrypointer/order/helper")
	require.Contains(t, flagsBefore(wrapped, 4), "-end-sidecars-when=exited:/entrypointer/order/a")
	require.Contains(t, flagsBefore(wrapped, 4), istioFlag)
	require.Nil(t, wrapped.Spec.Containers[1].StartupProbe)
	require.Contains(t, wrapped.Annotations[pod.StatusAnnotation], "order: a -> c")
	require.Equal(t, pod.AlreadyInjected, inject(t, newInjector(nil), wrapped).Outcome)
}

func TestWorkThatHasNoEndIsRefusedOfAPodOnly(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*corev1.Pod)
		says   string
		warns  bool // of a namespace's
	}{
		"a server": {func(p *corev1.Pod) { restarting(p, corev1.RestartPolicyAlways) }, `container "a" is restarted after a success, so that the work of the pod is never done; set restartPolicy: OnFailure or Never`, false},
		"one that is always restarted": {func(p *corev1.Pod) {
			p.Spec.Containers[1].RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
		}, `container "a" is restarted after a success`, false},
		"a Knative Revision": {func(p *corev1.Pod) {
			restarting(p, "").Labels = map[string]string{"serving.knative.dev/revision": "r"}
		}, `container "a" is restarted after a success`, false},
		"helpers only": {func(p *corev1.Pod) { annotated(p, "stop-when.entrypointer.dev/a", "x:exited?") }, "the pod has no work that could end", false},
		"one that is replaced": {
			func(p *corev1.Pod) { annotated(p, "mode.entrypointer.dev/a", "exec") },
			`by annotation mode.entrypointer.dev/a: exec, container "a" has no supervisor that reports its end`, true,
		},
		"too many": {func(p *corev1.Pod) {
			for n := range 16 {
				p.Spec.Containers = append(p.Spec.Containers, running(fmt.Sprint("c", n), "x"))
			}
		}, "the pod has more than 16 wrapped containers", true},
	} {
		t.Run(name, func(t *testing.T) {
			p := meshed()
			test.change(p)
			requireRefused(t, refusal(t, newInjector(nil), annotated(p.DeepCopy(), endSidecarsKey, "istio")), pod.InvalidAnnotation, "reading annotation "+endSidecarsKey+": ", test.says)

			result := inject(t, ofNamespace("istio"), p)
			require.NotContains(t, strings.Join(flagsBefore(result.Pod, 1), " "), "sidecar")
			require.Empty(t, orderVolumes(result.Pod))
			about := strings.Join(pod.Messages(result.Warnings), "\n")
			require.Equal(t, test.warns, strings.Contains(about, `of namespace "tenant" has no effect: `+test.says), about)
			require.Equal(t, flagsBefore(result.Pod, 1), flagsBefore(inject(t, ofNamespace("istio"), annotated(p, endSidecarsKey, "none")).Pod, 1), "the pod wins")
		})
	}
}

// A sidecar with a fixed name, set on a namespace, applies to pods with a container of that
// name. A sidecar whose name varies may be in each pod.
func TestANamespacesNamesAreForPodsThatHaveThem(t *testing.T) {
	all := "istio, linkerd, vault, cloud-sql-proxy, http://:1/quit"
	require.Equal(t, []string{istioFlag, "-end-sidecar=http://127.0.0.1:9091/quitquitquit", "-end-sidecar=http://:1/quit", "-end-sidecars-on=0-255"},
		flagsBefore(inject(t, ofNamespace(all), meshed()).Pod, 1))
	require.Empty(t, flagsBefore(inject(t, ofNamespace("linkerd, vault"), meshed()).Pod, 1))
}

func TestAnUnwrappedContainerCountsAsASidecarWithAWarning(t *testing.T) {
	for _, injector := range []*pod.Injector{newInjector(nil), ofNamespace("istio")} {
		p := annotated(meshed(running("b", "y")), pod.ContainersAnnotation, "a")
		if injector.Defaults == nil {
			annotated(p, endSidecarsKey, "istio")
		}
		result := inject(t, injector, p)
		require.Equal(t, []string{istioFlag, "-end-sidecars-on=0-255"}, flagsBefore(result.Pod, 1))
		require.Len(t, result.Warnings, 1)
		require.Equal(t, pod.ReasonContainerCountsAsSidecar, result.Warnings[0].Reason)
		require.Contains(t, result.Warnings[0].Message, `container "b" isn't wrapped, so that it counts as a sidecar`)
	}
}

// Nobody would know of the end of a container that runs unwrapped after all.
func TestAFailedLookupKeepsTheSidecars(t *testing.T) {
	p := meshed(running("b", "y"))
	p.Spec.Containers[2].Command = nil
	injector := ofNamespace("istio")
	injector.Policy.WaiveFailedLookups = true
	result := inject(t, injector, p)
	require.Equal(t, pod.PartlyInjected, result.Outcome)
	require.Empty(t, flagsBefore(result.Pod, 1))
	require.Empty(t, orderVolumes(result.Pod))
	require.Contains(t, strings.Join(pod.Messages(result.Warnings), "\n"), "a container that runs unwrapped doesn't report the end of its work")
	requireSamePod(t, result.Pod, patched(t, p, result.Pod), "the patch leads elsewhere")
	injector.Defaults = nil
	requireRefused(t, refusal(t, injector, annotated(p, endSidecarsKey, "istio")), pod.LookupFailed, `wrapping container "b"`)
}

func TestAnInvalidSidecarIsRefusedWithTheValidValues(t *testing.T) {
	for _, value := range []string{"", ",", "Istio", "none, istio", "https://:1/", "http://localhost:1/", "http://:0/", "tcp://:1", "file:///x", `["x"]`, strings.Repeat("http://:1/,", 17)} {
		requireRefused(t, refusal(t, newInjector(nil), annotated(meshed(), endSidecarsKey, value)), pod.InvalidAnnotation,
			"reading annotation "+endSidecarsKey, `is wrong; it can be "istio", "linkerd"`)
		require.Error(t, pod.Defaults{Values: map[string]string{"end-sidecars": value}}.Check())
	}
	requireRefused(t, refusal(t, newInjector(nil), annotated(meshed(), "end-sidecars.entrypointer.dev/a", "istio")), pod.InvalidAnnotation,
		"the option is for whole pods; write entrypointer.dev/end-sidecars")
	limited := newInjector(nil)
	limited.Policy.PodOptions = []string{"mode"}
	requireRefused(t, refusal(t, limited, annotated(meshed(), endSidecarsKey, "istio")), pod.InvalidAnnotation, "the operator doesn't let pods set this option")
}

func TestTektonEndsItsSidecarsItself(t *testing.T) {
	taskRun := func() *corev1.Pod {
		p := restarting(asking(running("step-a", "x"), running("sidecar-b", "y")), corev1.RestartPolicyNever)
		p.Labels = map[string]string{"tekton.dev/taskRun": "t"}
		return p
	}
	result := inject(t, ofNamespace("http://:1/"), taskRun())
	require.Equal(t, inject(t, newInjector(nil), taskRun()).Pod, result.Pod)
	require.Empty(t, result.Warnings)
	requireRefused(t, refusal(t, newInjector(nil), annotated(taskRun(), endSidecarsKey, "istio")), pod.InvalidAnnotation, "Tekton ends the sidecars of a TaskRun itself")
	requireRefused(t, refusal(t, newInjector(nil), annotated(taskRun(), "wait-for.entrypointer.dev/step-a", "tcp://:1")), pod.InvalidAnnotation, "Tekton starts a TaskRun's steps when")
}
