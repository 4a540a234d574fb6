// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package podwebhook

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/metric/noop"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/flowcontrol"
	"knative.dev/pkg/apis"
	"knative.dev/pkg/configmap"
	logtesting "knative.dev/pkg/logging/testing"

	"github.com/entrypointer/entrypointer/internal/admission"
	"github.com/entrypointer/entrypointer/internal/autodelivery"
	"github.com/entrypointer/entrypointer/internal/config"
	"github.com/entrypointer/entrypointer/pkg/lookup"
	"github.com/entrypointer/entrypointer/pkg/pod"
)

// answers are as told: pkg/lookup tests how answers come about.
type answers func(context.Context, lookup.Query) (*lookup.Image, error)

func (a answers) Lookup(ctx context.Context, query lookup.Query) (*lookup.Image, error) {
	return a(ctx, query)
}

// newWrapper returns a wrapper whose lookups are answered by answer, and what it tells owners.
func newWrapper(t *testing.T, data map[string]string, answer answers) (*wrapper, *record.FakeRecorder) {
	t.Helper()
	metrics, err := newMetrics(noop.NewMeterProvider())
	require.NoError(t, err)
	recorder := record.NewFakeRecorder(10)
	watcher, settings := &configmap.ManualWatcher{}, &config.Store{}
	settings.Watch(logtesting.TestLogger(t), watcher)
	w := &wrapper{
		images:  Images{Copier: "copier", Entrypoint: "entrypoint", CopierWithLogs: "copier-with-logs", EntrypointWithLogs: "entrypoint-with-logs"},
		config:  settings,
		lookups: &lookups{metrics: metrics, lookuper: answer},
		metrics: metrics,
		events:  &events{recorder},
		logs:    &logService{},
		auto:    knows(autodelivery.NodesUnknown),
		claim:   func(string) string { return "entrypointer-0123456789ab" },
		namespaces: namespaces{
			cached: listers.NewNamespaceLister(cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)),
			client: fake.NewClientset(
				&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "tenant", Annotations: map[string]string{"entrypointer.dev/inject": "true"}}},
				&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other"}},
			),
			reads: flowcontrol.NewFakeAlwaysRateLimiter(),
		},
	}
	watcher.OnChange(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: config.Name}, Data: data})
	w.lookups.config = w.config.Load()
	return w, recorder
}

// knows is a verdict for this reason.
type knows autodelivery.Reason

func (k knows) Verdict() autodelivery.Verdict {
	return autodelivery.Verdict{Reason: autodelivery.Reason(k)}
}

// review is an AdmissionReview as an API server sent it.
func review(t *testing.T, file string) *admissionv1.AdmissionRequest {
	t.Helper()
	saved, err := os.ReadFile(file)
	require.NoError(t, err)
	var review admissionv1.AdmissionReview
	require.NoError(t, json.Unmarshal(saved, &review))
	return review.Request
}

func found(context.Context, lookup.Query) (*lookup.Image, error) {
	return &lookup.Image{Pinned: "busybox@sha256:0", Configs: []lookup.Config{{Platform: "linux/amd64", Cmd: []string{"sh"}}}}, nil
}

func missing(_ context.Context, query lookup.Query) (*lookup.Image, error) {
	return nil, &lookup.Error{Query: query, Reason: lookup.NotFound, Err: os.ErrNotExist}
}

func TestAPodIsPatched(t *testing.T) {
	w, recorder := newWrapper(t, nil, func(_ context.Context, query lookup.Query) (*lookup.Image, error) {
		require.Equal(t, lookup.Query{Image: "busybox", Namespace: "tenant", ServiceAccount: "default", PullSecrets: []string{"pull"}}, query)
		return &lookup.Image{Pinned: "busybox@sha256:0", Configs: []lookup.Config{{Platform: "linux/amd64", Cmd: []string{"sh"}}}}, nil
	})
	response := w.admit(logtesting.TestContextWithLogger(t), review(t, "testdata/review.json"))
	require.True(t, response.Allowed)
	require.Equal(t, admissionv1.PatchTypeJSONPatch, *response.PatchType)
	require.Contains(t, string(response.Patch), `"path":"/spec/initContainers"`)
	require.Contains(t, string(response.Patch), `["-image-words=1:busybox@sha256:0","--","sh"]`)
	require.Empty(t, recorder.Events, "what goes well is no event")
}

