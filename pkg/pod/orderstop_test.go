// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/entrypointer/entrypointer/pkg/conditions"
	"github.com/entrypointer/entrypointer/pkg/pod"
)

// shells looks busybox up successfully, so that its stop signal causes no warning.
func shells() *pod.Injector { return newInjector(images{"busybox": image(nil, []string{"sh"})}) }

// graceful gives a pod a grace period.
func graceful(p *corev1.Pod, seconds int64) *corev1.Pod {
	p.Spec.TerminationGracePeriodSeconds = &seconds
	return p
}

// stopFlags are the flags of a pod's containers by which they are stopped, a line each.
func stopFlags(p *corev1.Pod) (lines []string) {
	for at := range p.Spec.Containers {
		var flags []string
		if !slices.Contains(p.Spec.Containers[at].Args, "--") {
			continue
		}
		for _, flag := range flagsBefore(p, at) {
			if strings.HasPrefix(flag, "-stop-") {
				flags = append(flags, strings.ReplaceAll(flag, "/entrypointer/order/", "@"))
			}
		}
		lines = append(lines, strings.Join(flags, " "))
	}
	return lines
}

// sleeps is a preStop hook with a command.
func sleeps(argv ...string) *corev1.Lifecycle {
	return &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: argv}}}
}

// In a chain, a waits for b, and b for c.
func TestAContainerIsStoppedAfterThoseThatDependOnIt(t *testing.T) {
	hook := &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"x"}}}
	probe := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{}}}
	preStop := &corev1.Lifecycle{PreStop: hook}
	for name, test := range map[string]struct {
		change func(*corev1.Pod)
		want   []string
	}{
		"each level has a share of the grace period": {nil, []string{"", "-stop-after=@a -stop-share=10s", "-stop-after=@b -stop-share=20s"}},
		"of the pod's own":                           {func(p *corev1.Pod) { graceful(p, 10) }, []string{"", "-stop-after=@a -stop-share=3.333s -stop-grace=10s", "-stop-after=@b -stop-share=6.666s -stop-grace=10s"}},
		"however short it is":                        {func(p *corev1.Pod) { graceful(p, 1) }, []string{"", "-stop-after=@a -stop-share=333ms -stop-grace=1s", "-stop-after=@b -stop-share=666ms -stop-grace=1s"}},
		"however long it is":                         {func(p *corev1.Pod) { graceful(p, math.MaxInt64) }, []string{"", "-stop-after=@a -stop-share=198841h4m42.333s -stop-grace=596523h14m7s", "-stop-after=@b -stop-share=397682h9m24.666s -stop-grace=596523h14m7s"}},
		"without one, all are killed at once":        {func(p *corev1.Pod) { graceful(p, 0) }, []string{"", "", ""}},
		"two that depend on one": {func(p *corev1.Pod) { dependsOn(dependsOn(p, "a", "c:started"), "b", "c:started") }, []string{
			"", "", "-stop-after=@a -stop-after=@b -stop-share=15s",
		}},
		"by the longest way": {func(p *corev1.Pod) { dependsOn(p, "a", "c:started, b:started") }, []string{
			"", "-stop-after=@a -stop-share=10s", "-stop-after=@a -stop-after=@b -stop-share=20s",
		}},
		"the first can't tell when it is stopped": {func(p *corev1.Pod) { annotated(p, "mode.entrypointer.dev/a", "exec") }, []string{"", "", "-stop-after=@b -stop-share=15s"}},
		"the last can't be held back":             {func(p *corev1.Pod) { annotated(p, "mode.entrypointer.dev/c", "exec") }, []string{"", "-stop-after=@a -stop-share=15s", ""}},
		"the one between can neither":             {func(p *corev1.Pod) { annotated(p, "mode.entrypointer.dev/b", "exec") }, []string{"", "", ""}},
		"its signal comes after a sleep": {func(p *corev1.Pod) {
			p.Spec.Containers[2].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 15}}}
		}, []string{"", "-stop-after=@a -stop-share=10s", "-stop-after=@b -stop-share=20s -stop-delay=15s"}},
		"its signal comes after a sleep of its own command": {func(p *corev1.Pod) { p.Spec.Containers[1].Lifecycle = sleeps("/bin/sleep", "4.5") }, []string{"", "-stop-after=@a -stop-share=10s -stop-delay=4.5s", "-stop-after=@b -stop-share=20s -stop-together=true"}},
		"its signal comes after a sleep of its shell":       {func(p *corev1.Pod) { p.Spec.Containers[2].Lifecycle = sleeps("/bin/sh", "-c", " sleep 12s ") }, []string{"", "-stop-after=@a -stop-share=10s", "-stop-after=@b -stop-share=20s -stop-delay=12s"}},
		"its signal comes when its share is over":           {func(p *corev1.Pod) { p.Spec.Containers[2].Lifecycle = sleeps("sleep", "1m") }, []string{"", "-stop-after=@a -stop-share=10s", "-stop-after=@b -stop-share=20s -stop-delay=1m0s"}},
		"it does more than sleep":                           {func(p *corev1.Pod) { p.Spec.Containers[2].Lifecycle = sleeps("sh", "-c", "sleep 1; x") }, []string{"", "-stop-after=@a -stop-share=10s", "-stop-after=@b -stop-share=20s"}},
		"it sleeps for no number":                           {func(p *corev1.Pod) { p.Spec.Containers[2].Lifecycle = sleeps("sleep", "NaN") }, []string{"", "-stop-after=@a -stop-share=10s", "-stop-after=@b -stop-share=20s"}},
		"it sleeps for ever":                                {func(p *corev1.Pod) { p.Spec.Containers[2].Lifecycle = sleeps("sleep", "inf") }, []string{"", "-stop-after=@a -stop-share=10s", "-stop-after=@b -stop-share=20s -stop-delay=596523h14m7s"}},
		"it has a preStop hook itself":                      {func(p *corev1.Pod) { p.Spec.Containers[2].Lifecycle = preStop }, []string{"", "-stop-after=@a -stop-share=10s", "-stop-after=@b -stop-share=20s"}},
		"the signal of the one before it comes after hooks": {func(p *corev1.Pod) { p.Spec.Containers[0].Lifecycle = preStop }, []string{"", "-stop-after=@a -stop-share=10s -stop-together=true", "-stop-after=@b -stop-share=20s"}},
		"a livenessProbe may stop it alone": {func(p *corev1.Pod) {
			p.Spec.Containers[0].Lifecycle, p.Spec.Containers[1].LivenessProbe = preStop, probe
		}, []string{"", "-stop-after=@a -stop-share=10s", "-stop-after=@b -stop-share=20s"}},
		"a startupProbe may stop it alone": {func(p *corev1.Pod) {
			p.Spec.Containers[1].Lifecycle, p.Spec.Containers[2].StartupProbe = preStop, probe
		}, []string{"", "-stop-after=@a -stop-share=10s", "-stop-after=@b -stop-share=20s"}},
		"a postStart hook may stop it alone": {func(p *corev1.Pod) {
			p.Spec.Containers[1].Lifecycle, p.Spec.Containers[2].Lifecycle = preStop, &corev1.Lifecycle{PostStart: hook}
		}, []string{"", "-stop-after=@a -stop-share=10s", "-stop-after=@b -stop-share=20s"}},
		"other resources may stop it alone": {func(p *corev1.Pod) {
			p.Spec.Containers[1].Lifecycle = preStop
			p.Spec.Containers[2].ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: "memory", RestartPolicy: corev1.RestartContainer}}
		}, []string{"", "-stop-after=@a -stop-share=10s", "-stop-after=@b -stop-share=20s"}},
		"it sleeps after its start": {func(p *corev1.Pod) {
			p.Spec.Containers[1].Lifecycle = preStop
			p.Spec.Containers[2].Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 1}}}
		}, []string{"", "-stop-after=@a -stop-share=10s", "-stop-after=@b -stop-share=20s -stop-together=true"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := restarting(chain(), corev1.RestartPolicyAlways)
			p.Spec.TerminationGracePeriodSeconds = nil
			if test.change != nil {
				test.change(p)
			}
			result := inject(t, shells(), p)
			require.Equal(t, test.want, stopFlags(result.Pod))
			require.Empty(t, result.Warnings)
			requireSamePod(t, result.Pod, patched(t, p, result.Pod), "the patch leads elsewhere")
			again := inject(t, shells(), result.Pod)
			require.Equal(t, pod.AlreadyInjected, again.Outcome)
			require.Equal(t, result.Pod, again.Pod)
		})
	}
}

