// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

// dependsOn has a container of a pod wait for others.
func dependsOn(p *corev1.Pod, container, value string) *corev1.Pod {
	return annotated(p, "depends-on.entrypointer.dev/"+container, value)
}

// restarting sets a pod's restart policy.
func restarting(p *corev1.Pod, policy corev1.RestartPolicy) *corev1.Pod {
	p.Spec.RestartPolicy = policy
	return p
}

// abc is a pod of three containers that end. They have no grace period, so that only
// their start has an order.
func abc() *corev1.Pod {
	return atOnce(restarting(asking(running("a", "x"), running("b", "y"), running("c", "z")), corev1.RestartPolicyNever))
}

// atOnce has a pod's containers killed without a grace period.
func atOnce(p *corev1.Pod) *corev1.Pod {
	p.Spec.TerminationGracePeriodSeconds = new(int64(0))
	return p
}

// flagsBefore are the supervisor's flags of a container.
func flagsBefore(p *corev1.Pod, container int) []string {
	args := p.Spec.Containers[container].Args
	return args[:slices.Index(args, "--")]
}

// TestANativeSidecarHasStartedBefore: Kubernetes starts it, and waits for its
// startupProbe, before the containers.
func TestANativeSidecarHasStartedBefore(t *testing.T) {
	p := abc()
	p.Spec.InitContainers = []corev1.Container{running("proxy", "x"), running("setup", "x")}
	p.Spec.InitContainers[0].RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
	alone := inject(t, shells(), p.DeepCopy()).Pod
	named := inject(t, shells(), dependsOn(p.DeepCopy(), "a", "proxy:started"))
	require.Empty(t, named.Order)
	require.Equal(t, flagsBefore(alone, 0), flagsBefore(named.Pod, 0))
	require.Equal(t, "b -> a", inject(t, shells(), dependsOn(p.DeepCopy(), "a", "proxy:started, b:started")).Order)
	for _, condition := range []string{"ready", "completed", "exited"} {
		requireRefused(t, refusal(t, shells(), dependsOn(p.DeepCopy(), "a", "proxy:"+condition)), pod.InvalidAnnotation,
			`"proxy" is a native sidecar`, "wait for it to be started", "startupProbe", "wait-for")
	}
	requireRefused(t, refusal(t, shells(), dependsOn(p, "a", "setup:started")), pod.InvalidAnnotation, `"setup" is an init container`)
}

func refusal(t *testing.T, injector *pod.Injector, p *corev1.Pod) error {
	t.Helper()
	_, err := injector.Inject(t.Context(), "tenant", p)
	return err
}

func TestContainersAreOrderedByDirectoriesOfTheirOwn(t *testing.T) {
	db := running("db", "postgres")
	db.Image = "postgres"
	db.ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"pg_isready", "-h", "$(HOST)"}}}, TimeoutSeconds: 5}
	sent := restarting(asking(running("web", "serve"), db, running("migrate", "migrate")), corev1.RestartPolicyOnFailure)
	dependsOn(dependsOn(sent, "web", "migrate:completed, db:ready, cache:started?"), "migrate", "db:ready")
	annotated(sent, "depends-on-timeout.entrypointer.dev/web", "5m")
	injector := newInjector(images{"busybox": image(nil, []string{"sh"}), "postgres": stoppedBy("SIGINT")})
	result := inject(t, injector, sent)
	requireGolden(t, "order", result.Pod)
	require.Empty(t, result.Warnings)
	require.Equal(t, "db -> migrate -> web", result.Order)
	requireSamePod(t, result.Pod, patched(t, sent, result.Pod), "the patch leads elsewhere")

	again := inject(t, injector, result.Pod)
	require.Equal(t, pod.AlreadyInjected, again.Outcome)
	require.Equal(t, result.Pod, again.Pod)
}