func TestANamespacesDeliveryComesBeforeTheOperators(t *testing.T) {
	for asked, test := range map[string]struct{ operators, want string }{
		"image-volume":   {"init-container", "Injected by image-volume"},
		"init-container": {"image-volume", "Injected by init-container"},
		"claim":          {"image-volume", "Injected by claim"},
		"":               {"image-volume", "Injected by image-volume"},
		"a later one's":  {"image-volume", "Injected by image-volume"},
	} {
		w, _ := newWrapper(t, map[string]string{"delivery": test.operators}, found)
		tenant := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "tenant", Annotations: map[string]string{"entrypointer.dev/inject": "true"}}}
		if asked != "" {
			tenant.Annotations["entrypointer.dev/delivery"] = asked
		}
		w.namespaces.client = fake.NewClientset(tenant)
		response := w.admit(logtesting.TestContextWithLogger(t), review(t, "testdata/review.json"))
		require.True(t, response.Allowed, asked)
		require.Contains(t, string(response.Patch), test.want, asked)
	}
}

func TestUnderAutoAPodMountsAnImageOnlyWhereThatIsProven(t *testing.T) {
	for _, test := range []struct {
		configured string
		reason     autodelivery.Reason
		want       pod.Delivery
	}{
		{"auto", autodelivery.Proven, pod.DeliveryImageVolume},
		{"auto", autodelivery.Unproven, pod.DeliveryInitContainer},
		{"auto", autodelivery.NodeUnfit, pod.DeliveryInitContainer},
		{"image-volume", autodelivery.NodeUnfit, pod.DeliveryImageVolume},
		{"init-container", autodelivery.Proven, pod.DeliveryInitContainer},
	} {
		w, _ := newWrapper(t, map[string]string{"delivery": test.configured}, found)
		w.auto = knows(test.reason)
		response := w.admit(logtesting.TestContextWithLogger(t), review(t, "testdata/review.json"))
		require.True(t, response.Allowed)
		require.Contains(t, string(response.Patch), `"value":"Injected by `+string(test.want)+`"`, "%s: %s", test.configured, test.reason)
	}
}

func TestANamespaceCanAskForAutoItself(t *testing.T) {
	for reason, want := range map[autodelivery.Reason]pod.Delivery{autodelivery.Proven: pod.DeliveryImageVolume, autodelivery.NodeUnfit: pod.DeliveryInitContainer} {
		w, _ := newWrapper(t, map[string]string{"delivery": "init-container"}, found)
		w.auto = knows(reason)
		w.namespaces.client = fake.NewClientset(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "tenant", Annotations: map[string]string{
			"entrypointer.dev/inject": "true", "entrypointer.dev/delivery": "auto",
		}}})
		response := w.admit(logtesting.TestContextWithLogger(t), review(t, "testdata/review.json"))
		require.True(t, response.Allowed)
		require.Contains(t, string(response.Patch), `"value":"Injected by `+string(want)+`"`, reason)
	}
}

func TestAPodOfANamespaceWhoseClaimIsNotReadyGetsAnInitContainer(t *testing.T) {
	w, _ := newWrapper(t, map[string]string{"delivery": "claim"}, found)
	var asked []string
	w.claim = func(namespace string) string {
		asked = append(asked, namespace)
		return ""
	}
	response := w.admit(logtesting.TestContextWithLogger(t), review(t, "testdata/review.json"))
	require.True(t, response.Allowed)
	require.Contains(t, string(response.Patch), "Injected by init-container")
	require.Equal(t, []string{"tenant"}, asked)
}

