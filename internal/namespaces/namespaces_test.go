// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package namespaces

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"knative.dev/pkg/controller"

	"github.com/entrypointer/entrypointer/internal/config"
	"github.com/entrypointer/entrypointer/pkg/pod"
)

const own = "entrypointer-system"

func namespace(name string, annotation, label *string) *corev1.Namespace {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{"kept": "yes"}, Annotations: map[string]string{"kept": "yes"},
	}}
	if annotation != nil {
		ns.Annotations[pod.InjectAnnotation] = *annotation
	}
	if label != nil {
		ns.Labels[labelKey] = *label
	}
	return ns
}

// The cases, which webhook and reconciler have to treat alike.
var cases = map[string]struct {
	namespace *corev1.Namespace
	scope     pod.Scope
	mistake   string
}{
	"never mentioned":              {namespace: namespace("a", nil, nil)},
	"annotated":                    {namespace: namespace("a", new("true"), nil), scope: pod.OwnedPods},
	"annotated for all pods":       {namespace: namespace("a", new("all"), nil), scope: pod.AllPods},
	"for all pods, label behind":   {namespace: namespace("a", new("all"), new("true")), scope: pod.AllPods},
	"no longer for all pods":       {namespace: namespace("a", new("true"), new("all")), scope: pod.OwnedPods},
	"annotated with nothing":       {namespace: namespace("a", new(""), new("true")), mistake: `"" is none of "true" (TaskRuns, Knative Revisions, and pods that ask), "all" (every pod) and "false"; to opt in: kubectl annotate --overwrite namespace a entrypointer.dev/inject=true`},
	"all of the cluster's own":     {namespace: namespace("kube-system", new("all"), nil), mistake: `opting namespace "kube-system" in`},
	"annotated and labelled":       {namespace: namespace("a", new("true"), new("true")), scope: pod.OwnedPods},
	"annotated, label changed":     {namespace: namespace("a", new("true"), new("false")), scope: pod.OwnedPods},
	"opted out":                    {namespace: namespace("a", new("false"), new("true"))},
	"annotation removed":           {namespace: namespace("a", nil, new("true"))},
	"annotated with something":     {namespace: namespace("a", new("yes"), new("true")), mistake: `"yes" is none of "true" (TaskRuns, Knative Revisions, and pods that ask), "all" (every pod) and "false"`},
	"the cluster's own namespace":  {namespace: namespace("kube-system", new("true"), nil), mistake: `opting namespace "kube-system" in`},
	"the injector's own namespace": {namespace: namespace(own, new("true"), new("true")), mistake: "annotate another namespace"},
}

func TestTheWebhookLetsTheLabelFollowTheAnnotation(t *testing.T) {
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			// Updated, with the annotation as it was: mistakes of old don't block the
			// namespace.
			response := admit(t, test.namespace, test.namespace)
			require.True(t, response.Allowed)
			requireLabel(t, patched(t, test.namespace, response), test.scope)
			if test.mistake == "" {
				require.Empty(t, response.Warnings)
				return
			}
			require.Contains(t, response.Warnings[0], test.mistake)

			refused := admit(t, test.namespace, nil)
			require.False(t, refused.Allowed, "a mistake is refused when it is made")
			require.Contains(t, refused.Result.Message, test.mistake)
		})
	}
}

func TestTheReconcilerRepairsTheLabel(t *testing.T) {
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, test.namespace)
			event := w.reconcile(test.namespace.Name)
			if test.mistake == "" {
				require.NoError(t, event)
			} else {
				requireWarning(t, event, "NotOptedIn", test.mistake)
			}
			requireLabel(t, w.namespace(test.namespace.Name), test.scope)
			require.Equal(t, test.scope != pod.NoPods, w.binding(test.namespace.Name) != nil, "the grant goes with the label")

			w.client.ClearActions()
			_ = w.reconcile(test.namespace.Name)
			require.Empty(t, w.writes(), "what is right is left alone")
		})
	}
}

