// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

// A caller is a webhook, and the pods that it is called for.
type caller struct {
	admissionregistrationv1.MutatingWebhook

	selects    labels.Selector
	conditions *evaluator
}

func callers(t *testing.T) (all []caller) {
	t.Helper()
	for _, w := range podWebhooks(t) {
		selects, err := metav1.LabelSelectorAsSelector(w.NamespaceSelector)
		require.NoError(t, err)
		var conditions []expression
		for _, c := range w.MatchConditions {
			conditions = append(conditions, expression{c.Name, c.Expression})
		}
		all = append(all, caller{w, selects, newEvaluator(t, nil, conditions...)})
	}
	return all
}

// calls reports whether an API server calls the webhook for a pod.
func (c *caller) calls(t *testing.T, p *corev1.Pod, namespace *corev1.Namespace) bool {
	t.Helper()
	has := set{corev1.LabelMetadataName: namespace.Name}
	maps.Copy(has, namespace.Labels)
	return c.selects.Matches(has) && len(c.conditions.failing(t, creation(p, namespace))) == 0
}

// marked returns a pod as config/outage makes it: test/outage has the API server do so.
func marked(t *testing.T, policy *evaluator, p *corev1.Pod, namespace *corev1.Namespace) *corev1.Pod {
	t.Helper()
	p = p.DeepCopy()
	if len(policy.failing(t, creation(p, namespace))) == 0 {
		p.Annotations = withAnnotation(p.Annotations, pod.StatusAnnotation, pod.Undecided)
		p.Annotations = withAnnotation(p.Annotations, pod.MayWaitAnnotation, "true")
	}
	return p
}

// outagePolicy has the conditions of the policy in config/outage.
func outagePolicy(t *testing.T) *evaluator {
	t.Helper()
	spec := shipped[admissionregistrationv1.MutatingAdmissionPolicy](t, "210-taskruns.yaml", "MutatingAdmissionPolicy", "taskruns.entrypointer.dev").Spec
	var conditions []expression
	for _, c := range spec.MatchConditions {
		conditions = append(conditions, expression{c.Name, c.Expression})
	}
	return newEvaluator(t, nil, conditions...)
}

// undecidedPolicy is the one that refuses pods that nobody has decided on.
func undecidedPolicy(t *testing.T) admissionregistrationv1.ValidatingAdmissionPolicy {
	t.Helper()
	return shipped[admissionregistrationv1.ValidatingAdmissionPolicy](t, "225-refuse-undecided-pods.yaml", "ValidatingAdmissionPolicy", "undecided.entrypointer.dev")
}

// With and without config/outage, whatever a pod says of itself: one webhook is asked about
// a pod that the injector has to decide on, and none about another. A pod that claims to be
// one that may wait, and comes with a status, is sent twice: only so can API servers ask
// again about one that isn't forged. In an outage, no unwrapped pod gets through.
func TestOneWebhookIsAskedAboutAPodAndInAnOutageNoneGetsThroughUnwrapped(t *testing.T) {
	webhooks, outage, undecided := callers(t), outagePolicy(t), newPolicy(t, undecidedPolicy(t).Spec)
	mayBeOurs := podWebhooks(t)[0].MatchConditions[0]
	ours := newEvaluator(t, nil, expression{mayBeOurs.Name, mayBeOurs.Expression})
	counts := map[string]int{}
	for seed := range uint64(policyPods) {
		c := &chooser{data: decisions(seed)}
		plain := variations(c, c.pod())
		if status := one(c, "", "", pod.Undecided, pod.InjectedByPolicy, "Injected by init-container", "OptedOut"); status != "" {
			plain.Annotations = withAnnotation(plain.Annotations, pod.StatusAnnotation, status)
		}
		if c.rarely(3) {
			plain.Annotations = withAnnotation(plain.Annotations, pod.MayWaitAnnotation, "true")
		}
		scope := one(c, "", string(pod.OwnedPods), string(pod.AllPods))
		namespace := tenant(scope)
		namespace.Labels = map[string]string{pod.InjectAnnotation: scope}
		isAsked := scope == string(pod.AllPods) || scope == string(pod.OwnedPods) && len(ours.failing(t, creation(plain, namespace))) == 0
		for where, p := range map[string]*corev1.Pod{"without config/outage": plain, "with config/outage": marked(t, outage, plain, namespace)} {
			asked, mayFail := 0, true
			for _, w := range webhooks {
				if w.calls(t, p, namespace) {
					asked++
					mayFail = mayFail && *w.FailurePolicy == admissionregistrationv1.Ignore
				}
			}
			_, ofTaskRun := p.Labels["tekton.dev/taskRun"]
			_, mayWait := p.Annotations[pod.MayWaitAnnotation]
			isUndecided := slices.Contains([]string{pod.Undecided, pod.InjectedByPolicy}, p.Annotations[pod.StatusAnnotation])
			switch {
			case !isAsked:
				require.Zero(t, asked, "%s: %s", where, asJSON(t, p))
				counts[where+": none"]++
				continue
			case ofTaskRun && mayWait && !isUndecided:
				require.Equal(t, 2, asked, "%s: %s", where, asJSON(t, p))
				require.False(t, mayFail, "%s: %s", where, asJSON(t, p))
				counts[where+": forged"]++
			default:
				require.Equal(t, 1, asked, "%s: %s", where, asJSON(t, p))
			}
			refused := len(undecided.refuses(t, creation(p, namespace))) > 0
			require.Equal(t, mayFail, refused, "%s, in an outage: %s", where, asJSON(t, p))
			counts[where+": "+map[bool]string{true: "waits", false: "fails"}[mayFail]]++
		}
	}
	t.Logf("%v", counts)
	for what, least := range map[string]int{
		"without config/outage: none": 100, "without config/outage: forged": 20, "without config/outage: waits": 20, "without config/outage: fails": 100,
		"with config/outage: none": 100, "with config/outage: waits": 100, "with config/outage: fails": 100,
	} {
		require.Greater(t, counts[what], least, what)
	}
}

