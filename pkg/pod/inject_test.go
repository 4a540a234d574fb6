// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/pkg/lookup"
	"github.com/entrypointer/entrypointer/pkg/pod"
)

func requireRefused(t *testing.T, err error, outcome pod.Outcome, says ...string) {
	t.Helper()
	var refusal *pod.Refusal
	require.ErrorAs(t, err, &refusal)
	require.Equal(t, outcome, refusal.Outcome)
	for _, words := range says {
		require.ErrorContains(t, err, words)
	}
}

func TestTheOwnerDecidesWhichContainersAreWrapped(t *testing.T) {
	containers := []corev1.Container{
		running("step-build", "make"), running("sidecar-db", "db"), running("queue-proxy", "q"),
		running("istio-proxy", "i"), running("app", "a"),
	}
	label := func(p *corev1.Pod, key string) *corev1.Pod { p.Labels = map[string]string{key: "x"}; return p }
	annotate := func(p *corev1.Pod, key, value string) *corev1.Pod { p.Annotations[key] = value; return p }
	plain := func() *corev1.Pod { p := asking(containers...); p.Annotations = map[string]string{}; return p }

	for name, test := range map[string]struct {
		pod     *corev1.Pod
		policy  pod.Policy
		outcome pod.Outcome
		wrapped []string
	}{
		"a TaskRun's steps, never its sidecars": {pod: label(plain(), "tekton.dev/taskRun"), outcome: pod.Injected, wrapped: []string{"step-build"}},
		"a Revision's, but for the proxies": {
			pod: label(plain(), "serving.knative.dev/revision"), outcome: pod.Injected,
			wrapped: []string{"step-build", "sidecar-db", "app"},
		},
		"a pod that asks": {pod: asking(containers...), outcome: pod.Injected, wrapped: []string{"step-build", "sidecar-db", "queue-proxy", "app"}},
		"a pod that asks for some": {
			pod: annotate(asking(containers...), pod.ContainersAnnotation, "app, sidecar-db"), outcome: pod.Injected,
			wrapped: []string{"sidecar-db", "app"},
		},
		"a pod that asks for a proxy by name": {
			pod: annotate(asking(containers...), pod.ContainersAnnotation, "istio-proxy"), outcome: pod.Injected,
			wrapped: []string{"istio-proxy"},
		},
		"any other pod":                 {pod: plain(), outcome: pod.NotOurs},
		"a TaskRun's that opts out":     {pod: annotate(label(plain(), "tekton.dev/taskRun"), pod.InjectAnnotation, "false"), outcome: pod.OptedOut},
		"any other pod that opts out":   {pod: annotate(plain(), pod.InjectAnnotation, "false"), outcome: pod.OptedOut},
		"opting out, which is not done": {pod: annotate(label(plain(), "tekton.dev/taskRun"), pod.InjectAnnotation, "false"), policy: pod.Policy{ForbidOptOut: true}, outcome: pod.Injected, wrapped: []string{"step-build"}},
		"opting out of nothing":         {pod: annotate(plain(), pod.InjectAnnotation, "false"), policy: pod.Policy{ForbidOptOut: true}, outcome: pod.NotOurs},
		"a proxy of the operator's": {
			pod: asking(containers...), policy: pod.Policy{Proxies: []string{"app", "queue-proxy"}}, outcome: pod.Injected,
			wrapped: []string{"step-build", "sidecar-db", "istio-proxy"},
		},
		"an owner that isn't selected": {pod: label(plain(), "tekton.dev/taskRun"), policy: pod.Policy{Owners: []pod.Owner{pod.Knative}}, outcome: pod.NotSelected},
		"an owner that is selected":    {pod: label(plain(), "tekton.dev/taskRun"), policy: pod.Policy{Owners: []pod.Owner{pod.Tekton}}, outcome: pod.Injected, wrapped: []string{"step-build"}},
		"a pod without any of ours": {
			pod:     label(&corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{running("queue-proxy", "q")}}}, "serving.knative.dev/revision"),
			outcome: pod.NothingToWrap,
		},
		"Windows by its OS":                             {pod: onWindows(asking(running("c", "x")), true), outcome: pod.Windows},
		"Windows by its node selector":                  {pod: onWindows(asking(running("c", "x")), false), outcome: pod.Windows},
		"Windows by its node affinity":                  {pod: withAffinity(asking(running("c", "x")), "windows"), outcome: pod.Windows},
		"Linux by its node affinity":                    {pod: withAffinity(asking(running("c", "x")), "linux"), outcome: pod.Injected, wrapped: []string{"c"}},
		"Windows by its node selector, as it was named": {pod: selecting("beta.kubernetes.io/os", "windows"), outcome: pod.Windows},
		"Windows by its build":                          {pod: selecting("node.kubernetes.io/windows-build", "10.0.20348"), outcome: pod.Windows},
		"Linux by its node selector":                    {pod: selecting("kubernetes.io/os", "linux"), outcome: pod.Injected, wrapped: []string{"c"}},
		"any build of Windows":                          {pod: requiring("node.kubernetes.io/windows-build", corev1.NodeSelectorOpExists), outcome: pod.Windows},
		"a build above another":                         {pod: requiring("node.kubernetes.io/windows-build", corev1.NodeSelectorOpGt, "10"), outcome: pod.Windows},
		"no build of Windows":                           {pod: requiring("node.kubernetes.io/windows-build", corev1.NodeSelectorOpDoesNotExist), outcome: pod.Injected, wrapped: []string{"c"}},
		"another build of Windows, or none":             {pod: requiring("node.kubernetes.io/windows-build", corev1.NodeSelectorOpNotIn, "10"), outcome: pod.Injected, wrapped: []string{"c"}},
		"anything but Linux":                            {pod: requiring("kubernetes.io/os", corev1.NodeSelectorOpNotIn, "linux"), outcome: pod.Windows},
		"anything but Windows":                          {pod: requiring("kubernetes.io/os", corev1.NodeSelectorOpNotIn, "windows"), outcome: pod.Injected, wrapped: []string{"c"}},
		"either of two":                                 {pod: requiring("kubernetes.io/os", corev1.NodeSelectorOpIn, "windows", "linux"), outcome: pod.Injected, wrapped: []string{"c"}},
		"tolerating Windows": {pod: func() *corev1.Pod {
			p := asking(running("c", "x"))
			p.Spec.Tolerations = []corev1.Toleration{{Key: "node.kubernetes.io/os", Value: "windows"}}
			p.Spec.SecurityContext = &corev1.PodSecurityContext{WindowsOptions: &corev1.WindowsSecurityContextOptions{}}
			return p
		}(), outcome: pod.Injected, wrapped: []string{"c"}},
		"Windows or Linux":      {pod: withAffinity(asking(running("c", "x")), "windows", "linux"), outcome: pod.Injected, wrapped: []string{"c"}},
		"a static pod's mirror": {pod: annotate(asking(running("c", "x")), corev1.MirrorPodAnnotationKey, "x"), outcome: pod.MirrorPod},
	} {
		t.Run(name, func(t *testing.T) {
			injector := newInjector(nil)
			injector.Policy = test.policy
			before := test.pod.DeepCopy()
			result := inject(t, injector, test.pod)
			require.Equal(t, test.outcome, result.Outcome)
			require.Equal(t, test.wrapped, result.Wrapped)
			require.Equal(t, before, test.pod, "the pod that was given is left as it was")
			switch test.outcome {
			case pod.MirrorPod:
				require.Same(t, test.pod, result.Pod)
			case pod.NotOurs:
				if len(test.pod.Annotations) == 0 {
					require.Same(t, test.pod, result.Pod)
				}
			case pod.Injected:
				require.Equal(t, "Injected by init-container", result.Pod.Annotations[pod.StatusAnnotation])
			default:
				require.Equal(t, string(test.outcome), result.Pod.Annotations[pod.StatusAnnotation])
			}
			if result.Outcome != pod.Injected {
				require.Equal(t, test.pod.Spec, result.Pod.Spec)
			}
		})
	}
}