// TestAContainerOutlastsThoseBehindACompletedOne: c serves b until b has completed, and
// may serve a longer, because a waits for b.
func TestAContainerOutlastsThoseBehindACompletedOne(t *testing.T) {
	never := func(p *corev1.Pod) { restarting(p, corev1.RestartPolicyNever) }
	both := []string{"", "-stop-after=@a -stop-share=10s", "-stop-after=@a -stop-after=@b -stop-share=20s"}
	for name, test := range map[string]struct {
		change func(*corev1.Pod)
		want   []string
	}{
		"b is never restarted":                {never, both},
		"b is restarted after failures":       {func(p *corev1.Pod) { restarting(p, corev1.RestartPolicyOnFailure) }, both},
		"b alone isn't restarted":             {func(p *corev1.Pod) { p.Spec.Containers[1].RestartPolicy = new(corev1.ContainerRestartPolicyNever) }, both},
		"b is always restarted":               {func(*corev1.Pod) {}, []string{"", "-stop-after=@a -stop-share=10s", "-stop-after=@b -stop-share=20s"}},
		"b has no supervisor":                 {func(p *corev1.Pod) { never(p); annotated(p, "mode.entrypointer.dev/b", "exec") }, []string{"", "", "-stop-after=@a -stop-share=15s"}},
		"a has no supervisor":                 {func(p *corev1.Pod) { never(p); annotated(p, "mode.entrypointer.dev/a", "exec") }, []string{"", "", "-stop-after=@b -stop-share=15s"}},
		"a waits for both already":            {func(p *corev1.Pod) { never(p); dependsOn(p, "a", "c:started, b:started") }, both},
		"only the failures of b are for good": {func(p *corev1.Pod) { never(p); p.Spec.Containers[1].RestartPolicyRules = restartOn(0) }, both},
	} {
		t.Run(name, func(t *testing.T) {
			p := restarting(graceful(chain(), 30), corev1.RestartPolicyAlways)
			test.change(p)
			result := inject(t, shells(), p)
			require.Equal(t, test.want, stopFlags(result.Pod))
			require.Equal(t, pod.AlreadyInjected, inject(t, shells(), result.Pod).Outcome)
		})
	}
}