// What the injector has decided, it has decided.
func TestNoPodThatTheInjectorHasDecidedOnIsRefused(t *testing.T) {
	outage, undecided := outagePolicy(t), newPolicy(t, undecidedPolicy(t).Spec)
	decided := 0
	for seed := range uint64(policyPods) {
		c := &chooser{data: decisions(seed)}
		scope := one(c, pod.OwnedPods, pod.AllPods)
		namespace := tenant(string(scope))
		namespace.Labels = map[string]string{pod.InjectAnnotation: string(scope)}
		before := marked(t, outage, variations(c, c.pod()), namespace)
		result, refused := decision(t, before, scope)
		if refused || before.Annotations[pod.StatusAnnotation] != pod.Undecided {
			continue
		}
		decided++
		require.Empty(t, undecided.refuses(t, creation(result.Pod, namespace)), "%s", asJSON(t, result.Pod))
		require.NotContains(t, strings.Join(pod.Messages(result.Warnings), "\n"), pod.MayWaitAnnotation)
	}
	require.Greater(t, decided, policyPods/10)
}

func TestAPodThatNobodyHasDecidedOnIsRefusedSoThatTektonTriesAgain(t *testing.T) {
	spec := undecidedPolicy(t).Spec
	require.Len(t, spec.Validations, 1)
	require.Equal(t, metav1.StatusReasonForbidden, *spec.Validations[0].Reason)
	require.Contains(t, spec.Validations[0].Message, "exceeded quota")
	policy := newPolicy(t, spec)
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: "p", Labels: map[string]string{"tekton.dev/taskRun": "x"}, Annotations: map[string]string{pod.StatusAnnotation: pod.Undecided},
	}}
	waits := creation(p, tenant("true"))
	require.NotEmpty(t, policy.refuses(t, waits))
	going := installed()
	going.DeletionTimestamp = &metav1.Time{}
	waits.params = going
	require.Empty(t, policy.refuses(t, waits), "the injector is being uninstalled")
	require.NotEmpty(t, outagePolicy(t).failing(t, waits), "the injector is being uninstalled")
}

// What the policy adds has to fit, and many keys cost the API server time.
func TestAPodWithoutRoomForAnotherAnnotationIsLeftToTheOtherWebhooks(t *testing.T) {
	policy, many := outagePolicy(t), keys{}
	for i := range 101 {
		many[fmt.Sprint(i)] = ""
	}
	for name, test := range map[string]struct {
		annotations keys
		marked      bool
	}{
		"none":      {nil, true},
		"a few":     {keys{"a": "b", pod.StatusAnnotation: "forged"}, true},
		"large":     {keys{"a": strings.Repeat("x", 150_000), "b": strings.Repeat("x", 40_000)}, true},
		"too large": {keys{"a": strings.Repeat("x", 150_000), "b": strings.Repeat("x", 60_000)}, false},
		"too many":  {many, false},
	} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"tekton.dev/taskRun": "x"}, Annotations: test.annotations}}
		require.Equal(t, test.marked, len(policy.failing(t, creation(p, tenant("true")))) == 0, name)
	}
}