func TestConditionsBecomeFlags(t *testing.T) {
	const b = "/entrypointer/order/b"
	rule := func(operator corev1.ContainerRestartRuleOnExitCodesOperator, codes ...int32) corev1.ContainerRestartRule {
		return corev1.ContainerRestartRule{Action: corev1.ContainerRestartRuleActionRestart, ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{Operator: operator, Values: codes}}
	}
	for name, test := range map[string]struct {
		asks   string
		change func(*corev1.Pod)
		want   []string
	}{
		"a failure is final where no container is restarted":     {"b:started", nil, []string{"-depends-on=started:" + b, "-final-exit-codes=0-255:" + b}},
		"a restarted container comes back":                       {"b:started", func(p *corev1.Pod) { restarting(p, corev1.RestartPolicyAlways) }, []string{"-depends-on=started:" + b}},
		"a container restarted after a failure may be completed": {"b:completed", func(p *corev1.Pod) { restarting(p, corev1.RestartPolicyOnFailure) }, []string{"-depends-on=completed:" + b, "-final-exit-codes=0:" + b}},
		"a container restarted after a failure has exited then":  {"b:exited", func(p *corev1.Pod) { restarting(p, corev1.RestartPolicyOnFailure) }, []string{"-depends-on=exited:" + b, "-final-exit-codes=0:" + b}},
		"a container's own policy counts": {"b:completed", func(p *corev1.Pod) {
			restarting(p, corev1.RestartPolicyAlways).Spec.Containers[1].RestartPolicy = new(corev1.ContainerRestartPolicyNever)
		}, []string{"-depends-on=completed:" + b, "-final-exit-codes=0-255:" + b}},
		"a rule restarts after some failures": {"b:completed", func(p *corev1.Pod) {
			p.Spec.Containers[1].RestartPolicyRules = []corev1.ContainerRestartRule{rule(corev1.ContainerRestartRuleOnExitCodesOpIn, 42, 1000, -1)}
		}, []string{"-depends-on=completed:" + b, "-final-exit-codes=0-41,43-255:" + b}},
		"several, in the order of the annotation": {"c:exited\nb:started", nil, []string{"-depends-on=exited:/entrypointer/order/c", "-depends-on=started:" + b, "-final-exit-codes=0-255:/entrypointer/order/c", "-final-exit-codes=0-255:" + b}},
		"the pod need not have it":                {"b:started, nobody:ready?", nil, []string{"-depends-on=started:" + b, "-final-exit-codes=0-255:" + b}},
		"the pod has what it need not have":       {"b:started?", nil, []string{"-depends-on=started:" + b, "-final-exit-codes=0-255:" + b}},
		"the pod has none of them":                {"nobody:ready?", nil, nil},
		"a longest time": {"b:started", func(p *corev1.Pod) {
			annotated(p, "entrypointer.dev/depends-on-timeout", "1m30s")
		}, []string{"-depends-on-timeout=1m30s", "-depends-on=started:" + b, "-final-exit-codes=0-255:" + b}},
		"a kernel that containers may not share": {"b:started", func(p *corev1.Pod) { p.Spec.RuntimeClassName = new("gvisor") }, []string{"-order-heartbeat=true", "-depends-on=started:" + b, "-final-exit-codes=0-255:" + b}},
		"the one that waits is replaced":         {"b:started", func(p *corev1.Pod) { annotated(p, "mode.entrypointer.dev/a", "exec") }, []string{"-mode=exec", "-depends-on=started:" + b, "-final-exit-codes=0-255:" + b}},
		"the one that is waited for is replaced": {"b:started", func(p *corev1.Pod) { annotated(p, "mode.entrypointer.dev/b", "exec") }, []string{"-depends-on=started:" + b, "-final-exit-codes=0-255:" + b}},
		"the hook of one that waits for the ones before it": {"b:started", func(p *corev1.Pod) {
			p.Spec.Containers[0], p.Spec.Containers[1] = p.Spec.Containers[1], p.Spec.Containers[0]
			p.Spec.Containers[1].Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"x"}}}}
		}, []string{"-depends-on=started:" + b, "-final-exit-codes=0-255:" + b}},
		"a hook that only sleeps": {"b:started", func(p *corev1.Pod) {
			p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 1}}}
		}, []string{"-depends-on=started:" + b, "-final-exit-codes=0-255:" + b}},
	} {
		t.Run(name, func(t *testing.T) {
			p := dependsOn(abc(), "a", test.asks)
			if test.change != nil {
				test.change(p)
			}
			result := inject(t, newInjector(nil), p)
			at := slices.IndexFunc(result.Pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == "a" })
			require.Equal(t, append([]string{}, test.want...), flagsBefore(result.Pod, at))
			require.Empty(t, result.Warnings)
			requireSamePod(t, result.Pod, patched(t, p, result.Pod), "the patch leads elsewhere")
			require.Equal(t, pod.AlreadyInjected, inject(t, newInjector(nil), result.Pod).Outcome)
		})
	}
}