func onWindows(p *corev1.Pod, byOS bool) *corev1.Pod {
	if byOS {
		p.Spec.OS = &corev1.PodOS{Name: corev1.Windows}
	} else {
		p.Spec.NodeSelector = map[string]string{corev1.LabelOSStable: "windows"}
	}
	return p
}

// withAffinity requires nodes of one of some operating systems.
func withAffinity(p *corev1.Pod, systems ...string) *corev1.Pod {
	var terms []corev1.NodeSelectorTerm
	for _, system := range systems {
		terms = append(terms, corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: "zone", Operator: corev1.NodeSelectorOpExists},
			{Key: corev1.LabelOSStable, Operator: corev1.NodeSelectorOpIn, Values: []string{system}},
		}})
	}
	p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms},
	}}
	return p
}

func selecting(label, value string) *corev1.Pod {
	p := asking(running("c", "x"))
	p.Spec.NodeSelector = map[string]string{"disk": "ssd", label: value}
	return p
}

func requiring(label string, operator corev1.NodeSelectorOperator, values ...string) *corev1.Pod {
	p := withAffinity(asking(running("c", "x")), "x")
	p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchExpressions = []corev1.NodeSelectorRequirement{
		{Key: label, Operator: operator, Values: values},
	}
	return p
}