// With the label, the API server would refuse the namespace's pods with an error of TLS.
func TestTheReconcilerSetsNoLabelBeforeAPIServersCanCallTheWebhookForPods(t *testing.T) {
	w := newWorld(t, namespace("new", new("true"), nil), namespace("old", new("true"), new("true")), namespace("out", nil, new("true")))
	w.uncallable = true
	requeue, _ := controller.IsRequeueKey(w.reconcile("new"))
	require.True(t, requeue, "it looks again")
	requireLabel(t, w.namespace("new"), pod.NoPods)
	require.NoError(t, w.reconcile("old"))
	requireLabel(t, w.namespace("old"), pod.OwnedPods)
	require.NoError(t, w.reconcile("out"), "whoever opts out doesn't wait")
	requireLabel(t, w.namespace("out"), pod.NoPods)
	w.uncallable = false
	require.NoError(t, w.reconcile("new"))
	requireLabel(t, w.namespace("new"), pod.OwnedPods)
}

func TestALabelThatIsChangedByHandIsPutRightWithTheCommandForTheAnnotation(t *testing.T) {
	const (
		follows = "; the label follows the annotation of that name; "
		optIn   = "removed it again" + follows + "to opt in: kubectl annotate --overwrite namespace a entrypointer.dev/inject=true"
		optOut  = `set it to "true" again` + follows + "to opt out: kubectl annotate namespace a entrypointer.dev/inject-"
	)
	plain := namespace("a", nil, nil)
	for what, test := range map[string]struct {
		before, now *corev1.Namespace
		says        string
	}{
		"on a new namespace":             {nil, namespace("a", nil, new("true")), optIn},
		"later":                          {plain, namespace("a", nil, new("true")), optIn},
		"for all pods":                   {plain, namespace("a", nil, new("all")), "removed it again" + follows + "to opt in: kubectl annotate --overwrite namespace a entrypointer.dev/inject=all"},
		"with another value":             {plain, namespace("a", nil, new("yes")), optIn},
		"on a namespace that opted out":  {namespace("a", new("false"), nil), namespace("a", new("false"), new("true")), optIn},
		"another value":                  {namespace("a", new("true"), new("true")), namespace("a", new("true"), new("false")), optOut},
		"another scope":                  {namespace("a", new("true"), new("true")), namespace("a", new("true"), new("all")), `set it to "true" again` + follows + "to change both: kubectl annotate --overwrite namespace a entrypointer.dev/inject=all"},
		"removed":                        {namespace("a", new("true"), new("true")), namespace("a", new("true"), nil), optOut},
		"it goes with the annotation":    {namespace("a", new("true"), new("true")), namespace("a", nil, new("true")), ""},
		"the webhook has set it already": {namespace("a", new("true"), new("true")), namespace("a", new("true"), new("true")), ""},
	} {
		t.Run(what, func(t *testing.T) {
			response := admit(t, test.now, test.before)
			require.True(t, response.Allowed)
			if test.says == "" {
				require.NotContains(t, strings.Join(response.Warnings, "\n"), "label")
				return
			}
			require.Equal(t, []string{"entrypointer: label entrypointer.dev/inject is managed by entrypointer, which has " + test.says}, response.Warnings)
		})
	}
}

func TestAMisspelledPrefixIsWarnedOfWhenItIsWritten(t *testing.T) {
	for key, warned := range map[string]bool{
		"entrypoint.dev/inject":                 true,
		"entrypointer.io/inject":                true,
		"entrypointer/inject":                   true,
		"entry-pointer.dev/inject":              true,
		"entrypointer.io/timeout":               true,
		"entrypoint-metrics.example.com/inject": false,
		"entrypoint.dev/path":                   false,
		"sidecar.istio.io/inject":               false,
	} {
		before, now := namespace("a", nil, nil), namespace("a", nil, nil)
		now.Annotations[key] = "true"
		response := admit(t, now, before)
		require.True(t, response.Allowed)
		if !warned {
			require.Empty(t, response.Warnings, key)
			continue
		}
		_, name, _ := strings.Cut(key, "/")
		require.Equal(t, []string{"entrypointer: annotation " + key + ` is unknown and has no effect; did you mean "entrypointer.dev/` + name + `"?`}, response.Warnings)
		require.Empty(t, admit(t, now, now).Warnings, "a later write")
	}
	labelled := namespace("a", nil, nil)
	labelled.Labels["entrypoint.dev/inject"] = "true"
	require.Equal(t, []string{`entrypointer: label entrypoint.dev/inject is unknown and has no effect; did you mean the annotation "entrypointer.dev/inject"?`},
		admit(t, labelled, namespace("a", nil, nil)).Warnings)
}