func TestAnImpossibleOrderIsRefused(t *testing.T) {
	hook := &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"x"}}}}
	for name, test := range map[string]struct {
		change func(*corev1.Pod)
		says   []string
	}{
		"a circle":        {func(p *corev1.Pod) { dependsOn(dependsOn(p, "a", "b:started"), "b", "a:started") }, []string{"wait for each other", "a -> b -> a"}},
		"a circle of one": {func(p *corev1.Pod) { dependsOn(p, "a", "a:started") }, []string{"a -> a"}},
		"a circle behind some": {func(p *corev1.Pod) {
			dependsOn(dependsOn(dependsOn(p, "a", "b:started"), "b", "c:started"), "c", "b:started")
		}, []string{": b -> c -> b;"}},
		"a name that isn't there": {func(p *corev1.Pod) { dependsOn(p, "a", "d:started") }, []string{
			"depends-on.entrypointer.dev/a", `no container "d" in spec.containers; it has "a", "b", "c"`,
		}},
		"a container that isn't there": {func(p *corev1.Pod) { dependsOn(p, "d", "a:started") }, []string{"depends-on.entrypointer.dev/d", `no container "d"`}},
		"an init container": {func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{running("early", "x")}
			dependsOn(p, "a", "early:started?")
		}, []string{`"early" is an init container`}},
		"a proxy": {func(p *corev1.Pod) {
			p.Spec.Containers = append(p.Spec.Containers, running("istio-proxy", "x"))
			dependsOn(p, "a", "istio-proxy:started?")
		}, []string{`container "istio-proxy" doesn't report its state`, "proxies that other webhooks add are left alone"}},
		"a proxy that shall wait": {func(p *corev1.Pod) {
			p.Spec.Containers = append(p.Spec.Containers, running("istio-proxy", "x"))
			dependsOn(p, "istio-proxy", "a:started")
		}, []string{`"istio-proxy" can't be kept waiting`}},
		"a container that wasn't chosen": {func(p *corev1.Pod) { dependsOn(annotated(p, pod.ContainersAnnotation, "a, c"), "a", "b:started") }, []string{
			`container "b" doesn't report its state`, "add it to annotation entrypointer.dev/containers",
		}},
		"queue-proxy": {func(p *corev1.Pod) {
			p.Spec.Containers = append(p.Spec.Containers, running("queue-proxy", "x"))
			p.Labels = map[string]string{"serving.knative.dev/revision": "r"}
			dependsOn(p, "a", "queue-proxy:started")
		}, []string{"queue-proxy is Knative's own"}},
		"a step": {func(p *corev1.Pod) {
			p.Spec.Containers = []corev1.Container{running("step-a", "x"), running("step-b", "x")}
			p.Labels = map[string]string{"tekton.dev/taskRun": "t"}
			dependsOn(p, "step-a", "step-b:started")
		}, []string{"depends-on.entrypointer.dev/step-a", "Tekton has an order of its own"}},
		"completed, of a container restarted after it": {func(p *corev1.Pod) { dependsOn(restarting(p, corev1.RestartPolicyAlways), "a", "b:completed") }, []string{
			`"a" can't wait for "b" to be completed`, "it is restarted after a success", "set restartPolicy: OnFailure or Never",
		}},
		"exited, of a container that is always restarted": {func(p *corev1.Pod) { dependsOn(restarting(p, ""), "a", "b:exited") }, []string{
			`"a" can't wait for "b" to be exited`, "it is restarted whenever it ends",
		}},
		"completed, against a container's own policy": {func(p *corev1.Pod) {
			dependsOn(p, "a", "b:completed")
			p.Spec.Containers[1].RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
		}, []string{"it is restarted after a success"}},
		"completed, against a rule": {func(p *corev1.Pod) {
			dependsOn(p, "a", "b:completed")
			p.Spec.Containers[1].RestartPolicyRules = []corev1.ContainerRestartRule{{}, {ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{
				Operator: corev1.ContainerRestartRuleOnExitCodesOpNotIn, Values: []int32{1},
			}}}
		}, []string{"it is restarted after a success"}},
		"completed, where all containers are restarted": {func(p *corev1.Pod) {
			dependsOn(p, "a", "b:completed")
			p.Spec.Containers[2].RestartPolicyRules = []corev1.ContainerRestartRule{{
				Action:    corev1.ContainerRestartRuleActionRestartAllContainers,
				ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{Operator: corev1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{42}},
			}}
		}, []string{`"a" can't wait for "b" to be completed`, `a rule of container "c" restarts all containers`, "use action Restart"}},
		"ready, of a container without a probe": {func(p *corev1.Pod) { dependsOn(p, "a", "b:ready") }, []string{
			`when container "b" is ready`, "it has no readinessProbe", "set annotation ready-when.entrypointer.dev/b",
		}},
		"more than started, of a replaced supervisor": {func(p *corev1.Pod) {
			dependsOn(annotated(p, "mode.entrypointer.dev/b", "exec"), "a", "b:completed")
		}, []string{"by annotation mode.entrypointer.dev/b: exec", "wait for it to be started"}},
		"a replaced supervisor, without locks": {func(p *corev1.Pod) {
			dependsOn(annotated(p, "mode.entrypointer.dev/b", "exec"), "a", "b:started")
			p.Spec.RuntimeClassName = new("gvisor")
		}, []string{"by annotation mode.entrypointer.dev/b: exec", "runtimeClassName"}},
		"a hook before what has to be first": {func(p *corev1.Pod) {
			dependsOn(p, "a", "b:started").Spec.Containers[0].Lifecycle = hook
		}, []string{`"a" has a postStart hook`, `doesn't start "b"`, `put "b" first`}},
		"a hook before what has to be first, by way of another": {func(p *corev1.Pod) {
			dependsOn(dependsOn(p, "b", "a:started"), "a", "c:started").Spec.Containers[1].Lifecycle = hook
		}, []string{`"b" has a postStart hook`, `doesn't start "c"`}},
		"a startupProbe that the supervisor can't try": {func(p *corev1.Pod) {
			dependsOn(p, "a", "b:started").Spec.Containers[0].StartupProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{GRPC: &corev1.GRPCAction{}}}
		}, []string{`container "a" wait: its startupProbe has to begin`, "its startupProbe is neither exec, tcpSocket nor httpGet", "remove it"}},
		"more rules than a container can have": {func(p *corev1.Pod) {
			dependsOn(p, "a", "b:started").Spec.Containers[1].RestartPolicyRules = make([]corev1.ContainerRestartRule, 21)
		}, []string{`restartPolicyRules of container "b"`, "there are 21, and Kubernetes allows 20"}},
		"for all containers": {func(p *corev1.Pod) { annotated(p, "entrypointer.dev/depends-on", "a:started") }, []string{
			"entrypointer.dev/depends-on: the option is for single containers; write depends-on.entrypointer.dev/CONTAINER",
		}},
		"a probe for all containers": {func(p *corev1.Pod) { annotated(p, "entrypointer.dev/ready-when", "tcp://:1") }, []string{"write ready-when.entrypointer.dev/CONTAINER"}},
		"a name that no container has": {func(p *corev1.Pod) {
			p.Spec.Containers = append(p.Spec.Containers, running("../bin", "x"))
			dependsOn(p, "../bin", "a:started")
		}, []string{`"../bin": no container has such a name`}},
	} {
		t.Run(name, func(t *testing.T) {
			p := abc()
			test.change(p)
			requireRefused(t, refusal(t, newInjector(nil), p), pod.InvalidAnnotation, test.says...)
		})
	}
}