// Anybody can set a label. A pod that asks isn't left alone for one.
func TestAForgedLabelDoesNotKeepAPodThatAsksFromBeingWrapped(t *testing.T) {
	for name, test := range map[string]struct {
		pod     *corev1.Pod
		owner   pod.Owner
		outcome pod.Outcome
	}{
		"a bare pod":                         {labelled("tekton.dev/taskRun", "", running("app", "x")), pod.Asking, pod.Injected},
		"a Deployment's":                     {labelled("tekton.dev/taskRun", "ReplicaSet", running("app", "x")), pod.Asking, pod.Injected},
		"a TaskRun's, which has steps":       {labelled("tekton.dev/taskRun", "TaskRun", running("step-a", "x")), pod.Tekton, pod.Injected},
		"a TaskRun's, which has none":        {labelled("tekton.dev/taskRun", "TaskRun", running("app", "x")), pod.Tekton, pod.NothingToWrap},
		"a Revision's of nothing of its own": {labelled("serving.knative.dev/revision", "ReplicaSet", running("queue-proxy", "x")), pod.Knative, pod.NothingToWrap},
	} {
		t.Run(name, func(t *testing.T) {
			result := inject(t, newInjector(nil), test.pod)
			require.Equal(t, test.owner, result.Owner)
			require.Equal(t, test.outcome, result.Outcome)
			if test.outcome == pod.NothingToWrap {
				require.Equal(t, []pod.Warning{{Reason: pod.ReasonAnnotationHasNoEffect, Message: `annotation entrypointer.dev/inject: "true" has no effect: the pod counts as a pod of ` +
					string(test.owner) + `'s, and has none of the containers that are wrapped in such pods`}}, result.Warnings)
			}
		})
	}
	unasked := labelled("tekton.dev/taskRun", "", running("app", "x"))
	delete(unasked.Annotations, pod.InjectAnnotation)
	result := inject(t, newInjector(nil), unasked)
	require.Equal(t, pod.NothingToWrap, result.Outcome)
	require.Empty(t, result.Warnings)
}

func TestInjectingTwiceEqualsInjectingOnce(t *testing.T) {
	once := inject(t, newInjector(nil), asking(running("a", "x"), running("b", "y"))).Pod
	twice := inject(t, newInjector(nil), once)
	require.Equal(t, pod.AlreadyInjected, twice.Outcome)
	require.Equal(t, once, twice.Pod)
}

func TestAContainerThatCameLaterIsWrappedOnReinvocation(t *testing.T) {
	once := inject(t, newInjector(nil), asking(running("a", "x"))).Pod
	once.Spec.Containers = append(once.Spec.Containers, running("late", "y"), running("istio-proxy", "z"))
	once.Spec.InitContainers = append([]corev1.Container{running("istio-init", "i")}, once.Spec.InitContainers...)

	twice := inject(t, newInjector(nil), once)
	require.Equal(t, []string{"late"}, twice.Wrapped)
	require.Len(t, twice.Pod.Spec.InitContainers, 2, "ours is there already, wherever another webhook moved it")
	require.Len(t, twice.Pod.Spec.Volumes, 1)
	require.Equal(t, []string{"z"}, twice.Pod.Spec.Containers[2].Command)
}

// Kyverno applies a patch with a container's command again to a pod that has been wrapped.
func TestACommandThatAnotherWebhookPutsBackIsWrappedOnce(t *testing.T) {
	for name, c := range map[string]corev1.Container{
		"a command":              running("a", "sh", "-c", "echo $$1"),
		"a command and args":     {Name: "a", Image: "busybox", Command: []string{"sh", "-c"}, Args: []string{"exit 0"}},
		"two dashes in the argv": running("a", "env", "--", "x"),
	} {
		t.Run(name, func(t *testing.T) {
			p := asking(c)
			p.Annotations["timeout.entrypointer.dev/a"] = "1h"
			once := inject(t, newInjector(nil), p).Pod
			requireRepaired(t, newInjector(nil), once, func(changed *corev1.Pod) { changed.Spec.Containers[0].Command = c.Command })
		})
	}
}

// The args are the supervisor's, which would be arguments of the image's ENTRYPOINT.
func TestARemovedCommandIsWrappedAgain(t *testing.T) {
	known := images{
		"busybox": image([]string{"sh"}, nil),
		"many": {Configs: []lookup.Config{
			{Platform: "linux/amd64", Entrypoint: []string{"sh"}}, {Platform: "linux/arm64", Entrypoint: []string{"ash"}},
		}},
	}
	for name, c := range map[string]corev1.Container{
		"the container's words":      running("a", "/app", "serve"),
		"the image's words":          {Name: "a", Image: "busybox", Args: []string{"-c", "echo $(A) -- x"}},
		"the words of each platform": {Name: "a", Image: "many", Args: []string{"-c", "exit 0"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := asking(c)
			p.Annotations["timeout.entrypointer.dev/a"] = "1h"
			once := inject(t, newInjector(known), p).Pod
			requireRepaired(t, newInjector(nil), once, func(changed *corev1.Pod) { changed.Spec.Containers[0].Command = nil })
		})
	}
}