// TestALivenessProbeTellsWhetherThePodIsStopped: c is held back for b, whose preStop hook
// delays its stop signal.
func TestALivenessProbeTellsWhetherThePodIsStopped(t *testing.T) {
	handler := func(h corev1.ProbeHandler) *corev1.Probe { return &corev1.Probe{ProbeHandler: h} }
	get := func(action corev1.HTTPGetAction) *corev1.Probe { return handler(corev1.ProbeHandler{HTTPGet: &action}) }
	tcp := func(port intstr.IntOrString) *corev1.Probe {
		return handler(corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: port}})
	}
	hook := &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"x"}}}
	for name, test := range map[string]struct {
		probe  *corev1.Probe
		change func(p *corev1.Pod, c *corev1.Container)
		want   string
	}{
		"by a port": {tcp(intstr.FromInt32(80)), nil, "-alive-tcp=:80"},
		"by a named port": {tcp(intstr.FromString("db")), func(_ *corev1.Pod, c *corev1.Container) {
			c.Ports = []corev1.ContainerPort{{Name: "db", ContainerPort: 5432}}
		}, "-alive-tcp=:5432"},
		"by an answer": {
			get(corev1.HTTPGetAction{Path: "healthz?x=$1", Port: intstr.FromInt32(80), HTTPHeaders: []corev1.HTTPHeader{{Name: "A", Value: "$b"}}}), nil,
			"-alive-http=http://:80/healthz?x=$$1 -alive-http-header=A: $$b",
		},
		"by a program":                {handler(corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"check", "$(NAME)"}}}), nil, "-alive-exec=check -alive-exec=$(NAME)"},
		"whatever times it has":       {&corev1.Probe{ProbeHandler: tcp(intstr.FromInt32(80)).ProbeHandler, TimeoutSeconds: 5, InitialDelaySeconds: 9, FailureThreshold: 7, PeriodSeconds: 8}, nil, "-alive-tcp=:80"},
		"not if a port has no number": {tcp(intstr.FromString("db")), nil, ""},
		"not by HTTPS":                {get(corev1.HTTPGetAction{Scheme: corev1.URISchemeHTTPS, Port: intstr.FromInt32(443)}), nil, ""},
		"not by gRPC":                 {handler(corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: 80}}), nil, ""},
		"not if its own grace period may be shorter than the share": {&corev1.Probe{ProbeHandler: tcp(intstr.FromInt32(80)).ProbeHandler, TerminationGracePeriodSeconds: new(int64(5))}, nil, ""},
		"not if a startupProbe may stop it alone":                   {tcp(intstr.FromInt32(80)), func(_ *corev1.Pod, c *corev1.Container) { c.StartupProbe = tcp(intstr.FromInt32(80)) }, ""},
		"not if a postStart hook may stop it alone": {tcp(intstr.FromInt32(80)), func(_ *corev1.Pod, c *corev1.Container) {
			c.Lifecycle = &corev1.Lifecycle{PostStart: hook}
		}, ""},
		"not if other resources may stop it alone": {tcp(intstr.FromInt32(80)), func(_ *corev1.Pod, c *corev1.Container) {
			c.ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: "memory", RestartPolicy: corev1.RestartContainer}}
		}, ""},
		"not if all signals come at once": {tcp(intstr.FromInt32(80)), func(p *corev1.Pod, _ *corev1.Container) { p.Spec.Containers[1].Lifecycle = nil }, ""},
		"not if it isn't held back":       {tcp(intstr.FromInt32(80)), func(p *corev1.Pod, _ *corev1.Container) { graceful(p, 0) }, ""},
		"not if its command has replaced the supervisor": {tcp(intstr.FromInt32(80)), func(p *corev1.Pod, _ *corev1.Container) {
			annotated(p, "mode.entrypointer.dev/c", "exec")
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := restarting(graceful(chain(), 30), corev1.RestartPolicyAlways)
			p.Spec.Containers[1].Lifecycle = &corev1.Lifecycle{PreStop: hook}
			c := &p.Spec.Containers[2]
			c.LivenessProbe = test.probe
			if test.change != nil {
				test.change(p, c)
			}
			result := inject(t, shells(), p)
			var flags []string
			for _, flag := range flagsBefore(result.Pod, 2) {
				require.NotContains(t, flag, "-stop-together")
				if strings.HasPrefix(flag, "-alive-") {
					flags = append(flags, flag)
				}
			}
			require.Equal(t, test.want, strings.Join(flags, " "))
			require.Empty(t, result.Warnings)
			require.Equal(t, test.probe, result.Pod.Spec.Containers[2].LivenessProbe, "the kubelet goes on with it")
			again := inject(t, shells(), result.Pod)
			require.Equal(t, pod.AlreadyInjected, again.Outcome)
			require.Equal(t, result.Pod, again.Pod)
		})
	}
}

