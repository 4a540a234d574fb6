// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

// reads has a container of a pod read what another one prints.
func reads(p *corev1.Pod, reader, writer string) *corev1.Pod {
	return annotated(p, "stdin.entrypointer.dev/"+reader, writer)
}

// row is a pod in which b reads what a prints, and c what b does.
func row() *corev1.Pod { return reads(reads(abc(), "b", "a"), "c", "b") }

func TestAPipeIsForItsTwoContainersOnly(t *testing.T) {
	p := dependsOn(row(), "d", "b:started")
	p.Spec.Containers = append(p.Spec.Containers, running("d", "x"))
	result := inject(t, newInjector(nil), p)
	require.Empty(t, result.Warnings)
	wrapped := result.Pod
	// d sees how far b is, and can't write to its stdin.
	for at, want := range []struct{ flags, mounts []string }{
		{
			[]string{"-order-dir=/entrypointer/order/a", "-stdout-to=/entrypointer/order/b", "-final-exit-codes=0-255:/entrypointer/order/b"},
			[]string{"/entrypointer/order/a:rw", "/entrypointer/order/b:ro", "/entrypointer/order/b.stdin:ro"},
		},
		{
			[]string{
				"-order-dir=/entrypointer/order/b", "-stdin-from=/entrypointer/order/a",
				"-stdout-to=/entrypointer/order/c", "-final-exit-codes=0-255:/entrypointer/order/a", "-final-exit-codes=0-255:/entrypointer/order/c",
			},
			[]string{"/entrypointer/order/b:rw", "/entrypointer/order/a:ro", "/entrypointer/order/c:ro", "/entrypointer/order/b.stdin:rw", "/entrypointer/order/c.stdin:ro"},
		},
		{
			[]string{"-order-dir=/entrypointer/order/c", "-stdin-from=/entrypointer/order/b", "-final-exit-codes=0-255:/entrypointer/order/b"},
			[]string{"/entrypointer/order/c:rw", "/entrypointer/order/b:ro", "/entrypointer/order/c.stdin:rw"},
		},
		{[]string{"-depends-on=started:/entrypointer/order/b", "-final-exit-codes=0-255:/entrypointer/order/b"}, []string{"/entrypointer/order/b:ro"}},
	} {
		require.Equal(t, want.flags, flagsBefore(wrapped, at))
		require.Equal(t, want.mounts, orderMounts(wrapped.Spec.Containers[at]))
		require.NotNil(t, wrapped.Spec.Containers[at].StartupProbe, "it is neither killed nor ready while it waits")
	}
	require.Len(t, orderVolumes(wrapped), 5)
	require.Equal(t, "b -> d; a | b | c", result.Order)
	require.Equal(t, "Injected by init-container; order: b -> d; a | b | c", wrapped.Annotations[pod.StatusAnnotation])
	requireSamePod(t, wrapped, patched(t, p, wrapped), "the patch leads elsewhere")

	again := inject(t, newInjector(nil), wrapped)
	require.Equal(t, pod.AlreadyInjected, again.Outcome)
	require.Equal(t, wrapped, again.Pod)

	// Without the annotations, all of that goes again.
	for _, reader := range []string{"b", "c"} {
		delete(wrapped.Annotations, "stdin.entrypointer.dev/"+reader)
	}
	wrapped = inject(t, newInjector(nil), wrapped).Pod
	require.Equal(t, []string{"entrypointer-order-b"}, orderVolumes(wrapped))
	require.Nil(t, wrapped.Spec.Containers[2].StartupProbe)
	require.Empty(t, orderMounts(wrapped.Spec.Containers[2]))
}

func TestBothEndsKnowWhenTheOtherOneComesBack(t *testing.T) {
	for name, test := range map[string]struct {
		policy corev1.RestartPolicy
		rules  []corev1.ContainerRestartRule
		want   []string
	}{
		"never":             {corev1.RestartPolicyNever, nil, []string{"-final-exit-codes=0-255:/entrypointer/order/a"}},
		"after a failure":   {corev1.RestartPolicyOnFailure, nil, []string{"-final-exit-codes=0:/entrypointer/order/a"}},
		"always":            {corev1.RestartPolicyAlways, nil, nil},
		"after a few codes": {corev1.RestartPolicyNever, restartOn(3), []string{"-final-exit-codes=0-2,4-255:/entrypointer/order/a"}},
		"after a success":   {corev1.RestartPolicyNever, restartOn(0), []string{"-final-exit-codes=1-255:/entrypointer/order/a"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := reads(restarting(abc(), test.policy), "b", "a")
			p.Spec.Containers[0].RestartPolicyRules = test.rules
			flags := flagsBefore(inject(t, newInjector(nil), p).Pod, 1)
			require.Equal(t, append([]string{"-order-dir=/entrypointer/order/b", "-stdin-from=/entrypointer/order/a"}, test.want...), flags)
		})
	}
}