func TestANamespaceThatOptsInOrOutIsToldWhichPodsThatChanges(t *testing.T) {
	const (
		ask     = "another pod asks by its own annotation entrypointer.dev/inject: \"true\""
		exist   = "stay as they are; to replace those of Deployments: kubectl -n a rollout restart deployment"
		asking  = "stay as they are; to replace those of Deployments whose templates ask: kubectl -n a rollout restart deployment"
		wrapped = "stay wrapped; to replace those of Deployments: kubectl -n a rollout restart deployment"
	)
	plain, owned, all := namespace("a", nil, nil), namespace("a", new("true"), new("true")), namespace("a", new("all"), new("all"))
	for what, test := range map[string]struct {
		before *corev1.Namespace
		value  string
		says   []string
	}{
		"opts in":                           {plain, "true", []string{ask, asking}},
		"is created":                        {nil, "true", []string{ask}},
		"opts in for all pods":              {plain, "all", []string{exist}},
		"is created for all pods":           {nil, "all", nil},
		"opts in for all pods later":        {owned, "all", []string{exist}},
		"no longer opts in for all pods":    {all, "true", []string{ask, exist}},
		"is written without a change":       {owned, "true", nil},
		"opts out":                          {owned, "false", []string{wrapped}},
		"opts out for all pods":             {all, "false", []string{wrapped}},
		"opted out, and opts in":            {namespace("a", new("false"), nil), "true", []string{ask, asking}},
		"corrects a mistake, and stays out": {namespace("a", new("yes"), nil), "false", nil},
		"corrects a mistake, and opts in":   {namespace("a", new("yes"), nil), "true", []string{ask, asking}},
	} {
		t.Run(what, func(t *testing.T) {
			now := plain.DeepCopy()
			if test.before != nil {
				now = test.before.DeepCopy()
			}
			now.Annotations[pod.InjectAnnotation] = test.value
			response := admit(t, now, test.before)
			require.True(t, response.Allowed)
			require.Len(t, response.Warnings, len(test.says))
			for at, says := range test.says {
				require.Contains(t, response.Warnings[at], says)
			}
		})
	}
}

func TestANamespaceWithoutANameYetIsToldThePlaceOfTheName(t *testing.T) {
	unnamed := namespace("", new("true"), nil)
	unnamed.GenerateName = "team-"
	response := admit(t, unnamed, nil)
	require.True(t, response.Allowed)
	require.Len(t, response.Warnings, 1)
	require.Contains(t, response.Warnings[0], "kubectl annotate --overwrite namespace NAMESPACE entrypointer.dev/inject=all")
}

func TestAnOptionThatIsWrongIsRefusedWhenItIsWritten(t *testing.T) {
	good, bad := namespace("a", new("true"), new("true")), namespace("a", new("true"), new("true"))
	good.Annotations["entrypointer.dev/timeout"] = "1h"
	bad.Annotations["entrypointer.dev/timeout"] = "1"
	require.True(t, admit(t, good, bad).Allowed)
	refused := admit(t, bad, good)
	require.False(t, refused.Allowed)
	require.Contains(t, refused.Result.Message, `reading the annotations of namespace "a": option entrypointer.dev/timeout: "1" is wrong; it can be a duration`)

	old := admit(t, bad, bad)
	require.True(t, old.Allowed, "a mistake of old doesn't block the namespace")
	require.Contains(t, old.Warnings[0], "option entrypointer.dev/timeout")
	require.Contains(t, old.Warnings[0], "until then, its pods are refused")

	out := namespace("a", nil, nil)
	out.Annotations = map[string]string{"entrypointer.dev/timeout": "1"}
	in := namespace("a", new("true"), nil)
	in.Annotations["entrypointer.dev/timeout"] = "1"
	require.True(t, admit(t, out, out).Allowed)
	require.False(t, admit(t, in, out).Allowed, "nobody opts in with a mistake")
}