func TestThoseThatStopInTurnReadEachOther(t *testing.T) {
	p := graceful(chain(), 30)
	p.Spec.Containers = append(p.Spec.Containers, running("apart", "x"))
	wrapped := inject(t, shells(), p).Pod
	require.Equal(t, []string{"entrypointer-order-a", "entrypointer-order-b", "entrypointer-order-c"}, orderVolumes(wrapped))
	for at, want := range [][]string{
		{"/entrypointer/order/a:rw", "/entrypointer/order/b:ro"},
		{"/entrypointer/order/b:rw", "/entrypointer/order/c:ro", "/entrypointer/order/a:ro"},
		{"/entrypointer/order/c:rw", "/entrypointer/order/a:ro", "/entrypointer/order/b:ro"},
		nil,
	} {
		require.Equal(t, want, orderMounts(wrapped.Spec.Containers[at]))
		require.Equal(t, at < 2, wrapped.Spec.Containers[at].StartupProbe != nil, "only those that wait have a probe of ours")
	}
}

// Knative gives each container of a Revision a preStop hook, which ends when queue-proxy has
// no more requests, and the pod its timeoutSeconds as grace period.
func TestContainersOfARevisionStopInTurn(t *testing.T) {
	drained := &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/wait-for-drain", Port: intstr.FromInt32(8022)}}}
	p := graceful(dependsOn(asking(running("web", "x"), running("cache", "x"), running("queue-proxy", "x")), "web", "cache:started"), 300)
	p.Labels = map[string]string{"serving.knative.dev/revision": "r"}
	for at := range p.Spec.Containers[:2] {
		p.Spec.Containers[at].Lifecycle = drained
	}
	require.Equal(t, []string{"", "-stop-after=@web -stop-share=2m30s -stop-grace=5m0s -stop-together=true"}, stopFlags(inject(t, shells(), p.DeepCopy()).Pod))
	p.Spec.Containers[1].LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{}}}
	require.Equal(t, []string{"", "-stop-after=@web -stop-share=2m30s -stop-grace=5m0s"}, stopFlags(inject(t, shells(), p).Pod))
}