// A policy that sets an image is applied again to a pod that has been wrapped. What runs is what
// was looked up, also then.
func TestAnImageThatAnotherWebhookSetsAgainIsLookedUpAgain(t *testing.T) {
	known := images{
		"app": image([]string{"/app", "$HOME"}, []string{"serve"}),
		"differs": {Configs: []lookup.Config{
			{Platform: "linux/amd64", Entrypoint: []string{"/amd64"}}, {Platform: "linux/arm64", Entrypoint: []string{"/arm64"}},
		}},
		"mirror/app": image([]string{"/mirrored", "-v", "-v"}, nil),
	}
	container := func(image string, args ...string) corev1.Container {
		return corev1.Container{Name: "a", Image: image, Args: args}
	}
	for name, test := range map[string]struct {
		first corev1.Container
		set   string
	}{
		"the same":                                {container("app"), "app"},
		"the same, with args":                     {container("app", "--", "$(A)"), "app"},
		"the same, with words for each platform":  {container("differs", "x"), "differs"},
		"another one":                             {container("app"), "mirror/app"},
		"another one, with args":                  {container("app", "x", "y"), "mirror/app"},
		"another one, with words for no platform": {container("differs", "x"), "app"},
		"another one, with words for each":        {container("app", "x"), "differs"},
	} {
		t.Run(name, func(t *testing.T) {
			asked := func(c corev1.Container) *corev1.Pod {
				p := asking(c)
				p.Annotations["timeout.entrypointer.dev/a"] = "1h"
				return p
			}
			second := test.first
			second.Image = test.set
			want := inject(t, newInjector(known), asked(second)).Pod
			for _, command := range [][]string{{pod.EntrypointPath}, nil} { // or the webhook has removed it
				changed := inject(t, newInjector(known), asked(test.first)).Pod
				changed.Spec.Containers[0].Image, changed.Spec.Containers[0].Command = test.set, command
				result := inject(t, newInjector(known), changed)
				requireSamePod(t, want, result.Pod, "as if it had been so from the start")
				requireSamePod(t, want, patched(t, changed, result.Pod), "the patch leads elsewhere")
				require.Equal(t, pod.AlreadyInjected, inject(t, newInjector(nil), result.Pod).Outcome)
			}
		})
	}
}

func TestAnImageThatAnotherWebhookSetsInAnotherWayIsLeftAlone(t *testing.T) {
	known := images{"app": image([]string{"/app"}, nil)}
	neverPulled := corev1.Container{Name: "a", Image: "app", ImagePullPolicy: corev1.PullNever}
	for name, test := range map[string]struct {
		first corev1.Container
		set   string
	}{
		"a mirror, by the digest":     {corev1.Container{Name: "a", Image: "app"}, "mirror/app@sha256:2222222222222222222222222222222222222222222222222222222222222222"},
		"the command was there":       {running("a", "/app"), "mirror/app"},
		"the same, that isn't pinned": {neverPulled, "app"},
	} {
		t.Run(name, func(t *testing.T) {
			changed := inject(t, newInjector(known), asking(test.first)).Pod
			changed.Spec.Containers[0].Image = test.set
			result := inject(t, newInjector(nil), changed)
			require.Equal(t, pod.AlreadyInjected, result.Outcome)
			require.Empty(t, result.Warnings)
		})
	}
}

// It would run the command line of another image.
func TestAnImageThatIsSetLaterAndCanNotBeLookedUpIsRefusedOrWarnedOf(t *testing.T) {
	known := images{"app": image([]string{"/app"}, nil), "other@sha256:3333333333333333333333333333333333333333333333333333333333333333": image([]string{"/other"}, nil)}
	changed := inject(t, newInjector(known), asking(corev1.Container{Name: "a", Image: "app", Args: []string{"x"}})).Pod
	changed.Spec.Containers[0].Image = "other@sha256:3333333333333333333333333333333333333333333333333333333333333333"
	require.Equal(t, []string{"/other", "x"}, behindDashes(t, inject(t, newInjector(known), changed).Pod.Spec.Containers[0].Args), "another digest is another image")

	changed.Spec.Containers[0].Image = "gone"
	_, err := newInjector(known).Inject(t.Context(), "tenant", changed)
	requireRefused(t, err, pod.LookupFailed, `wrapping container "a": `, `"gone"`)

	waiving := newInjector(known)
	waiving.Policy.WaiveFailedLookups = true
	result := inject(t, waiving, changed)
	require.Equal(t, changed.Spec, result.Pod.Spec)
	require.Empty(t, result.Unwrapped, "it is wrapped")
	require.Len(t, result.Warnings, 1)
	require.Equal(t, pod.ReasonImageNotPinned, result.Warnings[0].Reason)
	require.Contains(t, result.Warnings[0].Message, `runs the command line of image "app@sha256:2222`)
}

