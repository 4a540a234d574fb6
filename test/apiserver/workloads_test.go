// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apiserver/pkg/admission"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

func workloadWebhook(t *testing.T) admissionregistrationv1.ValidatingWebhook {
	t.Helper()
	webhooks := shipped[admissionregistrationv1.ValidatingWebhookConfiguration](t,
		"600-webhooks.yaml", "ValidatingWebhookConfiguration", "workloads.entrypointer.dev").Webhooks
	require.Len(t, webhooks, 1)
	return webhooks[0]
}

// called returns a function that answers whether the webhook for workloads is called.
func called(t *testing.T) func(*testing.T, string, map[string]any) bool {
	t.Helper()
	var conditions []expression
	for _, c := range workloadWebhook(t).MatchConditions {
		conditions = append(conditions, expression{c.Name, c.Expression})
	}
	evaluator := newEvaluator(t, nil, conditions...)
	return func(t *testing.T, kind string, object map[string]any) bool {
		t.Helper()
		return len(evaluator.failing(t, request{operation: admission.Create, kind: kind, object: &unstructured.Unstructured{Object: object}})) == 0
	}
}

// in returns an object with these metadata at a path.
func in(m map[string]any, path ...string) map[string]any {
	object := map[string]any{"metadata": m}
	for _, field := range slices.Backward(path) {
		object = map[string]any{field: object}
	}
	if len(path) > 0 {
		object["metadata"] = metadata(nil, nil)
	}
	return object
}

func TestTheWebhookForWorkloadsIsCalledForThoseThatMentionUsOrNearly(t *testing.T) {
	isCalled := called(t)
	for key, want := range map[string]bool{
		"entrypointer.dev/inject":       true,
		"timeout.entrypointer.dev/app":  true,
		"entrypointer.dev/timout":       true,
		"entrypoint.dev/timeout":        true,
		"timeout.entrypointer.io/app":   true,
		"app":                           false,
		"prometheus.io/scrape":          false,
		"sidecar.istio.io/inject":       false,
		"kubectl.kubernetes.io/restart": false,
	} {
		for kind, path := range map[string][]string{
			"Deployment": {"spec", "template"}, "CronJob": {"spec", "jobTemplate", "spec", "template"}, "Service": {"spec", "template"},
			"Job": nil, "TaskRun": nil, "Pod": nil,
		} {
			ours := strings.Contains(key, "entrypointer.dev/")
			for _, m := range []map[string]any{metadata(keys{key: "x"}, nil), metadata(nil, keys{key: "x"})} {
				require.Equal(t, want && (kind != "Pod" || !ours), isCalled(t, kind, in(m, path...)), "%s: %s", kind, key)
			}
		}
	}
	jobTemplate := in(metadata(keys{"entrypointer.dev/inject": "true"}, nil), "spec", "jobTemplate")
	require.True(t, isCalled(t, "CronJob", jobTemplate))
	owned := in(metadata(keys{"entrypointer.dev/inject": "true"}, nil))
	require.True(t, isCalled(t, "TaskRun", owned))
	owned["metadata"].(map[string]any)["ownerReferences"] = []any{map[string]any{"kind": "PipelineRun", "controller": true}}
	require.False(t, isCalled(t, "TaskRun", owned), "who reads its warnings?")
	going := in(metadata(keys{"entrypointer.dev/inject": "true"}, nil))
	going["metadata"].(map[string]any)["deletionTimestamp"] = "2026-11-24T00:00:00Z"
	require.False(t, isCalled(t, "TaskRun", going))
}

// As many and as long keys as the conditions look at stay within the API server's limit
// of their cost, beyond which the webhook isn't called.
func TestTheConditionsOfTheWebhookForWorkloadsStayWithinTheirCost(t *testing.T) {
	isCalled := called(t)
	many := func(n int, key string) map[string]any {
		m := keys{}
		for i := range n {
			m[fmt.Sprintf("%s%03d", key, i)] = ""
		}
		return metadata(m, m)
	}
	for _, key := range []string{strings.Repeat("entry-", 20), strings.Repeat("x", 124), strings.Repeat("entry-", 40) + ".example/" + strings.Repeat("x", 60)} {
		full := many(300, key)
		cronJob := in(full, "spec", "jobTemplate", "spec", "template")
		cronJob["metadata"], cronJob["spec"].(map[string]any)["jobTemplate"].(map[string]any)["metadata"] = full, full
		require.False(t, isCalled(t, "CronJob", cronJob))
		cronJob["metadata"] = metadata(keys{"entrypointer.dev/inject": "true"}, nil)
		require.True(t, isCalled(t, "CronJob", cronJob))
	}
	require.False(t, isCalled(t, "Deployment", in(many(301, "entrypointer.dev/"))), "too many to look at")
}