func TestAForgedStopIsRepaired(t *testing.T) {
	injector := shells()
	for name, forge := range map[string]func(*corev1.Pod){
		"an awaited container may write":  func(p *corev1.Pod) { p.Spec.Containers[1].VolumeMounts[2].ReadOnly = false },
		"it can't say it is over":         func(p *corev1.Pod) { p.Spec.Containers[0].VolumeMounts[1].ReadOnly = true },
		"a volume gone":                   func(p *corev1.Pod) { p.Spec.Volumes = p.Spec.Volumes[:3] },
		"a longer share":                  func(p *corev1.Pod) { p.Spec.Containers[2].Args[2] = "-stop-share=1000h" },
		"an end with an absent container": func(p *corev1.Pod) { p.Spec.Containers[2].Args[2] = "-stop-when=exited:/entrypointer/order/b" },
		"no word from the first":          func(p *corev1.Pod) { p.Spec.Containers[1].Args = p.Spec.Containers[1].Args[3:] },
		"a signal that is none":           func(p *corev1.Pod) { p.Spec.Containers[2].Args[2] = "-stop-signal=SIGNONE" },
		"the usual signal":                func(p *corev1.Pod) { p.Spec.Containers[2].Args[2] = "-stop-signal=15" },
		"an unnecessary signal": func(p *corev1.Pod) {
			c := &p.Spec.Containers[3]
			c.Args = append([]string{"-stop-signal=SIGQUIT"}, c.Args...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := graceful(chain(), 30)
			p.Spec.Containers = append(p.Spec.Containers, running("apart", "x"))
			wrapped := inject(t, injector, p).Pod
			requireRepaired(t, injector, wrapped, forge)
		})
	}
}

func TestAnOrderThatAllReadOfAllHasABound(t *testing.T) {
	all := func(size int) *corev1.Pod {
		waits := map[string]string{}
		for i := 1; i < size; i++ {
			waits[fmt.Sprint("c", i)] = many(0, i)
		}
		return ofMany(size, waits)
	}
	inject(t, shells(), all(90))
	requireRefused(t, refusal(t, shells(), all(92)), pod.InvalidAnnotation, "8372 directories of each other, and 8192 is the most", "reduce the dependencies between them")
	inject(t, shells(), atOnce(all(92)))
}

// stopWhen has a container of a pod end with others.
func stopWhen(p *corev1.Pod, container, value string) *corev1.Pod {
	return annotated(p, "stop-when.entrypointer.dev/"+container, value)
}