// restartOn are rules that restart a container after an exit code.
func restartOn(code int32) []corev1.ContainerRestartRule {
	return []corev1.ContainerRestartRule{{Action: corev1.ContainerRestartRuleActionRestart, ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{
		Operator: corev1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{code},
	}}}
}

// TestAReaderIsStoppedAfterItsWriter, so that it reads the last words of the writer.
func TestAReaderIsStoppedAfterItsWriter(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*corev1.Pod)
		want   []string
	}{
		"in a row":                         {func(p *corev1.Pod) { reads(p, "c", "b") }, []string{"", "-stop-after=@a -stop-share=10s", "-stop-after=@b -stop-share=20s"}},
		"although it waits for its writer": {func(p *corev1.Pod) { dependsOn(p, "b", "a:started") }, []string{"", "-stop-after=@a -stop-share=15s", ""}},
		"although it waits for a container that waits for its writer": {
			func(p *corev1.Pod) { dependsOn(dependsOn(p, "b", "c:started"), "c", "a:started") },
			[]string{"", "-stop-after=@a -stop-share=10s", "-stop-after=@b -stop-share=20s"},
		},
		"and before what its writer needs": {func(p *corev1.Pod) { dependsOn(p, "a", "c:started") }, []string{"", "-stop-after=@a -stop-share=15s", "-stop-after=@a -stop-share=15s"}},
		"and before what it needs itself":  {func(p *corev1.Pod) { dependsOn(p, "b", "c:started") }, []string{"", "-stop-after=@a -stop-share=10s", "-stop-after=@b -stop-share=20s"}},
		"and after what needs it":          {func(p *corev1.Pod) { dependsOn(p, "c", "b:started") }, []string{"", "-stop-after=@a -stop-after=@c -stop-share=15s", ""}},
		"without a grace period":           {func(p *corev1.Pod) { graceful(p, 0) }, []string{"", "", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			p := graceful(reads(abc(), "b", "a"), 30)
			test.change(p)
			result := inject(t, shells(), p)
			require.Equal(t, test.want, stopFlags(result.Pod))
			require.Empty(t, result.Warnings)
			require.Equal(t, pod.AlreadyInjected, inject(t, shells(), result.Pod).Outcome)
		})
	}
}

func TestAPipeWaitsNoLongerThanTheOrderDoes(t *testing.T) {
	p := annotated(reads(abc(), "b", "a"), "entrypointer.dev/depends-on-timeout", "1m")
	wrapped := inject(t, newInjector(nil), p).Pod
	require.Contains(t, flagsBefore(wrapped, 0), "-depends-on-timeout=1m")
	require.Contains(t, flagsBefore(wrapped, 1), "-depends-on-timeout=1m")
	require.Empty(t, flagsBefore(wrapped, 2))
}