// The author of a pod can write a mark as well, and gains nothing.
func TestAForgedMarkOfAnImagesWordsIsLookedUpOrIgnored(t *testing.T) {
	known := images{"busybox": image([]string{"/entry"}, nil)}
	wrapped := inject(t, newInjector(nil), asking(running("a", "x", "y"))).Pod
	for mark, want := range map[string][]string{
		"-image-words=1:other":  {"/entry", "y"},
		"-image-words=3:other":  {"x", "y"},
		"-image-words=-1:other": {"x", "y"},
		"-image-words=1:":       {"x", "y"},
		"-image-words=other":    {"x", "y"},
	} {
		forged := wrapped.DeepCopy()
		forged.Spec.Containers[0].Args = append([]string{mark}, forged.Spec.Containers[0].Args...)
		require.Equal(t, want, behindDashes(t, inject(t, newInjector(known), forged).Pod.Spec.Containers[0].Args), mark)
	}
}

// What the rest of the original argv was is no longer known.
func TestAnotherCommandInTheSupervisorsPlaceIsRefused(t *testing.T) {
	unknown := images{"busybox": {Configs: []lookup.Config{
		{Platform: "linux/amd64", Entrypoint: []string{"sh"}}, {Platform: "linux/arm64", Entrypoint: []string{"ash"}},
	}}}
	for name, c := range map[string]corev1.Container{
		"a command":                  running("a", "sh", "-c", "exit 0"),
		"the words of each platform": {Name: "a", Image: "busybox", Args: []string{"env"}},
	} {
		t.Run(name, func(t *testing.T) {
			changed := inject(t, newInjector(unknown), asking(c)).Pod
			changed.Spec.Containers[0].Command = []string{"env"}
			_, err := newInjector(unknown).Inject(t.Context(), "tenant", changed)
			requireRefused(t, err, pod.NoCommand, `wrapping container "a": `, `the command ["env"] in the place of the supervisor`)
		})
	}
}

func TestOtherArgsBehindTheSupervisorAreRefused(t *testing.T) {
	known := images{"busybox": image([]string{"sh"}, nil)}
	for _, args := range [][]string{{"-version"}, {"-arg=--"}, {"-c", "exit 0"}} {
		changed := inject(t, newInjector(known), asking(corev1.Container{Name: "a", Image: "busybox", Args: []string{"-c", "exit 0"}})).Pod
		changed.Spec.Containers[0].Args = args
		_, err := newInjector(known).Inject(t.Context(), "tenant", changed)
		requireRefused(t, err, pod.NoCommand, `wrapping container "a": `, "in the place of the supervisor's", "set command: as well")
	}
}

func TestACommandAndArgsThatAnotherWebhookPutsBackAreWrappedAgain(t *testing.T) {
	c := corev1.Container{Name: "a", Image: "busybox", Command: []string{"sh", "-c"}, Args: []string{"exit 0"}}
	once := inject(t, newInjector(nil), asking(c)).Pod
	requireRepaired(t, newInjector(nil), once, func(changed *corev1.Pod) {
		changed.Spec.Containers[0].Command, changed.Spec.Containers[0].Args = c.Command, c.Args
	})
}

func TestAForgedStatusAnnotationChangesNothing(t *testing.T) {
	forged := asking(running("a", "x"))
	forged.Annotations[pod.StatusAnnotation] = string(pod.Injected)
	require.Equal(t, []string{"a"}, inject(t, newInjector(nil), forged).Wrapped)

	forged.Annotations[pod.InjectAnnotation] = "false"
	require.Equal(t, string(pod.OptedOut), inject(t, newInjector(nil), forged).Pod.Annotations[pod.StatusAnnotation])
	delete(forged.Annotations, pod.InjectAnnotation)
	require.Equal(t, notOursStatus, inject(t, newInjector(nil), forged).Pod.Annotations[pod.StatusAnnotation])
}

func TestAForgedInitContainerIsReplaced(t *testing.T) {
	forged := inject(t, newInjector(nil), asking(running("a", "x"))).Pod
	forged.Spec.InitContainers[0].Image = "registry.example.test/mine"
	result := inject(t, newInjector(nil), forged)
	require.Equal(t, pod.Injected, result.Outcome)
	require.Equal(t, copierImage, result.Pod.Spec.InitContainers[0].Image)
}

func TestLabelsThatATenantAddsDontHideAPod(t *testing.T) {
	controlled := func(kind string) *corev1.Pod {
		p := asking(running("step-a", "a"), running("user-container", "u"))
		p.Annotations = nil
		p.Labels = map[string]string{"tekton.dev/taskRun": "x", "serving.knative.dev/revision": "x"}
		p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Controller: new(true)}}
		return p
	}
	require.Equal(t, pod.Tekton, inject(t, newInjector(nil), controlled("TaskRun")).Owner)
	require.Equal(t, pod.Knative, inject(t, newInjector(nil), controlled("ReplicaSet")).Owner)
}

