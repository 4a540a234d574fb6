// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/admission"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

// installed is the injector's namespace, which is the parameter of policies.
func installed() *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "entrypointer-system", UID: "uid-of-entrypointer-system"}}
}

func tenant(annotation string) *corev1.Namespace {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "tenant"}}
	if annotation != "" {
		ns.Annotations = map[string]string{pod.InjectAnnotation: annotation}
	}
	return ns
}

func creation(p *corev1.Pod, namespace *corev1.Namespace) request {
	return request{operation: admission.Create, resource: "pods", object: p, namespace: namespace, params: installed()}
}

// variations of made pods by what decides whose they are, and whether they are wrapped.
func variations(c *chooser, p *corev1.Pod) *corev1.Pod {
	marks := map[string]string{}
	controllers := []string{"", "Job"}
	for at, kind := range pod.Kinds() { // by default, pods of an optional kind are as any others
		if c.rarely(2 + at) {
			marks[kind.Label] = "name"
		}
		controllers = append(controllers, kind.Controller)
	}
	p.Labels = marks
	switch annotation := one(c, "", "true", "true", "false", "yes"); annotation {
	case "":
		delete(p.Annotations, pod.InjectAnnotation)
	default:
		p.Annotations = withAnnotation(p.Annotations, pod.InjectAnnotation, annotation)
	}
	if c.rarely(5) {
		p.Annotations = withAnnotation(p.Annotations, pod.ContainersAnnotation, one(c, p.Spec.Containers[0].Name, "nobody"))
	}
	if c.rarely(8) {
		p.Annotations = withAnnotation(p.Annotations, corev1.MirrorPodAnnotationKey, "hash")
	}
	if kind := one(c, controllers...); kind != "" {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: kind, Name: "owner", UID: "uid", Controller: one(c, new(true), new(true), nil)}}
	}
	if c.rarely(4) {
		p.Spec.Containers[0].Name = one(c, pod.DefaultProxies()...)
	}
	if c.rarely(5) {
		p.Spec.OS, p.Spec.NodeSelector = windows(c, &p.Spec)
	}
	return p
}

func windows(c *chooser, spec *corev1.PodSpec) (*corev1.PodOS, map[string]string) {
	requirement := corev1.NodeSelectorRequirement{
		Key:      one(c, corev1.LabelOSStable, "beta."+corev1.LabelOSStable, "disk"),
		Operator: one(c, corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn), Values: []string{one(c, "windows", "linux")},
	}
	terms := []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{requirement}}}
	if c.rarely(3) {
		terms = append(terms, corev1.NodeSelectorTerm{})
	}
	spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms}}}
	return one(c, nil, nil, &corev1.PodOS{Name: corev1.Windows}, &corev1.PodOS{Name: corev1.Linux}),
		one(c, nil, map[string]string{corev1.LabelOSStable: "windows"}, map[string]string{corev1.LabelOSStable: "linux"})
}

// What pkg/pod makes of a pod in a namespace that opted in.
func decision(t *testing.T, p *corev1.Pod, scope pod.Scope) (_ pod.Result, refused bool) {
	t.Helper()
	webhook := newWebhook(ordinary)
	webhook.AllPods = scope == pod.AllPods
	result, err := webhook.Inject(t.Context(), "tenant", p)
	if err != nil {
		require.True(t, isRefusal(err), "%v", err)
	}
	return result, err != nil
}

const policyPods = 3000