// byPolicy returns a plain pod of a TaskRun as config/outage makes it, but for details that
// don't matter here; test/outage has the API server do so.
func byPolicy(t *testing.T) *corev1.Pod {
	t.Helper()
	step := func(name string) corev1.Container {
		return corev1.Container{
			Name: "step-" + name, Image: "busybox", Command: []string{"/tekton/bin/entrypoint"}, TerminationMessagePath: "/tekton/termination",
			Args:         []string{"-post_file", "/tekton/run/0/out", "-entrypoint", "sh", "--"},
			VolumeMounts: []corev1.VolumeMount{{Name: "home", MountPath: "/tekton/home"}, {Name: "token", MountPath: "/.docker"}},
		}
	}
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "run-pod", Labels: map[string]string{"tekton.dev/taskRun": "run"}, Annotations: map[string]string{pod.MayWaitAnnotation: "true"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "tekton.dev/v1", Kind: "TaskRun", Name: "run", UID: "1", Controller: new(true)}},
		},
		Spec: corev1.PodSpec{
			InitContainers: []corev1.Container{{Name: "prepare", Image: "entrypoint", Command: []string{"cp"}}},
			Containers:     []corev1.Container{step("one"), step("two"), {Name: "sidecar-db", Image: "db"}},
			Volumes:        []corev1.Volume{{Name: "home"}, {Name: "token"}},
		},
	}
	result, err := newWebhook(ordinary).Inject(t.Context(), "tenant", p)
	require.NoError(t, err)
	made := result.Pod.DeepCopy()
	made.Annotations[pod.StatusAnnotation] = pod.InjectedByPolicy
	return made
}

// withCopier is the injector's namespace, which names the image of the init container, as
// config/webhook has it or by the name that a mirror has for it, and says that the injector
// would wrap a plain pod.
func withCopier() *corev1.Namespace {
	ns := installed()
	ns.Annotations = map[string]string{
		"entrypointer-copier-image":     "mirror.example.test/copier@sha256:1111111111111111111111111111111111111111111111111111111111111111",
		"entrypointer-wraps-taskruns-1": "registry.example.test/copier@sha256:1111111111111111111111111111111111111111111111111111111111111111",
	}
	return ns
}