func TestAForgedWrappingIsWrapped(t *testing.T) {
	for name, forge := range map[string]func(*corev1.Container){
		"no mount":                func(c *corev1.Container) { c.VolumeMounts = nil },
		"a flag without a value":  func(c *corev1.Container) { c.Args = []string{"-help", "--", "x"} },
		"a value in a word apart": func(c *corev1.Container) { c.Args = []string{"-platform", "linux/amd64", "-arg", "x", "--", "y"} },
		"two dashes":              func(c *corev1.Container) { c.Args = []string{"--platform=linux/amd64", "--arg=x", "--", "y"} },
		"a word among the flags":  func(c *corev1.Container) { c.Args = []string{"status", "--", "x"} },
	} {
		t.Run(name, func(t *testing.T) {
			forged := inject(t, newInjector(nil), asking(running("a", "x"))).Pod
			forge(&forged.Spec.Containers[0])
			before := slices.Clone(forged.Spec.Containers[0].Args)
			result := inject(t, newInjector(nil), forged)
			require.Equal(t, []string{"a"}, result.Wrapped)
			require.Equal(t, slices.Concat([]string{"--", pod.EntrypointPath}, before), result.Pod.Spec.Containers[0].Args)
			require.Len(t, result.Pod.Spec.Containers[0].VolumeMounts, 1)
		})
	}
}

func TestACopyOfAWrappedPodWithAnotherCommandIsWrapped(t *testing.T) {
	edited := inject(t, newInjector(nil), asking(running("a", "x"))).Pod
	edited.Spec.Containers[0].Command, edited.Spec.Containers[0].Args = []string{"sleep"}, []string{"5"}
	wrapped := inject(t, newInjector(nil), edited).Pod.Spec.Containers[0]
	require.Equal(t, []string{"--", "sleep", "5"}, wrapped.Args)
	require.Len(t, wrapped.VolumeMounts, 1)
}

func TestOnlyTheInitContainerMayWriteToTheSupervisorsVolume(t *testing.T) {
	wrapped := func() *corev1.Pod { return inject(t, newInjector(nil), asking(running("a", "x"))).Pod }
	writable := corev1.VolumeMount{Name: pod.VolumeName, MountPath: "/x"}

	byInit := wrapped()
	byInit.Spec.InitContainers = append(byInit.Spec.InitContainers, running("evil", "cp"))
	byInit.Spec.InitContainers[1].VolumeMounts = []corev1.VolumeMount{writable}
	bySibling := wrapped()
	bySibling.Spec.Containers = append(bySibling.Spec.Containers, running("evil", "cp"))
	bySibling.Spec.Containers[1].VolumeMounts = []corev1.VolumeMount{writable}
	for _, p := range []*corev1.Pod{byInit, bySibling} {
		_, err := newInjector(nil).Inject(t.Context(), "tenant", p)
		requireRefused(t, err, pod.NameCollision, `container "evil"`, `only "entrypointer-init" may write`)
	}

	hidden := wrapped()
	hidden.Spec.Containers[0].VolumeMounts = append(hidden.Spec.Containers[0].VolumeMounts,
		corev1.VolumeMount{Name: "theirs", MountPath: pod.EntrypointPath, SubPath: "entrypoint"})
	_, err := newInjector(nil).Inject(t.Context(), "tenant", hidden)
	requireRefused(t, err, pod.NameCollision, `"theirs"`)
}

func TestObjectsThatTakeOurNamesOrPathsAreRefusedByName(t *testing.T) {
	mounted := func(path string) *corev1.Pod {
		c := running("app", "x")
		c.VolumeMounts = []corev1.VolumeMount{{Name: "theirs", MountPath: path}}
		return asking(c)
	}
	volume := asking(running("app", "x"))
	volume.Spec.Volumes = []corev1.Volume{{Name: pod.VolumeName, VolumeSource: corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{},
	}}}
	message := asking(running("app", "x"))
	message.Spec.Containers[0].TerminationMessagePath = "entrypointer/bin/entrypoint"
	device := asking(running("app", "x"))
	device.Spec.Containers[0].VolumeDevices = []corev1.VolumeDevice{{Name: "theirs", DevicePath: "/entrypointer/bin"}}
	initContainer := asking(running("app", "x"))
	initContainer.Spec.InitContainers = []corev1.Container{running(pod.InitContainerName, "x")}

	for name, test := range map[string]struct {
		pod  *corev1.Pod
		says []string
	}{
		"a mount at our path":                      {mounted("/entrypointer/bin/"), []string{`"theirs"`, `"entrypointer-bin"`, "mount it elsewhere"}},
		"a mount in our path":                      {mounted("/entrypointer/bin/entrypoint"), []string{`"theirs"`}},
		"a mount around our path":                  {mounted("/entrypointer"), []string{`"theirs"`}},
		"a volume of our name":                     {volume, []string{`"entrypointer-bin"`, "rename it"}},
		"a container of our name":                  {initContainer, []string{`"entrypointer-init"`, `"busybox"`, "rename it"}},
		"a mount by a relative path":               {mounted("entrypointer/bin/entrypoint"), []string{`"theirs"`}},
		"a block device in our path":               {device, []string{`"theirs"`, `"entrypointer-bin"`}},
		"a termination message in our path":        {message, []string{`terminationMessagePath "entrypointer/bin/entrypoint"`, `"entrypointer-bin"`}},
		"a container of our init container's name": {asking(running("app", "x"), running(pod.InitContainerName, "x")), []string{`"entrypointer-init"`, "rename it"}},
		"a mount beside our paths":                 {mounted("/entrypointer-data"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := newInjector(nil).Inject(t.Context(), "tenant", test.pod)
			if test.says == nil {
				require.NoError(t, err)
				return
			}
			requireRefused(t, err, pod.NameCollision, test.says...)
		})
	}
}