func TestAnInvalidDependencyIsRefusedWithTheValidForm(t *testing.T) {
	for _, value := range []string{"", ",", "b", "b:", ":ready", "b:done", "b:Ready", "b:started??", "b:started, b:exited", "B:started", "../b:started", "b:started;c:started"} {
		requireRefused(t, refusal(t, newInjector(nil), dependsOn(abc(), "a", value)), pod.InvalidAnnotation,
			"reading annotation depends-on.entrypointer.dev/a", fmt.Sprintf("%q is wrong; it can be CONTAINER:CONDITION", value))
	}
	for _, value := range []string{"", "0s", "-1s", "5"} {
		p := annotated(dependsOn(abc(), "a", "b:started"), "depends-on-timeout.entrypointer.dev/a", value)
		requireRefused(t, refusal(t, newInjector(nil), p), pod.InvalidAnnotation, "depends-on-timeout.entrypointer.dev/a", "a duration above zero")
	}
}

func TestOnlyContainersThatWaitHaveATimeout(t *testing.T) {
	injector := newInjector(nil)
	injector.Defaults = []pod.Defaults{pod.NamespaceDefaults("tenant", map[string]string{"entrypointer.dev/depends-on-timeout": "1h"})}
	wrapped := inject(t, injector, dependsOn(abc(), "a", "b:started")).Pod
	require.Equal(t, []string{"-depends-on-timeout=1h", "-depends-on=started:/entrypointer/order/b", "-final-exit-codes=0-255:/entrypointer/order/b"}, flagsBefore(wrapped, 0))
	require.Equal(t, []string{"-order-dir=/entrypointer/order/b"}, flagsBefore(wrapped, 1))
	require.Empty(t, flagsBefore(wrapped, 2))
}