func TestAPodThatSaysThatAPolicyHasWrappedItIsAdmittedIfItIsWrapped(t *testing.T) {
	policy := newPolicy(t, undecidedPolicy(t).Spec)
	refuses := func(p *corev1.Pod, params *corev1.Namespace) bool {
		r := creation(p, tenant("true"))
		r.params = params
		return len(policy.refuses(t, r)) > 0
	}
	require.False(t, refuses(byPolicy(t), withCopier()))
	require.True(t, refuses(byPolicy(t), installed()), "nobody knows which image is ours")
	configured := withCopier()
	delete(configured.Annotations, "entrypointer-wraps-taskruns-1")
	require.True(t, refuses(byPolicy(t), configured), "the injector would set what the operator has configured")
	timed := creation(byPolicy(t), tenant("true"))
	timed.params = withCopier()
	timed.namespace.Annotations["entrypointer.dev/timeout"] = "1h"
	require.NotEmpty(t, policy.refuses(t, timed), "the injector would set what the namespace has")
	steps := func(p *corev1.Pod) []corev1.Container { return p.Spec.Containers[:2] }
	mounts := func(m corev1.VolumeMount) func(*corev1.Pod) {
		return func(p *corev1.Pod) { steps(p)[1].VolumeMounts = append(steps(p)[1].VolumeMounts, m) }
	}
	copies := func(change func(*corev1.Container)) func(*corev1.Pod) {
		return func(p *corev1.Pod) { change(&p.Spec.InitContainers[0]) }
	}
	for name, change := range map[string]func(*corev1.Pod){
		"a step without the supervisor": func(p *corev1.Pod) { steps(p)[1].Command = []string{"sh"} },
		"a step without a command":      func(p *corev1.Pod) { steps(p)[1].Command = nil },
		"more words in a command":       func(p *corev1.Pod) { steps(p)[1].Command = []string{pod.EntrypointPath, "-version"} },
		"no command behind the flags":   func(p *corev1.Pod) { steps(p)[1].Args = []string{"-version"} },
		"a flag that no policy sets":    func(p *corev1.Pod) { steps(p)[1].Args = append([]string{"-mode=exec"}, steps(p)[1].Args...) },
		"an option's flag like a hand-off's": func(p *corev1.Pod) {
			steps(p)[1].Args = append([]string{"-wait-for=tcp://db:5432"}, steps(p)[1].Args...)
		},
		"such a flag behind others": func(p *corev1.Pod) {
			steps(p)[1].Args = append([]string{"-hold=1s", "-mode", "exec"}, steps(p)[1].Args...)
		},
		"dashes in a flag's value": func(p *corev1.Pod) {
			steps(p)[1].Args = append([]string{"-post-file", "/x\n--", "-mode=exec"}, steps(p)[1].Args...)
		},
		"no step":                           func(p *corev1.Pod) { p.Spec.Containers = p.Spec.Containers[2:] },
		"no mount of the supervisor":        func(p *corev1.Pod) { steps(p)[0].VolumeMounts = steps(p)[0].VolumeMounts[:2] },
		"a mount in the supervisor's place": mounts(corev1.VolumeMount{Name: "home", MountPath: "/entrypointer/bin/entrypoint"}),
		"a mount above it":                  mounts(corev1.VolumeMount{Name: "home", MountPath: "/entrypointer"}),
		"a mount over all":                  mounts(corev1.VolumeMount{Name: "home", MountPath: "/"}),
		"a mount over all, by a detour":     mounts(corev1.VolumeMount{Name: "home", MountPath: "/./"}),
		"a mount by a detour":               mounts(corev1.VolumeMount{Name: "home", MountPath: "/x/../entrypointer"}),
		"a message in its place":            func(p *corev1.Pod) { steps(p)[0].TerminationMessagePath = pod.EntrypointPath },
		"a device in its place": func(p *corev1.Pod) {
			steps(p)[0].VolumeDevices = []corev1.VolumeDevice{{Name: "home", DevicePath: "/x"}}
		},
		"a step that writes to the volume": mounts(corev1.VolumeMount{Name: pod.VolumeName, MountPath: "/x"}),
		"a sidecar that does": func(p *corev1.Pod) {
			p.Spec.Containers[2].VolumeMounts = []corev1.VolumeMount{{Name: pod.VolumeName, MountPath: "/x"}}
		},
		"an init container that does": func(p *corev1.Pod) {
			p.Spec.InitContainers[1].VolumeMounts = []corev1.VolumeMount{{Name: pod.VolumeName, MountPath: "/x"}}
		},
		"a part of the volume": mounts(corev1.VolumeMount{Name: pod.VolumeName, MountPath: "/entrypointer/bin", SubPath: "x", ReadOnly: true}),
		"a volume that is somebody's": func(p *corev1.Pod) {
			volumeOf(p).VolumeSource = corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "x"}}
		},
		"no volume":                           func(p *corev1.Pod) { volumeOf(p).Name = "x" },
		"another image of the init container": copies(func(c *corev1.Container) { c.Image = "busybox" }),
		"an image by its tag":                 copies(func(c *corev1.Container) { c.Image = "registry.example.test/copier:v1" }),
		"another command of it":               copies(func(c *corev1.Container) { c.Command = []string{"true"} }),
		"other arguments of it":               copies(func(c *corev1.Container) { c.Args = []string{"/x"} }),
		"one that doesn't end":                copies(func(c *corev1.Container) { c.RestartPolicy = new(corev1.ContainerRestartPolicyAlways) }),
		"one of another name":                 copies(func(c *corev1.Container) { c.Name = "x" }),
		"one whose program is covered": copies(func(c *corev1.Container) {
			c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "home", MountPath: "/ko-app"})
		}),
		"one that writes elsewhere": copies(func(c *corev1.Container) { c.VolumeMounts[0].MountPath = "/x" }),
		"no init container":         func(p *corev1.Pod) { p.Spec.InitContainers = nil },
		"the other status":          func(p *corev1.Pod) { p.Annotations[pod.StatusAnnotation] = pod.Undecided },
	} {
		p := byPolicy(t)
		change(p)
		require.True(t, refuses(p, withCopier()), name)
	}
	for name, change := range map[string]func(*corev1.Pod){
		"a variable that another webhook adds": func(p *corev1.Pod) {
			for at := range p.Spec.InitContainers {
				p.Spec.InitContainers[at].Env = []corev1.EnvVar{{Name: "HTTP_PROXY", Value: "x"}}
			}
		},
		"a mount that another webhook adds": copies(func(c *corev1.Container) {
			c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "home", MountPath: "/etc/certificates"})
		}),
		"a sidecar that another webhook adds": func(p *corev1.Pod) { p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "mesh"}) },
	} {
		p := byPolicy(t)
		change(p)
		require.False(t, refuses(p, withCopier()), name)
	}
}

// volumeOf is the volume of the supervisor.
func volumeOf(p *corev1.Pod) *corev1.Volume {
	at := slices.IndexFunc(p.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == pod.VolumeName })
	return &p.Spec.Volumes[at]
}