func TestAnAnnotationThatCantBeUnderstoodIsRefused(t *testing.T) {
	maybe := asking(running("a", "x"))
	maybe.Annotations[pod.InjectAnnotation] = "yes"
	_, err := newInjector(nil).Inject(t.Context(), "tenant", maybe)
	requireRefused(t, err, pod.InvalidAnnotation, pod.InjectAnnotation, `"yes" is neither "true" nor "false"`)

	unknown := asking(running("a", "x"))
	unknown.Annotations[pod.ContainersAnnotation] = "a,b"
	_, err = newInjector(nil).Inject(t.Context(), "tenant", unknown)
	requireRefused(t, err, pod.InvalidAnnotation, pod.ContainersAnnotation, `no container "b" in spec.containers; it has "a"`)
}

func TestAFailedLookupRefusesUnlessTheOperatorWaivesIt(t *testing.T) {
	p := asking(corev1.Container{Name: "c", Image: "missing"})
	_, err := newInjector(images{}).Inject(t.Context(), "tenant", p)
	requireRefused(t, err, pod.LookupFailed, `container "c"`, `"missing"`, `namespace "tenant"`, "set command:")
	withArgs := p.DeepCopy()
	withArgs.Spec.Containers[0].Args = []string{"sleep", "1h"}
	_, err = newInjector(images{}).Inject(t.Context(), "tenant", withArgs)
	requireRefused(t, err, pod.LookupFailed, "(the container sets args: only, as kubectl run does without --command)")

	waiving := newInjector(images{})
	waiving.Policy.WaiveFailedLookups = true
	result := inject(t, waiving, p)
	require.Equal(t, pod.LookupWaived, result.Outcome)
	require.Equal(t, p.Spec, result.Pod.Spec)
	require.Len(t, result.Warnings, 1)
	require.Equal(t, pod.ReasonLookupFailed, result.Warnings[0].Reason)
	require.Contains(t, result.Warnings[0].Message, `container "c" runs without its supervisor`)

	p.Spec.Containers = append(p.Spec.Containers, running("explicit", "x"))
	result = inject(t, waiving, p)
	require.Equal(t, pod.PartlyInjected, result.Outcome)
	require.Equal(t, []string{"explicit"}, result.Wrapped, "containers that need no lookup are wrapped all the same")
	require.Equal(t, p.Spec.Containers[0], result.Pod.Spec.Containers[0])
	require.Len(t, result.Warnings, 1)
}

func TestAPodThatIsWrappedInPartNamesTheRest(t *testing.T) {
	waiving := newInjector(images{})
	waiving.Policy.WaiveFailedLookups = true
	once := inject(t, waiving, asking(
		corev1.Container{Name: "a", Image: "missing"}, running("b", "x"), corev1.Container{Name: "c", Image: "gone"},
	))
	require.Equal(t, pod.PartlyInjected, once.Outcome)
	require.Equal(t, []string{"b"}, once.Wrapped)
	require.Equal(t, []string{"a", "c"}, once.Unwrapped)
	require.Equal(t, "PartlyInjected by init-container: a,c", once.Pod.Annotations[pod.StatusAnnotation])

	twice := inject(t, waiving, once.Pod)
	require.Equal(t, pod.PartlyInjected, twice.Outcome, "what is left unwrapped stays so, however often the API server asks")
	require.Equal(t, []string{"a", "c"}, twice.Unwrapped)
	require.Empty(t, pod.Patch(once.Pod, twice.Pod))
}

