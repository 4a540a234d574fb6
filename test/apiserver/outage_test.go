// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"fmt"
	"maps"
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
		if status := one(c, "", "", pod.Undecided, "Injected by init-container", "OptedOut"); status != "" {
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
			isUndecided := p.Annotations[pod.StatusAnnotation] == pod.Undecided
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