func TestAnUnknownDeliveryIsRefusedWhenItIsWritten(t *testing.T) {
	good, bad := namespace("a", new("true"), new("true")), namespace("a", new("true"), new("true"))
	good.Annotations["entrypointer.dev/delivery"] = "image-volume"
	bad.Annotations["entrypointer.dev/delivery"] = "sidecar"
	written := admit(t, good, bad)
	require.True(t, written.Allowed)
	require.Empty(t, written.Warnings)
	refused := admit(t, bad, good)
	require.False(t, refused.Allowed)
	require.Contains(t, refused.Result.Message, `reading the annotations of namespace "a": annotation entrypointer.dev/delivery: "sidecar" is none of ["init-container"`)

	old := admit(t, bad, bad)
	require.True(t, old.Allowed, "what a later release took doesn't block the namespace")
	require.Contains(t, old.Warnings[0], "with another value, the operator's configuration counts")
}

func TestAnAnnotationThatDoesNothingForANamespaceIsWarnedOf(t *testing.T) {
	for key, says := range map[string]string{
		"entrypointer.dev/injekt":         "entrypointer.dev/injekt is unknown and has no effect",
		"tiemout.entrypointer.dev/step-a": "tiemout.entrypointer.dev/step-a is unknown",
		"entrypointer.dev/containers":     "has no effect on a namespace: it is for pods",
		"timeout.entrypointer.dev/step-a": "has no effect on a namespace: it is for pods",
		"entrypointer.dev/timeout":        "",
		"notentrypointer.dev/injekt":      "",
		"entrypointer.development/injekt": "",
	} {
		ns := namespace("a", nil, nil)
		ns.Annotations = map[string]string{key: "5s"}
		response := admit(t, ns, nil)
		require.True(t, response.Allowed, key)
		if says == "" {
			require.Empty(t, response.Warnings, key)
			continue
		}
		require.Len(t, response.Warnings, 1, key)
		require.Contains(t, response.Warnings[0], says)
	}
}

// configured stands for a ConfigMap.
type configured config.Config

func (c configured) Load() *config.Config { return (*config.Config)(&c) }

var tools = []pod.Tool{{Name: "ni", Image: "registry.example/ni@sha256:" + strings.Repeat("6", 64), Path: "/ko-app/ni"}}

// The operator may offer it later, so it is no mistake.
func TestAToolThatIsNotOfferedIsWarnedOfWhenANamespaceAsks(t *testing.T) {
	asking := func(value string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "tenant", Annotations: map[string]string{
			pod.InjectAnnotation: "true", "entrypointer.dev/tools": value,
		}}}
	}
	response := admit(t, asking("ni, nii"), asking(""))
	require.True(t, response.Allowed)
	require.Equal(t, []string{`entrypointer: reading annotation entrypointer.dev/tools of namespace "tenant": there is no tool "nii"; the operator of entrypointer offers ni; until then, its pods run without it`}, response.Warnings)
	require.Empty(t, admit(t, asking("ni"), asking("")).Warnings)
	response = admit(t, asking("/ni"), asking(""))
	require.False(t, response.Allowed, "what can't be a name is a mistake")
}