func TestAnOrderIsOfOnePodOnly(t *testing.T) {
	annotations := map[string]string{"entrypointer.dev/depends-on": "a:started", "entrypointer.dev/stop-when": "a:exited", "entrypointer.dev/ready-when": "tcp://:1", "entrypointer.dev/depends-on-timeout": "1m"}
	require.Equal(t, map[string]string{"depends-on-timeout": "1m"}, pod.NamespaceDefaults("tenant", annotations).Values)
	require.Equal(t, []string{
		"entrypointer: annotation entrypointer.dev/depends-on has no effect on a namespace: it is for pods",
		"entrypointer: annotation entrypointer.dev/ready-when has no effect on a namespace: it is for pods",
		"entrypointer: annotation entrypointer.dev/stop-when has no effect on a namespace: it is for pods",
	}, pod.Messages(pod.IgnoredOnNamespace(annotations)))
	for _, option := range []string{"depends-on", "stop-when", "ready-when"} {
		err := pod.Defaults{Values: map[string]string{option: "x"}}.Check()
		require.ErrorContains(t, err, "option entrypointer.dev/"+option+": the option is for single containers; set annotation "+option+".entrypointer.dev/CONTAINER on pods")
	}
	injector := newInjector(nil)
	injector.Policy.PodOptions = []string{"mode"}
	requireRefused(t, refusal(t, injector, dependsOn(abc(), "a", "b:started")), pod.InvalidAnnotation, "the operator doesn't let pods set this option")
}

// What a step, a sidecar, or a container of another TaskRun is told doesn't matter.
func TestATaskRunIsWarnedOfOptionsOfTheOrder(t *testing.T) {
	for key, says := range map[string]string{
		"depends-on.entrypointer.dev/step-other":     `the pod has no container "step-other"`,
		"depends-on-timeout.entrypointer.dev/step-a": "no effect on a pod of Tekton's",
		"ready-when.entrypointer.dev/step-a":         "no effect on a pod of Tekton's",
	} {
		p := annotated(asking(running("step-a", "x")), key, "tcp://:1")
		p.Labels = map[string]string{"tekton.dev/taskRun": "t"}
		result := inject(t, newInjector(nil), p)
		require.Len(t, result.Warnings, 1, key)
		require.Contains(t, result.Warnings[0].Message, says)
		require.Empty(t, result.Order)
	}
}

// A container that would run unwrapped could neither wait nor tell.
func TestAFailedLookupIsNotWaivedForAContainerWithAPlaceInTheOrder(t *testing.T) {
	injector := newInjector(nil)
	injector.Policy.WaiveFailedLookups = true
	for _, unknown := range []int{0, 1} {
		p := dependsOn(abc(), "a", "b:started")
		p.Spec.Containers[unknown].Command = nil
		requireRefused(t, refusal(t, injector, p), pod.LookupFailed, fmt.Sprintf("wrapping container %q", p.Spec.Containers[unknown].Name), "set command:")
	}
	p := dependsOn(abc(), "a", "b:started")
	p.Spec.Containers[2].Command = nil
	result := inject(t, injector, p)
	require.Equal(t, pod.PartlyInjected, result.Outcome)
	require.Equal(t, "PartlyInjected by init-container: c; order: b -> a", result.Pod.Annotations[pod.StatusAnnotation])
	// The registry answers when the API server asks again.
	injector.Lookup = images{"busybox": image([]string{"sh"}, nil)}
	require.Contains(t, inject(t, injector, result.Pod).Warnings[0].Message, `container "c" runs under its supervisor after all`)
}