func TestANamespacesOptionsAreThoseOfItsPods(t *testing.T) {
	tenant := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "tenant", Annotations: map[string]string{"entrypointer.dev/inject": "true", "entrypointer.dev/timeout": "1h"}}}
	known := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
	require.NoError(t, known.Add(tenant))
	for name, n := range map[string]namespaces{
		"cached":                          {cached: listers.NewNamespaceLister(known), client: fake.NewClientset()},
		"so new that it isn't cached yet": {cached: listers.NewNamespaceLister(cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)), client: fake.NewClientset(tenant), reads: flowcontrol.NewFakeAlwaysRateLimiter()},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := newWrapper(t, map[string]string{"defaults": "timeout: 2h\npause: after-failure"}, found)
			w.namespaces = n
			response := w.admit(logtesting.TestContextWithLogger(t), review(t, "testdata/review.json"))
			require.True(t, response.Allowed)
			require.Contains(t, string(response.Patch), `["-timeout=1h","-pause=after-failure","-image-words=1:busybox@sha256:0","--","sh"]`, "the namespace's before the operator's")
		})
	}

	tenant.Annotations["entrypointer.dev/timeout"] = "1"
	w, _ := newWrapper(t, nil, found)
	w.namespaces.cached = listers.NewNamespaceLister(known)
	response := w.admit(logtesting.TestContextWithLogger(t), review(t, "testdata/review.json"))
	require.False(t, response.Allowed)
	require.Contains(t, response.Result.Message, `annotation entrypointer.dev/timeout of namespace "tenant": "1" is wrong`)
}

// An API server that has seen the label calls before the replica's cache has seen it.
func TestAPodIsWrappedThoughTheCacheLagsBehindTheNamespace(t *testing.T) {
	inScope := func(scope string) *corev1.Namespace {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "tenant", Annotations: map[string]string{}}}
		if scope != "" {
			ns.Annotations[pod.InjectAnnotation] = scope
		}
		return ns
	}
	for name, test := range map[string]struct {
		cached, current string
		asks, wrapped   bool
		mentions        bool
	}{
		"opted in for all since, of a pod with an option": {cached: "true", current: "all", mentions: true, wrapped: true},
		"not for all, of a pod with an option":            {cached: "true", current: "true", mentions: true},
		"opted in for all since":                          {cached: "", current: "all", wrapped: true},
		"opted in since":                                  {cached: "", current: "true", asks: true, wrapped: true},
		"opted in for all instead of some":                {cached: "true", current: "all", wrapped: true},
		"not for all":                                     {cached: "true", current: "true"},
		"for all, as is known":                            {cached: "all", current: "all", wrapped: true},
		"opted out since, which is known later":           {cached: "all", current: "", wrapped: true},
		"opted out, as is known":                          {cached: "", current: "", asks: true},
		"opted in, of a pod that would be in both":        {cached: "true", current: "all", asks: true, wrapped: true},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := newWrapper(t, nil, found)
			known := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
			require.NoError(t, known.Add(inScope(test.cached)))
			w.namespaces.cached, w.namespaces.client = listers.NewNamespaceLister(known), fake.NewClientset(inScope(test.current))
			p := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "app", Command: []string{"run"}}}}}
			if test.asks {
				p.Annotations = map[string]string{pod.InjectAnnotation: "true"}
			}
			if test.mentions {
				p.Annotations = map[string]string{"entrypointer.dev/timeout": "1h"}
			}
			response := w.admit(logtesting.TestContextWithLogger(t), asking(t, review(t, "testdata/review.json"), p))
			require.True(t, response.Allowed)
			require.Equal(t, test.wrapped, strings.Contains(string(response.Patch), pod.InitContainerName))
		})
	}
}