func TestAHelperEndsWithTheWork(t *testing.T) {
	for name, test := range map[string]struct {
		value  string
		change func(*corev1.Pod)
		want   []string
		order  string
	}{
		"a failure ends it where no container is restarted": {"b:completed", nil, []string{"-stop-when=completed:/entrypointer/order/b", "-final-exit-codes=0-255:/entrypointer/order/b"}, "a until b"},
		"it outlasts a failure that is none for good":       {"b:completed", func(p *corev1.Pod) { restarting(p, corev1.RestartPolicyOnFailure) }, []string{"-stop-when=completed:/entrypointer/order/b", "-final-exit-codes=0:/entrypointer/order/b"}, "a until b"},
		"with several, when the last has ended":             {"b:completed, c:exited", nil, []string{"-stop-when=completed:/entrypointer/order/b", "-stop-when=exited:/entrypointer/order/c", "-final-exit-codes=0-255:/entrypointer/order/b", "-final-exit-codes=0-255:/entrypointer/order/c"}, "a until b, c"},
		"the pod need not have one":                         {"b:exited\nnobody:exited?", nil, []string{"-stop-when=exited:/entrypointer/order/b", "-final-exit-codes=0-255:/entrypointer/order/b"}, "a until b"},
		"the pod has none":                                  {"nobody:exited?", nil, nil, ""},
		"of a pod that always restarts its containers": {"b:exited", func(p *corev1.Pod) {
			restarting(p, corev1.RestartPolicyAlways)
			p.Spec.Containers[0].RestartPolicy = new(corev1.ContainerRestartPolicyNever)
			p.Spec.Containers[1].RestartPolicy = new(corev1.ContainerRestartPolicyOnFailure)
		}, []string{"-stop-when=exited:/entrypointer/order/b", "-final-exit-codes=0:/entrypointer/order/b"}, "a until b"},
		"a kernel that containers may not share": {"b:exited", func(p *corev1.Pod) { p.Spec.RuntimeClassName = new("gvisor") }, []string{"-order-heartbeat=true", "-stop-when=exited:/entrypointer/order/b", "-final-exit-codes=0-255:/entrypointer/order/b"}, "a until b"},
		"the work needs it": {"b:exited", func(p *corev1.Pod) { dependsOn(p, "b", "a:started") }, []string{
			"-order-dir=/entrypointer/order/a", "-stop-when=exited:/entrypointer/order/b", "-final-exit-codes=0-255:/entrypointer/order/b",
		}, "a -> b; a until b"},
		"the default is another mode": {"b:exited", func(p *corev1.Pod) { annotated(p, "mode.entrypointer.dev/c", "exec") }, []string{"-stop-when=exited:/entrypointer/order/b", "-final-exit-codes=0-255:/entrypointer/order/b"}, "a until b"},
	} {
		t.Run(name, func(t *testing.T) {
			p := stopWhen(abc(), "a", test.value)
			if test.change != nil {
				test.change(p)
			}
			result := inject(t, shells(), p)
			require.Equal(t, append([]string{}, test.want...), flagsBefore(result.Pod, 0))
			require.Equal(t, test.order, result.Order)
			require.Empty(t, result.Warnings)
			require.Nil(t, result.Pod.Spec.Containers[0].StartupProbe, "it doesn't wait")
			requireSamePod(t, result.Pod, patched(t, p, result.Pod), "the patch leads elsewhere")
			require.Equal(t, pod.AlreadyInjected, inject(t, shells(), result.Pod).Outcome)
		})
	}
}

func TestAHelperReadsOfTheWorkOnly(t *testing.T) {
	wrapped := inject(t, shells(), stopWhen(graceful(abc(), 30), "a", "b:exited")).Pod
	require.Equal(t, []string{"entrypointer-order-b"}, orderVolumes(wrapped))
	require.Equal(t, []string{"/entrypointer/order/b:ro"}, orderMounts(wrapped.Spec.Containers[0]))
	require.Equal(t, []string{"/entrypointer/order/b:rw"}, orderMounts(wrapped.Spec.Containers[1]))
	require.Equal(t, []string{"-order-dir=/entrypointer/order/b"}, flagsBefore(wrapped, 1))
}

func TestAHelperWithoutAnEndIsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*corev1.Pod)
		says   []string
	}{
		"itself": {func(p *corev1.Pod) { stopWhen(p, "a", "a:exited") }, []string{`"a" can't end when it has ended itself`, "name the containers that it helps"}},
		"itself, among others": {func(p *corev1.Pod) { stopWhen(p, "a", "b:exited, a:exited") }, []string{
			`"a" can't end when it has ended itself`,
		}},
		"a name that isn't there": {func(p *corev1.Pod) { stopWhen(p, "a", "d:exited") }, []string{"stop-when.entrypointer.dev/a", `no container "d" in spec.containers; it has "a", "b", "c"`}},
		"a helper that isn't there": {func(p *corev1.Pod) { stopWhen(p, "d", "a:exited") }, []string{
			"stop-when.entrypointer.dev/d", `no container "d"`,
		}},
		"a proxy": {func(p *corev1.Pod) {
			p.Spec.Containers = append(p.Spec.Containers, running("istio-proxy", "x"))
			stopWhen(p, "istio-proxy", "a:exited")
		}, []string{`"istio-proxy" can't be ended, because`, "proxies that other webhooks add are left alone"}},
		"an unwrapped container": {func(p *corev1.Pod) { stopWhen(annotated(p, pod.ContainersAnnotation, "a"), "a", "b:exited") }, []string{
			`container "b" doesn't report its state`, "add it to annotation entrypointer.dev/containers",
		}},
		"a helper that is restarted": {func(p *corev1.Pod) { stopWhen(restarting(p, corev1.RestartPolicyAlways), "a", "b:exited") }, []string{
			`"a" would be started again and again`, "set restartPolicy: OnFailure or Never",
		}},
		"a helper that a rule restarts": {func(p *corev1.Pod) {
			stopWhen(p, "a", "b:exited").Spec.Containers[0].RestartPolicyRules = []corev1.ContainerRestartRule{{ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{
				Operator: corev1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{0},
			}}}
		}, []string{`"a" would be started again and again`}},
		"the work is restarted": {func(p *corev1.Pod) {
			stopWhen(p, "a", "b:completed").Spec.Containers[1].RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
		}, []string{`"a" can't end when "b" is completed`, "it is restarted after a success"}},
		"the work is replaced": {func(p *corev1.Pod) { stopWhen(annotated(p, "mode.entrypointer.dev/b", "exec"), "a", "b:exited") }, []string{
			"by annotation mode.entrypointer.dev/b: exec", `container "b" has no supervisor that reports its end`, "remove one of them",
		}},
		"the helper is replaced": {func(p *corev1.Pod) { stopWhen(annotated(p, "mode.entrypointer.dev/a", "exec"), "a", "b:exited") }, []string{
			"reading annotation stop-when.entrypointer.dev/a: it contradicts annotation mode.entrypointer.dev/a: exec",
		}},
		"for all containers": {func(p *corev1.Pod) { annotated(p, "entrypointer.dev/stop-when", "a:exited") }, []string{"write stop-when.entrypointer.dev/CONTAINER"}},
		"a sidecar of Tekton's": {func(p *corev1.Pod) {
			p.Spec.Containers = []corev1.Container{running("step-a", "x"), running("sidecar-b", "x")}
			p.Labels = map[string]string{"tekton.dev/taskRun": "t"}
			stopWhen(p, "sidecar-b", "step-a:exited")
		}, []string{"stop-when.entrypointer.dev/sidecar-b", "Tekton ends the steps of a TaskRun in their order", "remove the annotation"}},
		"in a Revision": {func(p *corev1.Pod) {
			p.Labels = map[string]string{"serving.knative.dev/revision": "r"}
			stopWhen(restarting(p, corev1.RestartPolicyAlways), "a", "b:exited")
		}, []string{"Knative restarts all containers of a Revision"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := abc()
			test.change(p)
			requireRefused(t, refusal(t, shells(), p), pod.InvalidAnnotation, test.says...)
		})
	}
	for _, value := range []string{"", ",", "b", "b:", "b:started", "b:ready", "b:exited, b:completed", "../b:exited"} {
		requireRefused(t, refusal(t, shells(), stopWhen(abc(), "a", value)), pod.InvalidAnnotation,
			"reading annotation stop-when.entrypointer.dev/a", fmt.Sprintf("%q is wrong; it can be CONTAINER:CONDITION", value), "a condition is "+conditions.Ends.String())
	}
}

func TestTheStatusHasTheHelpersInShort(t *testing.T) {
	p := stopWhen(stopWhen(dependsOn(abc(), "b", "a:started"), "a", "b:exited, c:exited"), "c", "b:completed")
	require.Equal(t, "Injected by init-container; order: a -> b; a until b, c; c until b", inject(t, shells(), p).Pod.Annotations[pod.StatusAnnotation])
	crowd := ofMany(30, nil)
	for i := 1; i < 30; i++ {
		stopWhen(restarting(crowd, corev1.RestartPolicyNever), fmt.Sprint("c", i), "c0:exited")
	}
	require.Contains(t, inject(t, shells(), crowd).Order, "c16 until c0; and 13 more")
}