func TestALookupThatSucceedsOnReinvocationIsTold(t *testing.T) {
	waiving := newInjector(images{})
	waiving.Policy.WaiveFailedLookups = true
	for _, rest := range [][]corev1.Container{nil, {running("b", "x")}} {
		once := inject(t, waiving, asking(append([]corev1.Container{{Name: "a", Image: "app"}}, rest...)...)).Pod

		answered := newInjector(images{"app": image([]string{"/app"}, nil)})
		answered.Policy.WaiveFailedLookups = true
		result := inject(t, answered, once)
		require.Equal(t, pod.Injected, result.Outcome)
		require.Equal(t, "Injected by init-container", result.Pod.Annotations[pod.StatusAnnotation])
		require.Equal(t, []string{"/app"}, behindDashes(t, result.Pod.Spec.Containers[0].Args))
		require.Equal(t, []pod.Warning{{Reason: pod.ReasonLookupRecovered, Message: `container "a" runs under its supervisor after all: the second lookup of its image succeeded`}}, result.Warnings)
	}
}

func TestAForgedStatusLeavesNothingUnwrapped(t *testing.T) {
	for _, status := range []string{"PartlyInjected by image-volume: a", "PartlyInjected", "LookupWaived"} {
		forged := annotated(asking(running("a", "x"), running("b", "y")), pod.StatusAnnotation, status)
		result := inject(t, newInjector(nil), forged)
		require.Equal(t, pod.Injected, result.Outcome)
		require.Equal(t, []string{"a", "b"}, result.Wrapped)
	}
}

func TestTheInitContainerCostsNothing(t *testing.T) {
	list := func(cpu, memory string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
	}
	small, large := running("small", "x"), running("large", "x")
	small.Resources = corev1.ResourceRequirements{Requests: list("100m", "1Gi"), Limits: list("100m", "1Gi")}
	large.Resources = corev1.ResourceRequirements{Requests: list("2", "64Mi"), Limits: list("2", "64Mi")}
	large.Resources.Limits["nvidia.com/gpu"] = resource.MustParse("1")

	wrapped := inject(t, newInjector(nil), asking(small, large)).Pod
	want := corev1.ResourceRequirements{Requests: list("2", "64Mi"), Limits: list("2", "64Mi")}
	want.Requests["nvidia.com/gpu"], want.Limits["nvidia.com/gpu"] = resource.Quantity{}, resource.Quantity{}
	require.Equal(t, want, wrapped.Spec.InitContainers[0].Resources, "those of the container with the most CPU, and no GPU")
	require.Empty(t, inject(t, newInjector(nil), asking(running("a", "x"))).Pod.Spec.InitContainers[0].Resources)
}

func TestTheInitContainerIsNeverRoot(t *testing.T) {
	root := int64(0)
	p := asking(running("a", "x"))
	p.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: &root}
	context := inject(t, newInjector(nil), p).Pod.Spec.InitContainers[0].SecurityContext
	require.Equal(t, int64(65532), *context.RunAsUser)
	require.True(t, *context.RunAsNonRoot)
}

func TestAWrappedPodIsAsMovableAsBefore(t *testing.T) {
	const key = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"
	wrapped := inject(t, newInjector(nil), asking(running("a", "x"))).Pod
	require.Equal(t, "entrypointer-bin", wrapped.Annotations[key])

	wrapped = inject(t, newInjector(nil), annotated(asking(running("a", "x")), key, "cache,tmp")).Pod
	require.Equal(t, "cache,tmp,entrypointer-bin", wrapped.Annotations[key])
	require.Equal(t, wrapped.Annotations, inject(t, newInjector(nil), wrapped).Pod.Annotations)
}

func TestSELinuxOptionsStayWhereTheyAre(t *testing.T) {
	options := &corev1.SELinuxOptions{Type: "my_app_t"}
	p := asking(running("a", "x"))
	p.Spec.SecurityContext = &corev1.PodSecurityContext{SELinuxOptions: options}
	p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{SELinuxOptions: options}
	wrapped := inject(t, newInjector(nil), p).Pod
	require.Equal(t, options, wrapped.Spec.SecurityContext.SELinuxOptions)
	require.Equal(t, options, wrapped.Spec.Containers[0].SecurityContext.SELinuxOptions)
	require.Nil(t, wrapped.Spec.InitContainers[0].SecurityContext.SELinuxOptions, "the pod's apply to it anyway")
}

func TestWithoutALookupAPodIsRefusedThatNeedsOne(t *testing.T) {
	injector := &pod.Injector{CopierImage: copierImage}
	require.Equal(t, pod.Injected, inject(t, injector, asking(running("a", "x"))).Outcome)

	injector.Policy.WaiveFailedLookups = true // which is about registries, and nobody asked one
	_, err := injector.Inject(t.Context(), "tenant", asking(corev1.Container{Name: "a", Image: "app"}))
	requireRefused(t, err, pod.LookupFailed, `container "a"`, `image "app"`, "set command:")
}