func TestWhereTheLabelIsMissingPodsAreRefusedThatWouldBeWrappedWithIt(t *testing.T) {
	unwrapped := newPolicy(t, shipped[admissionregistrationv1.ValidatingAdmissionPolicy](t,
		"220-refuse-unwrapped-pods.yaml", "ValidatingAdmissionPolicy", "unwrapped.entrypointer.dev").Spec)
	counts := map[string]int{}
	for seed := range uint64(policyPods) {
		c := &chooser{data: decisions(seed)}
		plain := variations(c, c.pod())
		scope := one(c, pod.OwnedPods, pod.OwnedPods, pod.AllPods)
		optedIn := tenant(string(scope))
		if scope == pod.AllPods && c.rarely(2) {
			optedIn.Labels = map[string]string{pod.InjectAnnotation: string(pod.OwnedPods)}
		}
		says := unwrapped.refuses(t, creation(plain, optedIn))
		result, refused := decision(t, plain, scope)
		switch {
		case result.Outcome == pod.Injected:
			require.NotEmpty(t, says, "it would run unwrapped: %s", asJSON(t, plain))
			require.Empty(t, unwrapped.refuses(t, creation(result.Pod, optedIn)), "it is wrapped: %s", asJSON(t, result.Pod))
			counts["wrapped"]++
		case refused:
			counts["refused"]++
		default:
			require.Empty(t, says, "it is %s: %s", result.Outcome, asJSON(t, plain))
			counts["left alone"]++
		}
		counts["in a namespace of scope "+string(scope)]++
		if len(says) == 0 {
			continue
		}
		for _, namespace := range []*corev1.Namespace{tenant(""), tenant("false"), tenant("yes")} {
			require.Empty(t, unwrapped.refuses(t, creation(plain, namespace)), "the namespace didn't opt in")
		}
		followed := optedIn.DeepCopy()
		followed.Labels = map[string]string{pod.InjectAnnotation: string(scope)}
		require.Empty(t, unwrapped.refuses(t, creation(plain, followed)), "the webhook decides")
		going := creation(plain, optedIn)
		going.params.(*corev1.Namespace).DeletionTimestamp = &metav1.Time{}
		require.Empty(t, unwrapped.refuses(t, going), "the injector is being uninstalled")
	}
	t.Logf("of %d pods: %v", policyPods, counts)
	for _, what := range []string{"wrapped", "refused", "left alone", "in a namespace of scope true", "in a namespace of scope all"} {
		require.Greater(t, counts[what], policyPods/20, what)
	}
}

// isExceededResourceQuotaError of
// https://github.com/tektoncd/pipeline/blob/v1.15.0/pkg/reconciler/taskrun/taskrun.go asks
// for 403, which Forbidden is, and for these words.
func TestWhereTheLabelIsMissingTektonTriesAgain(t *testing.T) {
	spec := shipped[admissionregistrationv1.ValidatingAdmissionPolicy](t,
		"220-refuse-unwrapped-pods.yaml", "ValidatingAdmissionPolicy", "unwrapped.entrypointer.dev").Spec
	require.Len(t, spec.Validations, 1)
	require.Equal(t, metav1.StatusReasonForbidden, *spec.Validations[0].Reason)
	message := newEvaluator(t, spec.Variables, expression{"message", spec.Validations[0].MessageExpression})
	for label, triesAgain := range map[string]bool{"tekton.dev/taskRun": true, "serving.knative.dev/revision": false} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Labels: map[string]string{label: "x"}}}
		said, ok := message.evaluate(t, creation(p, tenant("true")))[0].EvalResult.Value().(string)
		require.True(t, ok)
		require.Contains(t, said, "the injector sets the label as soon as it runs")
		require.Equal(t, triesAgain, strings.Contains(said, "exceeded quota"), "%s", said)
	}
}

func TestThePolicySeesTheNamespacesThatTheWebhookDoesNot(t *testing.T) {
	unwrapped := shipped[admissionregistrationv1.ValidatingAdmissionPolicy](t,
		"220-refuse-unwrapped-pods.yaml", "ValidatingAdmissionPolicy", "unwrapped.entrypointer.dev")
	policySelects, err := metav1.LabelSelectorAsSelector(unwrapped.Spec.MatchConstraints.NamespaceSelector)
	require.NoError(t, err)
	webhooks := podWebhooks(t)
	require.Len(t, webhooks, 3)
	selects := map[string]labels.Selector{}
	for _, w := range webhooks {
		selects[w.Name], err = metav1.LabelSelectorAsSelector(w.NamespaceSelector)
		require.NoError(t, err)
	}
	for _, name := range []string{"tenant", "default", "kube-system", "entrypointer-system"} {
		for _, value := range []string{"", "true", "all", "false", "yes"} {
			namespace := set{corev1.LabelMetadataName: name}
			if value != "" {
				namespace[pod.InjectAnnotation] = value
			}
			theirs := name == "kube-system" || name == "entrypointer-system"
			require.Equal(t, !theirs && value == "true", selects["pods.entrypointer.dev"].Matches(namespace), "%v", namespace)
			require.Equal(t, !theirs && value == "all", selects["all-pods.entrypointer.dev"].Matches(namespace), "%v", namespace)
			require.Equal(t, !theirs && (value == "true" || value == "all"), selects["taskruns.entrypointer.dev"].Matches(namespace), "%v", namespace)
			require.Equal(t, !theirs && value != "all", policySelects.Matches(namespace), "%v", namespace)
		}
	}
}

type set map[string]string