func TestAnImpossiblePipeIsRefused(t *testing.T) {
	hook := &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"x"}}}}
	const key = "reading annotation stdin.entrypointer.dev/b: "
	for name, test := range map[string]struct {
		change func(*corev1.Pod)
		says   []string
	}{
		"from itself":                      {func(p *corev1.Pod) { reads(p, "b", "b") }, []string{key, "a container can't read its own output"}},
		"from an absent container":         {func(p *corev1.Pod) { reads(p, "b", "d") }, []string{key, `no container "d" in spec.containers; it has "a", "b", "c"`}},
		"to an absent container":           {func(p *corev1.Pod) { reads(p, "d", "a") }, []string{"stdin.entrypointer.dev/d", `no container "d"`}},
		"to two":                           {func(p *corev1.Pod) { reads(p, "c", "a") }, []string{"stdin.entrypointer.dev/c: ", `"b" reads that output already`}},
		"in a circle":                      {func(p *corev1.Pod) { reads(p, "a", "b") }, []string{"wait for each other", "a -> b -> a"}},
		"in a circle of three":             {func(p *corev1.Pod) { reads(reads(p, "c", "b"), "a", "c") }, []string{"a -> c -> b -> a"}},
		"from a container that waits":      {func(p *corev1.Pod) { dependsOn(p, "a", "b:started") }, []string{"wait for each other", "a -> b -> a"}},
		"by way of another":                {func(p *corev1.Pod) { dependsOn(dependsOn(p, "a", "c:started"), "c", "b:started") }, []string{"a -> c -> b -> a"}},
		"after its end":                    {func(p *corev1.Pod) { dependsOn(p, "b", "a:completed") }, []string{key, `which can't be completed before its output is read, and "b" waits for that`, "depends-on.entrypointer.dev/b"}},
		"after its end, by way of another": {func(p *corev1.Pod) { dependsOn(dependsOn(p, "b", "c:started"), "c", "a:exited") }, []string{key, `"c" waits for that`, "depends-on.entrypointer.dev/c"}},
		"after its end, further down":      {func(p *corev1.Pod) { dependsOn(reads(p, "c", "b"), "c", "a:completed") }, []string{key, `"c" waits for that`}},
		"after more than it holds": {func(p *corev1.Pod) {
			annotated(dependsOn(p, "b", "a:ready"), "ready-when.entrypointer.dev/a", "tcp://:80")
		}, []string{key, `which may print more than a pipe holds before it is ready, and "b" waits for that`, "depends-on.entrypointer.dev/b", "wait for it to be started"}},
		"after more than it holds, by way of another": {func(p *corev1.Pod) {
			annotated(dependsOn(dependsOn(p, "b", "c:started"), "c", "a:ready"), "ready-when.entrypointer.dev/a", "tcp://:80")
		}, []string{key, `"c" waits for that`, "depends-on.entrypointer.dev/c"}},
		"from a terminal":            {func(p *corev1.Pod) { p.Spec.Containers[0].TTY = true }, []string{key, `tty is true in "a"`}},
		"to a terminal":              {func(p *corev1.Pod) { p.Spec.Containers[1].TTY = true }, []string{key, `stdin or tty is true in "b"`}},
		"beside another stdin":       {func(p *corev1.Pod) { p.Spec.Containers[1].Stdin = true }, []string{key, `stdin or tty is true in "b"`}},
		"between kernels":            {func(p *corev1.Pod) { p.Spec.RuntimeClassName = new("gvisor") }, []string{key, "in a pod with a runtimeClassName, containers may not share a kernel"}},
		"from a replaced supervisor": {func(p *corev1.Pod) { annotated(p, "mode.entrypointer.dev/a", "exec") }, []string{key, "by annotation mode.entrypointer.dev/a: exec, the container has no supervisor that connects the pipe"}},
		"to a replaced supervisor":   {func(p *corev1.Pod) { annotated(p, "mode.entrypointer.dev/b", "exec") }, []string{"annotation stdin.entrypointer.dev/b", "it contradicts annotation mode.entrypointer.dev/b: exec"}},
		"from a proxy": {func(p *corev1.Pod) {
			p.Spec.Containers = append(p.Spec.Containers, running("istio-proxy", "x"))
			reads(p, "b", "istio-proxy")
		}, []string{key, `the output of container "istio-proxy" can't be connected`, "proxies that other webhooks add are left alone"}},
		"to an unselected container": {func(p *corev1.Pod) { annotated(p, pod.ContainersAnnotation, "a, c") }, []string{
			key, `"b" can't be given an input`, "add it to annotation entrypointer.dev/containers",
		}},
		"from an init container": {func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{running("early", "x")}
			reads(p, "b", "early")
		}, []string{key, `"early" is an init container`, "write its output to a volume"}},
		"from a step": {func(p *corev1.Pod) {
			p.Spec.Containers = []corev1.Container{running("step-a", "x"), running("step-b", "x")}
			p.Labels = map[string]string{"tekton.dev/taskRun": "t"}
			delete(p.Annotations, "stdin.entrypointer.dev/b")
			reads(p, "step-b", "step-a")
		}, []string{"stdin.entrypointer.dev/step-b", "Tekton runs the steps of a TaskRun one after the other", "workspace"}},
		"a hook before its reader": {func(p *corev1.Pod) { p.Spec.Containers[0].Lifecycle = hook }, []string{
			"reading annotation stdin.entrypointer.dev/b: ", `"a" has a postStart hook`, `doesn't start "b"`,
		}},
		"a hook before its writer": {func(p *corev1.Pod) {
			p.Spec.Containers[0], p.Spec.Containers[1] = p.Spec.Containers[1], p.Spec.Containers[0]
			p.Spec.Containers[0].Lifecycle = hook
		}, []string{key, `"b" has a postStart hook`, `doesn't start "a"`}},
		"a hook before the reader of an awaited container": {func(p *corev1.Pod) {
			p.Spec.Containers[1], p.Spec.Containers[2] = p.Spec.Containers[2], p.Spec.Containers[1]
			dependsOn(p, "c", "a:started").Spec.Containers[1].Lifecycle = hook
		}, []string{`"c" has a postStart hook`, `doesn't start "b"`}},
		"for all containers": {func(p *corev1.Pod) { annotated(p, "entrypointer.dev/stdin", "a") }, []string{"entrypointer.dev/stdin: the option is for single containers"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := reads(abc(), "b", "a")
			test.change(p)
			requireRefused(t, refusal(t, newInjector(nil), p), pod.InvalidAnnotation, test.says...)
		})
	}
	for _, value := range []string{"", " ", "a,c", "a:started", "a?", "A", "../a", "a b"} {
		requireRefused(t, refusal(t, newInjector(nil), reads(abc(), "b", value)), pod.InvalidAnnotation,
			key, fmt.Sprintf("%q is wrong; it can be the name of another container of the pod", value))
	}
}