// The operator may install it later, so it is no mistake.
func TestADeliveryThatNeedsAPartThatIsNotInstalledIsWarnedOf(t *testing.T) {
	here, gone := func() bool { return false }, func() bool { return true }
	for name, test := range map[string]struct {
		asks, inject string
		auto, claims func() bool
		want         []string
	}{
		"auto":                     {"auto", "true", gone, here, []string{`entrypointer: annotation entrypointer.dev/delivery: auto has no effect on namespace "tenant" until config/auto is installed: its pods get an init container; have the operator of entrypointer run: ko apply -f config/auto`}},
		"auto, installed":          {"auto", "true", here, gone, nil},
		"claim":                    {"claim", "true", here, gone, []string{`entrypointer: annotation entrypointer.dev/delivery: claim has no effect on namespace "tenant" until config/claims is installed: its pods get an init container; have the operator of entrypointer run: ko apply -f config/claims`}},
		"claim, installed":         {"claim", "true", gone, here, nil},
		"one that needs no part":   {"image-volume", "true", gone, gone, nil},
		"none":                     {"", "true", gone, gone, nil},
		"auto, of one that is out": {"auto", "false", gone, gone, nil},
	} {
		t.Run(name, func(t *testing.T) {
			before := namespace("tenant", new(test.inject), nil)
			ns := before.DeepCopy()
			if test.asks != "" {
				ns.Annotations[pod.DeliveryAnnotation] = test.asks
			}
			labels := newLabelAdmission()
			labels.parts = map[pod.Delivery]Part{pod.DeliveryAuto: {"config/auto", test.auto}, pod.DeliveryClaim: {"config/claims", test.claims}}
			response := labels.admit(t.Context(), writing(t, ns, before))
			require.True(t, response.Allowed)
			require.Equal(t, test.want, response.Warnings)
		})
	}
}

func TestANamespaceWithoutLabelsGetsItsFirst(t *testing.T) {
	bare := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a", Annotations: map[string]string{pod.InjectAnnotation: "true"}}}
	require.Equal(t, map[string]string{labelKey: "true"}, patched(t, bare, admit(t, bare, nil)).Labels)
}

func TestAnObjectThatIsNoNamespaceIsRefused(t *testing.T) {
	labels := &labelAdmission{rule: newRule(own), config: configured{}}
	request := &admissionv1.AdmissionRequest{}
	request.Object.Raw = []byte("[]")
	require.False(t, labels.admit(t.Context(), request).Allowed)
}

func admit(t *testing.T, now, before *corev1.Namespace) *admissionv1.AdmissionResponse {
	t.Helper()
	return newLabelAdmission().admit(t.Context(), writing(t, now, before))
}

func newLabelAdmission() *labelAdmission {
	return &labelAdmission{rule: newRule(own), config: configured{Tools: tools}}
}

func writing(t *testing.T, now, before *corev1.Namespace) *admissionv1.AdmissionRequest {
	t.Helper()
	request := &admissionv1.AdmissionRequest{Operation: admissionv1.Create}
	request.Object.Raw = encode(t, now)
	if before != nil {
		request.Operation = admissionv1.Update
		request.OldObject.Raw = encode(t, before)
	}
	return request
}

func patched(t *testing.T, ns *corev1.Namespace, response *admissionv1.AdmissionResponse) *corev1.Namespace {
	t.Helper()
	if response.Patch == nil {
		return ns
	}
	patch, err := jsonpatch.DecodePatch(response.Patch)
	require.NoError(t, err)
	document, err := patch.Apply(encode(t, ns))
	require.NoError(t, err)
	var after corev1.Namespace
	require.NoError(t, json.Unmarshal(document, &after))
	return &after
}

func requireLabel(t *testing.T, ns *corev1.Namespace, want pod.Scope) {
	t.Helper()
	value, set := ns.Labels[labelKey]
	require.Equal(t, want != pod.NoPods, set)
	require.Equal(t, string(want), value)
	require.Equal(t, "yes", ns.Labels["kept"])
}

func encode(t *testing.T, object any) []byte {
	t.Helper()
	encoded, err := json.Marshal(object)
	require.NoError(t, err)
	return encoded
}