func TestAPodIsRefusedIfItsNamespaceCanNotBeReadAgain(t *testing.T) {
	w, _ := newWrapper(t, nil, found)
	w.namespaces.reads = flowcontrol.NewFakeNeverRateLimiter()
	request := review(t, "testdata/review.json")
	request.Namespace = "other"
	response := w.admit(logtesting.TestContextWithLogger(t), request)
	require.False(t, response.Allowed)
	require.Contains(t, response.Result.Message, `reading namespace "other": too many namespaces were read in the last second; try again`)
}

func TestAllowedRegistriesHoldForTools(t *testing.T) {
	image := "ghcr.io/team/ni@sha256:" + strings.Repeat("6", 64)
	data := map[string]string{"tools": "ni: {image: " + image + ", path: /ni}", "defaults": "tools: ni"}
	w, _ := newWrapper(t, data, found)
	response := w.admit(logtesting.TestContextWithLogger(t), review(t, "testdata/review.json"))
	require.True(t, response.Allowed)
	require.Contains(t, string(response.Patch), image)

	data["allowed-registries"], data["allowed-registries.other"] = "docker.io", "ghcr.io"
	w, recorder := newWrapper(t, data, found)
	response = w.admit(logtesting.TestContextWithLogger(t), review(t, "testdata/review.json"))
	require.True(t, response.Allowed)
	require.NotContains(t, string(response.Patch), image)
	require.Len(t, response.Warnings, 1)
	require.Contains(t, response.Warnings[0], `namespace "tenant" can't have tool "ni"`)
	require.Contains(t, <-recorder.Events, `Warning ToolNotAllowed reading annotation entrypointer.dev/tools as the operator has it by default: namespace "tenant" can't have tool "ni"`)
}

func TestARefusalNamesTheObjectThatThePodsAuthorKnows(t *testing.T) {
	w, recorder := newWrapper(t, nil, missing)
	response := w.admit(logtesting.TestContextWithLogger(t), review(t, "testdata/review.json"))
	require.False(t, response.Allowed)
	require.Equal(t, int32(http.StatusForbidden), response.Result.Code)
	for _, says := range []string{`pod "app-7d4b9-*" of ReplicaSet "app-7d4b9"`, `container "app"`, `image "busybox"`, "set command:"} {
		require.Contains(t, response.Result.Message, says)
	}
	require.Empty(t, recorder.Events, "controllers tell of a refusal themselves")
}

func TestADryRunHasNoSideEffects(t *testing.T) {
	w, recorder := newWrapper(t, map[string]string{"failed-lookup": "admit"}, missing)
	request, dry := review(t, "testdata/review.json"), true
	request.DryRun = &dry
	require.Len(t, w.admit(logtesting.TestContextWithLogger(t), request).Warnings, 1)
	require.Empty(t, recorder.Events)
}

func TestADryRunExplainsTheDecisionIfItIsAsked(t *testing.T) {
	for name, test := range map[string]struct {
		dry  bool
		asks string
		want bool
	}{
		"a dry run that asks":  {true, pod.ExplainAnnotation, true},
		"another dry run":      {true, "example.com/x", false},
		"a pod that is to run": {false, pod.ExplainAnnotation, false},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := newWrapper(t, map[string]string{"defaults": "timeout: 2h"}, found)
			request := review(t, "testdata/review.json")
			request.DryRun = &test.dry
			var p corev1.Pod
			require.NoError(t, json.Unmarshal(request.Object.Raw, &p))
			p.Annotations[test.asks] = "true"
			raw, err := json.Marshal(&p)
			require.NoError(t, err)
			request.Object.Raw = raw
			response := w.admit(logtesting.TestContextWithLogger(t), request)
			require.True(t, response.Allowed)
			require.Empty(t, response.Warnings)
			require.Equal(t, test.want, strings.Contains(string(response.Patch), "explanation"))
			if test.want {
				require.Contains(t, string(response.Patch), `timeout\",\"value\":\"2h\",\"source\":\"annotation entrypointer.dev/timeout as the operator has it by default`)
			}
		})
	}
}