func TestAPipeThatGoesWellWithOtherOptions(t *testing.T) {
	for name, change := range map[string]func(*corev1.Pod){
		"the reader waits for more":        func(p *corev1.Pod) { dependsOn(p, "b", "a:started, c:completed") },
		"the writer waits for another one": func(p *corev1.Pod) { dependsOn(p, "a", "c:completed") },
		"another one waits for both ends":  func(p *corev1.Pod) { dependsOn(p, "c", "a:completed, b:completed") },
		"a hook behind the other end": func(p *corev1.Pod) {
			p.Spec.Containers[1].Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{}}
		},
		"a default mode: exec has no effect here": func(p *corev1.Pod) { annotated(p, "mode.entrypointer.dev/c", "exec") },
	} {
		t.Run(name, func(t *testing.T) {
			p := reads(abc(), "b", "a")
			change(p)
			result := inject(t, newInjector(nil), p)
			require.Contains(t, result.Order, "a | b")
			require.Equal(t, pod.AlreadyInjected, inject(t, newInjector(nil), result.Pod).Outcome)
		})
	}
	p := reads(abc(), "b", "a")
	p.Spec.Containers[0].Command = nil
	injector := newInjector(nil)
	injector.Policy.WaiveFailedLookups = true
	requireRefused(t, refusal(t, injector, p), pod.LookupFailed, `wrapping container "a"`)
}

// TestAClassThatSharesTheKernelKeepsLocksAndPipes, if the operator lists it.
func TestAClassThatSharesTheKernelKeepsLocksAndPipes(t *testing.T) {
	p := reads(abc(), "b", "a")
	p.Spec.RuntimeClassName = new("nvidia")
	injector := shells()
	injector.Policy.SharedKernelClasses = []string{"nvidia"}
	result := inject(t, injector, p)
	require.Equal(t, "a | b", result.Order)
	require.NotContains(t, flagsBefore(result.Pod, 1), "-order-heartbeat=true")
	p.Spec.RuntimeClassName = new("gvisor")
	requireRefused(t, refusal(t, injector, p), pod.InvalidAnnotation, "in a pod with a runtimeClassName, containers may not share a kernel", "shared-kernel-classes")
}

func TestTheStatusHasSoManyPipes(t *testing.T) {
	p := asking(running("c0", "x"))
	for n := 1; n < 20; n++ {
		name := fmt.Sprint("c", n)
		p.Spec.Containers = append(p.Spec.Containers, running(name, "x"))
		reads(p, name, fmt.Sprint("c", n-1))
	}
	require.Equal(t, "c0 | c1 | c2 | c3 | c4 | c5 | c6 | c7 | c8 | c9 | c10 | c11 | c12 | c13 | c14 | c15, and 4 more", inject(t, newInjector(nil), p).Order)
	two := reads(reads(asking(running("d", "x"), running("a", "x"), running("b", "x"), running("c", "x")), "b", "a"), "d", "c")
	require.Equal(t, "a | b; c | d", inject(t, newInjector(nil), two).Order)
}