func TestTheConditionOfTheWebhookForNamespacesStaysWithinItsCost(t *testing.T) {
	webhook := shipped[admissionregistrationv1.MutatingWebhookConfiguration](t,
		"600-webhooks.yaml", "MutatingWebhookConfiguration", "namespaces.entrypointer.dev").Webhooks[0]
	require.Len(t, webhook.MatchConditions, 1)
	evaluator := newEvaluator(t, nil, expression{"mentions-us", webhook.MatchConditions[0].Expression})
	for what, test := range map[string]struct {
		n    int
		key  string
		want bool
	}{
		"none of ours":     {500, strings.Repeat("x", 120), false},
		"long":             {500, strings.Repeat("entry-", 40) + ".example/" + strings.Repeat("x", 60), false},
		"nearly ours":      {1, "entrypoint.dev/timeout", true},
		"ours":             {1, "timeout.entrypointer.dev/", true},
		"the injector may": {501, "x", true},
	} {
		m := keys{}
		for i := range test.n {
			m[fmt.Sprintf("%s%03d", test.key, i)] = ""
		}
		for _, object := range []map[string]any{in(metadata(m, nil)), in(metadata(m, m))} {
			failing := evaluator.failing(t, request{operation: admission.Update, kind: "Namespace", object: &unstructured.Unstructured{Object: object}})
			require.Equal(t, test.want, len(failing) == 0, what)
		}
	}
}

func TestTheWebhookForWorkloadsIsOfNamespacesThatOptedIn(t *testing.T) {
	selector, err := metav1.LabelSelectorAsSelector(workloadWebhook(t).NamespaceSelector)
	require.NoError(t, err)
	for _, name := range []string{"tenant", "kube-system", "entrypointer-system"} {
		for _, value := range []string{"", "true", "all", "false"} {
			namespace := set{corev1.LabelMetadataName: name}
			if value != "" {
				namespace[pod.InjectAnnotation] = value
			}
			require.Equal(t, name == "tenant" && (value == "true" || value == "all"), selector.Matches(namespace), "%v", namespace)
		}
	}
}

// The expression that finds prefixes which are nearly ours stands in several places.
var nearly = regexp.MustCompile(`key\.matches\('(.*?)'\)`)

func nearPrefix(t *testing.T) *regexp.Regexp {
	t.Helper()
	var found []string
	for file, want := range map[string]int{"600-webhooks.yaml": 3, "230-warn-of-misplaced-annotations.yaml": 2} {
		text, err := os.ReadFile("../../config/webhook/" + file)
		require.NoError(t, err)
		matches := nearly.FindAllStringSubmatch(string(text), -1)
		require.Len(t, matches, want, file)
		for _, match := range matches {
			found = append(found, match[1])
		}
	}
	require.Len(t, slices.Compact(found), 1, "the same everywhere")
	return regexp.MustCompile(found[0])
}

// Every mistake of one letter is found, in the API server and by pkg/pod.
func TestEveryPrefixThatDiffersByOneLetterIsFound(t *testing.T) {
	near := nearPrefix(t)
	const name, letters = "entrypointer", "abcdefghijklmnopqrstuvwxyz0-"
	mistakes := map[string]bool{"entrypoint": true, "entrypoints": true, "entrypointers": true, "entry-pointer": true, "entry-point": true, "Entrypointer": true}
	for at := range len(name) {
		mistakes[name[:at]+name[at+1:]] = true
		if at > 0 {
			mistakes[name[:at-1]+name[at:at+1]+name[at-1:at]+name[at+1:]] = true
		}
		for _, letter := range letters {
			mistakes[name[:at]+string(letter)+name[at+1:]] = true
			mistakes[name[:at]+string(letter)+name[at:]] = true
		}
	}
	for mistake := range mistakes {
		for _, end := range []string{".dev", ".io", ".com", ".org", ".net", ".sh", ".cloud", ""} {
			for key, meant := range map[string]string{mistake + end + "/timeout": "entrypointer.dev/timeout", "timeout." + mistake + end + "/app": "timeout.entrypointer.dev/app"} {
				if key == meant || strings.HasPrefix(mistake, "-") { // no prefix begins so
					continue
				}
				require.Regexp(t, near, key)
				warnings := pod.MisspeltPrefixes(keys{key: "1h"}, nil)
				require.Len(t, warnings, 1, key)
				require.Contains(t, warnings[0].Message, meant)
			}
		}
	}
	for _, key := range []string{
		"app", "app.kubernetes.io/name", "endpoint.io/inject", "endpoints.example/inject", "checkpoint.dev/inject", "waypoint.io/inject", "breakpointer.io/inject",
		"entry.io/inject", "entrypass.io/inject", "sidecar.istio.io/inject", "entrypoint.example.com/inject", "entrypoint-metrics.example.com/inject",
		"kubectl.kubernetes.io/last-applied-configuration",
	} {
		require.NotRegexp(t, near, key)
	}
}