// Any pod can post to the Service of the webhook.
func TestARequestThatNoAPIServerSendsHasNoEffect(t *testing.T) {
	for name, change := range map[string]func(*admissionv1.AdmissionRequest){
		"a namespace that didn't opt in": func(r *admissionv1.AdmissionRequest) { r.Namespace = "other" },
		"a namespace that isn't there":   func(r *admissionv1.AdmissionRequest) { r.Namespace = "missing" },
		"a namespace without a name":     func(r *admissionv1.AdmissionRequest) { r.Namespace = "" },
		"no pod":                         func(r *admissionv1.AdmissionRequest) { r.Namespace, r.Object.Raw = "other", []byte(`[]`) },
		"another operation":              func(r *admissionv1.AdmissionRequest) { r.Operation = admissionv1.Update },
		"another resource":               func(r *admissionv1.AdmissionRequest) { r.Resource.Resource = "secrets" },
		"a subresource":                  func(r *admissionv1.AdmissionRequest) { r.SubResource = "status" },
	} {
		t.Run(name, func(t *testing.T) {
			w, recorder := newWrapper(t, nil, func(_ context.Context, query lookup.Query) (*lookup.Image, error) {
				t.Errorf("a registry was asked for %q", query.Image)
				return nil, os.ErrNotExist
			})
			request := review(t, "testdata/review.json")
			change(request)
			response := w.admit(logtesting.TestContextWithLogger(t), request)
			require.Equal(t, admission.Allow(nil), response, "it doesn't tell what there is")
			require.Empty(t, recorder.Events)
		})
	}
}

func TestAWaivedLookupWarns(t *testing.T) {
	w, recorder := newWrapper(t, map[string]string{"failed-lookup": "admit"}, missing)
	recorder.IncludeObject = true
	response := w.admit(logtesting.TestContextWithLogger(t), review(t, "testdata/review.json"))
	require.True(t, response.Allowed)
	require.JSONEq(t, `[{"op": "add", "path": "/metadata/annotations/entrypointer.dev~1status", "value": "LookupWaived"}]`, string(response.Patch))
	require.Len(t, response.Warnings, 1)
	require.True(t, strings.HasPrefix(response.Warnings[0], `entrypointer: container "app" runs without`), response.Warnings[0])
	event := <-recorder.Events
	require.True(t, strings.HasPrefix(event, `Warning LookupFailed container "app" runs without`), event)
	require.Contains(t, event, "kind=ReplicaSet", "controllers read no warnings")
}

func TestAChangeOfTheConfigurationForgetsFormerAnswers(t *testing.T) {
	metrics, err := newMetrics(noop.NewMeterProvider())
	require.NoError(t, err)
	kept := &lookups{metrics: metrics}
	under := func(current *config.Config) lookup.Lookuper {
		lookuper, err := kept.under(current)
		require.NoError(t, err)
		return lookuper
	}
	first := under(&config.Config{LookupTimeout: time.Second})
	require.Same(t, first, under(&config.Config{LookupTimeout: 2 * time.Second}), "it doesn't concern lookups")
	require.NotSame(t, first, under(&config.Config{Lookup: lookup.Options{ForbidPrivateAddresses: true}}))
}

func TestTheAnswerComesBeforeTheAPIServerGivesUp(t *testing.T) {
	for query, want := range map[string]time.Duration{
		"":              3 * time.Second,
		"timeout=10s":   3 * time.Second,
		"timeout=2s":    1500 * time.Millisecond,
		"timeout=100ms": 3 * time.Second, // hopeless; the API server's timeouts are whole seconds
		"timeout=soon":  3 * time.Second,
	} {
		ctx := apis.WithHTTPRequest(t.Context(), &http.Request{URL: &url.URL{RawQuery: query}})
		require.Equal(t, want, budget(ctx, 3*time.Second), query)
	}
}

func TestAnObjectThatIsNoPodIsRefused(t *testing.T) {
	request := review(t, "testdata/review.json")
	request.Object.Raw = []byte("[]")
	w, _ := newWrapper(t, nil, missing)
	require.False(t, w.admit(t.Context(), request).Allowed)
}