func (s set) Has(key string) bool              { _, has := s[key]; return has }
func (s set) Get(key string) string            { return s[key] }
func (s set) Lookup(key string) (string, bool) { value, has := s[key]; return value, has }

// podWebhooks are the one for pods that Tekton or Knative own or that ask, the one for all
// pods, and the one for the pods of TaskRuns that may wait.
func podWebhooks(t *testing.T) []admissionregistrationv1.MutatingWebhook {
	t.Helper()
	return shipped[admissionregistrationv1.MutatingWebhookConfiguration](t,
		"600-webhooks.yaml", "MutatingWebhookConfiguration", "pods.entrypointer.dev").Webhooks
}

func TestTheWebhookForAllPodsDiffersInWhichPodsItIsCalledFor(t *testing.T) {
	webhooks := podWebhooks(t)
	some, all, taskRuns := webhooks[0], webhooks[1], webhooks[2]
	require.Equal(t, some.MatchConditions[1:], all.MatchConditions)
	all.Name, all.MatchConditions, all.NamespaceSelector = some.Name, some.MatchConditions, some.NamespaceSelector
	require.Equal(t, some, all)
	taskRuns.Name, taskRuns.MatchConditions, taskRuns.NamespaceSelector = some.Name, some.MatchConditions, some.NamespaceSelector
	require.Equal(t, admissionregistrationv1.Ignore, *taskRuns.FailurePolicy)
	taskRuns.FailurePolicy = some.FailurePolicy
	require.Equal(t, some, taskRuns)
}

// An outage is felt by pods that the API server sends to us. That shall be
// none that would come back as it was, and without a warning.
func TestTheWebhookIsCalledForThePodsThatItSaysSomethingOf(t *testing.T) {
	var conditions []expression
	for _, c := range podWebhooks(t)[0].MatchConditions {
		conditions = append(conditions, expression{c.Name, c.Expression})
	}
	require.NotEmpty(t, conditions, "every pod of the namespace waits for the webhook")
	webhook := newEvaluator(t, nil, conditions...)
	counts := map[bool]int{}
	for seed := range uint64(policyPods) {
		c := &chooser{data: decisions(seed)}
		plain := variations(c, c.pod())
		if seed%2 == 0 { // most pods that aren't ours say nothing to us
			maps.DeleteFunc(plain.Annotations, func(key, _ string) bool { return strings.Contains(key, "entrypointer.dev/") })
		}
		if key := one(c, "", "", "entrypointer.dev/status", "entrypointer.dev/injekt", "mode.entrypointer.dev/app-0", "notentrypointer.dev/inject"); key != "" {
			plain.Annotations = withAnnotation(plain.Annotations, key, "exec")
		}
		if c.rarely(5) {
			plain.Labels[one(c, pod.InjectAnnotation, "entrypointer.dev/mode")] = "true"
		}
		called := len(webhook.failing(t, creation(plain, tenant("true")))) == 0
		counts[called]++
		if called {
			continue
		}
		result, refused := decision(t, plain, pod.OwnedPods)
		require.False(t, refused, "%s", asJSON(t, plain))
		require.Equal(t, pod.NotOurs, result.Outcome, "%s", asJSON(t, plain))
		require.Empty(t, result.Warnings)
		require.Empty(t, pod.Patch(plain, result.Pod))
	}
	t.Logf("of %d pods, those that the webhook is called for: %v", policyPods, counts)
	require.Greater(t, counts[false], policyPods/20)

	// One that is nobody's isn't sent, whatever else it has.
	nobodys := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Labels:      map[string]string{"app": "any", "tekton.dev/pipeline": "any", "serving.knative.dev/service": "any"},
		Annotations: map[string]string{"kubectl.kubernetes.io/default-container": "main", "notentrypointer.dev/inject": "true"},
	}}
	require.NotEmpty(t, webhook.failing(t, creation(nobodys, tenant("true"))))
}

func TestEveryNameOfAProxyIsInThePolicy(t *testing.T) {
	variables := shipped[admissionregistrationv1.ValidatingAdmissionPolicy](t,
		"220-refuse-unwrapped-pods.yaml", "ValidatingAdmissionPolicy", "unwrapped.entrypointer.dev").Spec.Variables
	at := slices.IndexFunc(variables, func(v admissionregistrationv1.Variable) bool { return v.Name == "proxies" })
	for _, name := range pod.DefaultProxies() {
		require.Contains(t, variables[at].Expression, "'"+name+"'")
	}
}
