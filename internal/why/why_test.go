// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package why_test

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/internal/objects/objectstest"
	"github.com/entrypointer/entrypointer/internal/target"
	"github.com/entrypointer/entrypointer/internal/why"
	"github.com/entrypointer/entrypointer/pkg/lookup"
	"github.com/entrypointer/entrypointer/pkg/pod"
	"github.com/entrypointer/entrypointer/test/jsonschema"
	"github.com/entrypointer/entrypointer/test/markdown"
)

var update = flag.Bool("update", false, "write golden files and docs/cli.md instead of comparing with them")

var (
	now      = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	optedIn  = now.Add(-time.Hour)
	tomorrow = now.Add(24 * time.Hour)
)

// An apiServer stands in for the real one, because some of its answers need an injector that
// is down, an operator's configuration or a node of Windows. test/e2e asks the real one.
type apiServer struct {
	namespace *corev1.Namespace // nil if the user may not read it
	operators map[string]string // the injector's configuration, nil if the user may not read it
	pods      []corev1.Pod
	// admit decides on a new pod: an error is the text of a refusal.
	admit      func(*corev1.Pod) error
	code       int // of a refusal
	paged      bool
	mayNotList bool
	warnings   []string
	objects    map[string]any // by path
	requests   []string
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.requests = append(s.requests, r.Method+" "+r.URL.Path)
	answer := func(object any) { objectstest.Respond(w, object) }
	switch object, known := s.objects[r.URL.Path]; {
	case known:
		answer(object)
	case strings.HasSuffix(r.URL.Path, "/configmaps/config-entrypointer") && s.operators != nil:
		answer(corev1.ConfigMap{Data: s.operators})
	case strings.HasSuffix(r.URL.Path, "/configmaps/config-entrypointer"):
		objectstest.Refuse(w, http.StatusForbidden, "no")
	case r.URL.Path == "/api/v1/namespaces/tenant" && s.namespace == nil:
		objectstest.Refuse(w, http.StatusForbidden, `namespaces "tenant" is forbidden: User "jane" cannot get resource "namespaces"`)
	case r.URL.Path == "/api/v1/namespaces/tenant":
		answer(s.namespace)
	case r.Method == http.MethodGet && r.URL.Path == "/api/v1/namespaces/tenant/pods":
		list := corev1.PodList{Items: s.pods}
		switch {
		case s.mayNotList:
			objectstest.Refuse(w, http.StatusForbidden, "no")
			return
		case s.paged && r.URL.Query().Get("continue") == "":
			list.Items, list.Continue = s.pods[:1], "second"
		case s.paged:
			list.Items = s.pods[1:]
		}
		answer(list)
	case r.Method == http.MethodPost && r.URL.Query().Get("dryRun") == "All":
		var p corev1.Pod
		if body, err := io.ReadAll(r.Body); err != nil || json.Unmarshal(body, &p) != nil {
			objectstest.Refuse(w, http.StatusBadRequest, "no pod")
			return
		}
		if err := s.admit(&p); err != nil {
			objectstest.Refuse(w, s.code, err.Error())
			return
		}
		for _, text := range s.warnings {
			w.Header().Add("Warning", fmt.Sprintf("299 - %q", text))
		}
		p.CreationTimestamp = metav1.NewTime(tomorrow)
		answer(p)
	default:
		objectstest.Refuse(w, http.StatusNotFound, r.URL.Path+" not found")
	}
}

func (s *apiServer) cluster(t *testing.T) *why.Cluster {
	t.Helper()
	return &why.Cluster{Client: objectstest.Client(t, "tenant", s)}
}

// injecting admits pods as an injector of this release does.
func injecting(injector *pod.Injector) func(*corev1.Pod) error {
	injector.CopierImage = "registry.example.test/copier@sha256:" + strings.Repeat("1", 64)
	return func(p *corev1.Pod) error {
		result, err := injector.Inject(context.Background(), "tenant", p)
		if err != nil {
			return fmt.Errorf(`admission webhook "pods.entrypointer.dev" denied the request: %w`, err)
		}
		*p = *result.Pod
		return nil
	}
}

// explaining admits pods as an injector does, and explains what a tenant can't know.
func explaining(injector *pod.Injector) func(*corev1.Pod) error {
	admit := injecting(injector)
	return func(p *corev1.Pod) error {
		before := p.DeepCopy()
		if err := admit(p); err != nil || before.Annotations[pod.ExplainAnnotation] == "" {
			return err
		}
		_, explanations, err := injector.Explain("tenant", before)
		if err != nil {
			return err
		}
		explained, err := pod.WithExplanation(p, explanations)
		*p = *explained
		return err
	}
}

// nowhere finds no image.
type nowhere struct{}

func (nowhere) Lookup(_ context.Context, q lookup.Query) (*lookup.Image, error) {
	return nil, &lookup.Error{Query: q, Reason: lookup.NotFound, Err: os.ErrNotExist}
}

// somewhere finds each image.
type somewhere struct{}

func (somewhere) Lookup(_ context.Context, q lookup.Query) (*lookup.Image, error) {
	digest := "sha256:" + strings.Repeat("2", 64)
	return &lookup.Image{Digest: digest, Pinned: q.Image + "@" + digest, Configs: []lookup.Config{{Entrypoint: []string{"serve"}}}}, nil
}

// asked is a Deployment's pod template with these annotations.
func asked(annotations map[string]string, containers ...corev1.Container) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}, Annotations: annotations},
		Spec:       corev1.PodSpec{Containers: containers},
	}
}

func container(name string) corev1.Container {
	return corev1.Container{Name: name, Image: "busybox", Command: []string{"serve"}}
}

// existing is a pod of a template and a ReplicaSet that was admitted as it is.
func existing(template corev1.PodTemplateSpec, age time.Duration, admit func(*corev1.Pod) error) corev1.Pod {
	p := corev1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
	if admit != nil && admit(&p) != nil {
		panic("the pod is refused")
	}
	p.Name, p.CreationTimestamp = "web-1", metav1.NewTime(now.Add(-age))
	p = controlledBy("ReplicaSet", p)
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "web", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	return p
}

func evicted(p corev1.Pod) corev1.Pod {
	p.Name, p.Status.Phase = "evicted", corev1.PodFailed
	return p
}

func tenant(annotation, label string) *corev1.Namespace {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "tenant", Annotations: map[string]string{}, Labels: map[string]string{}}}
	if annotation != "" {
		namespace.Annotations[pod.InjectAnnotation] = annotation
		fields := &metav1.FieldsV1{}
		fields.SetRawBytes([]byte(`{"f:metadata":{"f:annotations":{"f:entrypointer.dev/inject":{}}}}`))
		namespace.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl", Time: new(metav1.NewTime(optedIn)), FieldsV1: fields}}
	}
	if label != "" {
		namespace.Labels[pod.InjectAnnotation] = label
	}
	return namespace
}

// asks is the annotation of a pod that asks.
var asks = map[string]string{pod.InjectAnnotation: "true"}

// story is one state of a cluster, and what is said of deployment/web.
type story struct {
	server   apiServer
	template corev1.PodTemplateSpec
}

func stories() map[string]story {
	web := asked(nil, container("web"))
	asking := asked(asks, container("web"), container("istio-proxy"))
	as := func(annotations map[string]string) corev1.PodTemplateSpec {
		return asked(annotations, container("web"))
	}
	admitted := func(*corev1.Pod) error { return nil }
	says := func(text string) func(*corev1.Pod) error {
		return func(*corev1.Pod) error { return fmt.Errorf("%s", text) }
	}
	in := tenant("true", "true")
	within := tenant("true", "true")
	within.Annotations["entrypointer.dev/timeout"] = "1h"
	plain := injecting(&pod.Injector{})
	meshed := &pod.Injector{Policy: pod.Policy{Proxies: []string{"mesh"}}, Defaults: []pod.Defaults{{Source: "as the operator has it by default", Values: map[string]string{"timeout": "2h"}}}}
	looked := asked(asks, corev1.Container{Name: "web", Image: "busybox"}, container("work"))
	return map[string]story{
		"wrapped":               {apiServer{namespace: within, admit: plain, pods: []corev1.Pod{existing(asking, time.Minute, plain)}}, asking},
		"wrapped-differently":   {apiServer{namespace: within, admit: injecting(&pod.Injector{Defaults: []pod.Defaults{pod.NamespaceDefaults("tenant", within.Annotations)}}), pods: []corev1.Pod{existing(asking, time.Minute, plain)}}, asking},
		"namespace-not-opted":   {apiServer{namespace: tenant("", ""), admit: admitted, pods: []corev1.Pod{existing(web, time.Minute, nil)}}, asking},
		"label-missing":         {apiServer{namespace: tenant("true", ""), code: http.StatusForbidden, admit: says(`pods "web-" is forbidden: ValidatingAdmissionPolicy 'unwrapped.entrypointer.dev' denied request: the pod would run without its supervisor: namespace "tenant" is annotated`)}, asking},
		"injector-down-taskrun": {apiServer{namespace: in, code: http.StatusForbidden, admit: says(`pods "web-" is forbidden: ValidatingAdmissionPolicy 'undecided.entrypointer.dev' with binding 'undecided.entrypointer.dev' denied request: the injector doesn't respond, and hasn't decided on this pod`)}, asking},
		"namespace-opted-out":   {apiServer{namespace: tenant("false", ""), admit: admitted}, asking},
		"namespace-excluded":    {apiServer{namespace: func() *corev1.Namespace { n := tenant("", ""); n.Name = metav1.NamespaceSystem; return n }(), admit: admitted}, asking},
		"older-and-refused":     {apiServer{namespace: in, code: http.StatusInternalServerError, admit: says(`Internal error occurred: failed calling webhook "pods.entrypointer.dev": failed to call webhook`), pods: []corev1.Pod{existing(web, 2*time.Hour, nil)}}, asking},
		"quotes-an-error":       {apiServer{namespace: in, code: http.StatusForbidden, admit: injecting(&pod.Injector{})}, as(map[string]string{pod.InjectAnnotation: "true", "entrypointer.dev/timeout": "cannot create resource"})},
		"forges-a-line":         {apiServer{namespace: in, admit: plain}, as(map[string]string{pod.InjectAnnotation: "true", "entrypointer.dev/pause": "before-start\n  after-failure"})},
		"unknown-proxy":         {apiServer{namespace: in, admit: injecting(&pod.Injector{Policy: pod.Policy{Proxies: []string{"mesh"}}})}, asked(asks, container("web"), container("mesh"))},
		"explained-to-a-tenant": {apiServer{namespace: in, admit: explaining(meshed), pods: []corev1.Pod{existing(asked(asks, container("web"), container("mesh")), time.Minute, explaining(meshed))}}, asked(map[string]string{pod.InjectAnnotation: "true", pod.ExplanationAnnotation: "forged"}, container("web"), container("mesh"))},
		"two-pages":             {apiServer{namespace: in, admit: plain, pods: []corev1.Pod{existing(asking, time.Minute, plain), existing(web, time.Hour, nil)}, paged: true}, asking},
		"may-not-list":          {apiServer{namespace: in, admit: plain, mayNotList: true}, asking},
		"evicted":               {apiServer{namespace: in, admit: plain, pods: []corev1.Pod{evicted(existing(web, 2*time.Hour, nil)), existing(asking, time.Minute, plain)}}, asking},
		"does-not-ask":          {apiServer{namespace: in, admit: plain, pods: []corev1.Pod{existing(web, 2*time.Hour, nil), existing(web, time.Minute, nil)}}, web},
		"older":                 {apiServer{namespace: in, admit: plain, pods: []corev1.Pod{existing(web, 2*time.Hour, nil)}}, asking},
		"not-ours":              {apiServer{namespace: in, admit: plain}, as(map[string]string{"entrypointer.dev/timeout": "1h"})},
		"opted-out":             {apiServer{namespace: in, admit: plain}, as(map[string]string{pod.InjectAnnotation: "false"})},
		"not-selected":          {apiServer{namespace: in, admit: injecting(&pod.Injector{Policy: pod.Policy{Owners: []pod.Owner{pod.Tekton}}})}, asking},
		"nothing-to-wrap":       {apiServer{namespace: in, admit: plain}, asked(asks, container("istio-proxy"))},
		"partly":                {apiServer{namespace: in, admit: injecting(&pod.Injector{Policy: pod.Policy{WaiveFailedLookups: true}, Lookup: nowhere{}})}, looked},
		"lookup-waived":         {apiServer{namespace: in, admit: injecting(&pod.Injector{Policy: pod.Policy{WaiveFailedLookups: true}, Lookup: nowhere{}})}, asked(asks, corev1.Container{Name: "web", Image: "busybox"})},
		"windows": {apiServer{namespace: in, admit: plain}, func() corev1.PodTemplateSpec {
			w := as(asks)
			w.Spec.OS = &corev1.PodOS{Name: corev1.Windows}
			return w
		}()},
		"mirror-pod":           {apiServer{namespace: in, admit: plain}, as(map[string]string{pod.InjectAnnotation: "true", corev1.MirrorPodAnnotationKey: "x"})},
		"refused":              {apiServer{namespace: in, code: http.StatusForbidden, admit: injecting(&pod.Injector{})}, as(map[string]string{pod.InjectAnnotation: "true", "entrypointer.dev/timeout": "10 minutes"})},
		"injector-down":        {apiServer{namespace: in, code: http.StatusInternalServerError, admit: says(`Internal error occurred: failed calling webhook "pods.entrypointer.dev": failed to call webhook: connection refused`)}, asking},
		"refused-by-another":   {apiServer{namespace: in, code: http.StatusForbidden, admit: says(`pods "web-" is forbidden: exceeded quota: small`)}, asking},
		"unexplained":          {apiServer{admit: admitted}, web},
		"may-not-create":       {apiServer{namespace: in, code: http.StatusForbidden, admit: says(`pods is forbidden: User "jane" cannot create resource "pods" in API group "" in the namespace "tenant"`), pods: []corev1.Pod{existing(asking, time.Minute, plain)}}, asking},
		"warned":               {apiServer{namespace: in, admit: plain, warnings: []string{"entrypointer: annotation entrypointer.dev/tiemout is unknown and has no effect"}}, asking},
		"status-of-the-future": {apiServer{namespace: in, admit: func(p *corev1.Pod) error { p.Annotations[pod.StatusAnnotation] = "Teleported: far"; return nil }}, asking},
		"operators-default":    {apiServer{namespace: in, operators: map[string]string{"defaults": "timeout: 2h", "proxy-containers": "", "delivery": "nowhere"}, admit: injecting(&pod.Injector{Policy: pod.Policy{Proxies: []string{}}, Defaults: []pod.Defaults{{Source: "x", Values: map[string]string{"timeout": "2h"}}}})}, asking},
		"hostile":              {apiServer{namespace: in, code: http.StatusForbidden, admit: says("admission webhook \"pods.entrypointer.dev\" denied the request: \x1b[2Jgone")}, asking},
	}
}

// TestEachAnswer has each reason once, as a person reads it.
func TestEachAnswer(t *testing.T) {
	for name, s := range stories() {
		t.Run(name, func(t *testing.T) {
			s.server.objects = map[string]any{"/apis/apps/v1/namespaces/tenant/deployments/web": map[string]any{
				"kind": "Deployment", "metadata": map[string]any{"name": "web", "uid": "u"},
				"spec": map[string]any{"selector": map[string]any{"matchLabels": map[string]string{"app": "web"}}, "template": s.template},
			}}
			web, err := target.Parse("deploy/web", target.All())
			require.NoError(t, err)
			answer, err := s.server.cluster(t).Ask(t.Context(), web)
			require.NoError(t, err)
			var text strings.Builder
			require.NoError(t, answer.Print(&text, now, false))
			requireGolden(t, name+".txt", text.String())
			require.NoError(t, jsonschema.CheckValue("../../docs/cli.schema.json", "why", why.Answers{Answers: []*why.Answer{answer}}))
			require.LessOrEqual(t, len(s.server.requests), 7, "as few requests as the question needs")
			wrapped := []string{"wrapped", "wrapped-differently", "warned", "may-not-create", "may-not-list", "operators-default", "forges-a-line", "unknown-proxy", "evicted", "explained-to-a-tenant"}
			require.Equal(t, slices.Contains(wrapped, name), answer.IsWrapped())
			require.Equal(t, name == "may-not-list", answer.IsUnknown())
			require.Equal(t, answer.IsWrapped() && !answer.IsUnknown(), answer.Wrapped)
		})
	}
}

// A pod that is created now tells from where its commands come, and one that exists doesn't.
func TestAWideAnswerHasImagesTheOriginsOfCommandsAndDefaults(t *testing.T) {
	admit := injecting(&pod.Injector{Lookup: somewhere{}})
	template := asked(map[string]string{pod.InjectAnnotation: "true", "timeout.entrypointer.dev/web": "1h"}, container("web"), corev1.Container{Name: "cache", Image: "redis"}, container("istio-proxy"))
	s := &apiServer{namespace: tenant("true", "true"), admit: admit, pods: []corev1.Pod{existing(template, time.Minute, admit)}}
	answer := s.asks(t, "deploy/web", "/apis/apps/v1/namespaces/tenant/deployments/web", map[string]any{
		"metadata": map[string]any{"name": "web", "uid": "u"}, "spec": map[string]any{"selector": map[string]any{"matchLabels": map[string]string{"app": "web"}}, "template": template},
	})
	cache := &answer.Now.Containers[1]
	cache.Options = append(cache.Options, why.Option{Name: "hand-off", Value: "true"}) // as steps have it
	var text strings.Builder
	require.NoError(t, answer.Print(&text, now, true))
	requireGolden(t, "wide.txt", text.String())
}

func requireGolden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
		return
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err, "run the test with -update to write it")
	require.Equal(t, string(want), got, "run the test with -update if the change is meant")
}

// TestEachReasonIsTold compares the table of docs/cli.md with the reasons, each of which the
// stories produce.
func TestEachReasonIsTold(t *testing.T) {
	const page = "../../docs/cli.md"
	table := why.Table()
	if *update {
		require.NoError(t, markdown.ReplaceSection(page, "answers", table))
	}
	written, err := markdown.Section(page, "answers")
	require.NoError(t, err)
	require.Equal(t, table, written, "go test ./internal/why -update writes it")

	var all strings.Builder
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		all.Write(text)
	}
	for reason, is := range why.Meanings() {
		require.Contains(t, all.String(), " "+is+".", "no story has the reason %s", reason)
	}
}

// asks returns the answer about an object.
func (s *apiServer) asks(t *testing.T, named, path string, object any) *why.Answer {
	t.Helper()
	s.objects = map[string]any{path: object}
	parsed, err := target.Parse(named, target.All())
	require.NoError(t, err)
	answer, err := s.cluster(t).Ask(t.Context(), parsed)
	require.NoError(t, err)
	return answer
}

// A pod that is wrapped is tried as it is; what the injector says now counts.
func TestAPodThatIsWrappedMayNotBeAnyMore(t *testing.T) {
	template := asked(asks, container("web"))
	p := existing(template, time.Minute, injecting(&pod.Injector{}))
	s := &apiServer{namespace: tenant("true", "true"), admit: injecting(&pod.Injector{Policy: pod.Policy{Owners: []pod.Owner{pod.Tekton}}})}
	answer := s.asks(t, "pod/web-1", "/api/v1/namespaces/tenant/pods/web-1", p)
	require.Equal(t, why.Reason(pod.NotSelected), answer.Now.Reason)
	require.Equal(t, why.Reason(pod.Injected), answer.Pods[0].Reason)
	require.False(t, answer.IsWrapped())
}

func TestAnnotationsBesideTheTemplateAreWarnedOf(t *testing.T) {
	s := &apiServer{namespace: tenant("true", "true"), admit: injecting(&pod.Injector{})}
	answer := s.asks(t, "deploy/web", "/apis/apps/v1/namespaces/tenant/deployments/web", map[string]any{
		"metadata": map[string]any{"name": "web", "annotations": asks}, "spec": map[string]any{"template": asked(nil, container("web"))},
	})
	require.Equal(t, []string{"deployment/web itself has annotations of entrypointer, which have no effect there: they belong into the metadata of its pod template"}, answer.Now.Warnings)
}

func TestAStaticPodIsNotTried(t *testing.T) {
	p := existing(asked(map[string]string{corev1.MirrorPodAnnotationKey: "x"}, container("web")), time.Minute, nil)
	s := &apiServer{namespace: tenant("true", "true")}
	answer := s.asks(t, "pod/web-1", "/api/v1/namespaces/tenant/pods/web-1", p)
	require.Nil(t, answer.Now)
	require.Equal(t, why.Reason(pod.MirrorPod), answer.Pods[0].Reason)
}

// Not every controller replaces its pods when it is told to restart them.
func TestTheNextCommandIsOneThatWorks(t *testing.T) {
	template := asked(asks, container("web"))
	for named, test := range map[string]struct {
		kind, owner string
		path        string
		spec        map[string]any
		want        string
	}{
		"deploy/web": {"ReplicaSet", "web-1", "/apis/apps/v1/namespaces/tenant/deployments/web", map[string]any{}, "kubectl -n tenant rollout restart deployment/web"},
		"deploy/w":   {"ReplicaSet", "w-1", "/apis/apps/v1/namespaces/tenant/deployments/w", map[string]any{"paused": true}, "kubectl -n tenant rollout resume deployment/w"},
		"sts/web":    {"StatefulSet", "web", "/apis/apps/v1/namespaces/tenant/statefulsets/web", map[string]any{"updateStrategy": map[string]any{"type": "OnDelete"}}, "kubectl -n tenant delete pod web-1"},
		"ds/web":     {"DaemonSet", "web", "/apis/apps/v1/namespaces/tenant/daemonsets/web", map[string]any{"updateStrategy": map[string]any{"type": "RollingUpdate"}}, "kubectl -n tenant rollout restart daemonset/web"},
		"job/web":    {"Job", "web", "/apis/batch/v1/namespaces/tenant/jobs/web", map[string]any{}, ""},
	} {
		s := &apiServer{namespace: tenant("true", "true"), admit: injecting(&pod.Injector{}), pods: []corev1.Pod{ownedBy(test.kind, test.owner, existing(template, 2*time.Hour, nil))}}
		test.spec["template"], test.spec["selector"] = template, map[string]any{"matchLabels": template.Labels}
		answer := s.asks(t, named, test.path, map[string]any{"metadata": map[string]any{"name": "web"}, "spec": test.spec})
		require.Equal(t, why.OlderThanOptIn, answer.Pods[0].Reason)
		require.Equal(t, test.want, answer.Pods[0].Next, named)
	}
}

// controlledBy is a pod of a controller of a kind.
func controlledBy(kind string, p corev1.Pod) corev1.Pod {
	return ownedBy(kind, map[string]string{"ReplicaSet": "web-7d4b9"}[kind], p)
}

// ownedBy is a pod of a controller, which is called x unless it has a name.
func ownedBy(kind, name string, p corev1.Pod) corev1.Pod {
	p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: cmp.Or(name, "x"), Controller: new(true)}}
	return p
}

// bare is a pod without a controller.
func bare(p corev1.Pod) corev1.Pod {
	p.OwnerReferences = nil
	return p
}

// endedAs is a pod that has ended.
func endedAs(p corev1.Pod) corev1.Pod {
	p.Status.Phase = corev1.PodSucceeded
	return p
}

// Each object is asked about as it is, unwrapped, in a namespace that opted in or not.
func TestTheAdviceFitsTheObject(t *testing.T) {
	const patch = `kubectl -n tenant patch deployment/x -p '{"spec":{"template":{"metadata":{"annotations":{"entrypointer.dev/inject":"true"}}}}}'`
	const cron = `kubectl -n tenant patch cronjob/x -p '{"spec":{"jobTemplate":{"spec":{"template":{"metadata":{"annotations":{"entrypointer.dev/inject":"true"}}}}}}}'`
	const both = "annotate the namespace with `all`, or with `true`, and the pod template as well"
	const annotate = "kubectl annotate --overwrite namespace tenant entrypointer.dev/inject="
	silent, asking := asked(nil, container("web")), asked(asks, container("web"))
	old := existing(asking, 2*time.Hour, nil)
	step := existing(silent, 2*time.Hour, nil)
	step.Labels = map[string]string{"tekton.dev/taskRun": "x"}
	step.Spec.Containers[0].Name = "step-a"
	for name, test := range map[string]struct {
		named    string
		path     string
		template corev1.PodTemplateSpec
		pods     []corev1.Pod // the target itself, for a pod
		opted    bool
		do, next string // for the pod that exists, or else a new one
		wrapped  bool
	}{
		"a Deployment in a namespace that doesn't opt in": {"deploy/x", "/apis/apps/v1/namespaces/tenant/deployments/x", silent, nil, false, both, annotate + "true && " + patch, false},
		"a Deployment that asks there":                    {"deploy/x", "/apis/apps/v1/namespaces/tenant/deployments/x", asking, nil, false, "annotate the namespace with `true` or `all`", annotate + "true", false},
		"a Job there":                                     {"job/x", "/apis/batch/v1/namespaces/tenant/jobs/x", silent, nil, false, both, annotate + "all", false},
		"a bare pod there":                                {"pod/web-1", "/api/v1/namespaces/tenant/pods/web-1", silent, []corev1.Pod{bare(existing(silent, time.Minute, nil))}, false, strings.Replace(both, "the pod template", "the pod", 1), annotate + "all", false},
		"a TaskRun there, which needn't ask":              {"tr/x", "/apis/tekton.dev/v1/namespaces/tenant/taskruns/x", silent, []corev1.Pod{controlledBy("TaskRun", step)}, false, "annotate the namespace with `true` or `all`", annotate + "true", false},
		"a CronJob":                                       {"cj/x", "/apis/batch/v1/namespaces/tenant/cronjobs/x", silent, nil, true, "annotate the pod template, or the namespace with `all`", cron, false},
		"a Job":                                           {"job/x", "/apis/batch/v1/namespaces/tenant/jobs/x", silent, nil, true, "annotate the pod template, or the namespace with `all`; a Job keeps its template, so replace it (kubectl replace --force -f FILE)", "", false},
		"a bare pod":                                      {"pod/web-1", "/api/v1/namespaces/tenant/pods/web-1", silent, []corev1.Pod{bare(existing(silent, time.Minute, nil))}, true, "annotate the pod, or the namespace with `all`, and create it anew", "", false},
		"an older bare pod":                               {"pod/web-1", "/api/v1/namespaces/tenant/pods/web-1", asking, []corev1.Pod{bare(old)}, true, "create it anew: no controller does", "", false},
		"a bare pod that has ended":                       {"pod/web-1", "/api/v1/namespaces/tenant/pods/web-1", asking, []corev1.Pod{endedAs(bare(old))}, true, "nothing: it has ended, and a new pod is wrapped", "", false},
		"a TaskRun":                                       {"tr/x", "/apis/tekton.dev/v1/namespaces/tenant/taskruns/x", silent, []corev1.Pod{controlledBy("TaskRun", step)}, true, "start a new run, which is wrapped: the pods of this one can't be created anew", "", false},
		"a TaskRun that has ended":                        {"tr/x", "/apis/tekton.dev/v1/namespaces/tenant/taskruns/x", silent, []corev1.Pod{endedAs(controlledBy("TaskRun", step))}, true, "nothing: it has ended, and a new pod is wrapped", "", true},
		"a Job that has ended":                            {"job/x", "/apis/batch/v1/namespaces/tenant/jobs/x", asking, []corev1.Pod{endedAs(controlledBy("Job", old))}, true, "nothing: it has ended, and a new pod is wrapped", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			s := &apiServer{namespace: tenant("", ""), admit: func(*corev1.Pod) error { return nil }, pods: test.pods}
			if test.opted {
				s.namespace, s.admit = tenant("true", "true"), injecting(&pod.Injector{})
			}
			spec := map[string]any{"template": test.template, "selector": map[string]any{"matchLabels": test.template.Labels}}
			if strings.HasPrefix(test.named, "cj/") {
				spec = map[string]any{"jobTemplate": map[string]any{"spec": spec}}
			}
			object := any(map[string]any{"metadata": map[string]any{"name": "x"}, "spec": spec})
			if strings.HasPrefix(test.named, "pod/") {
				object = test.pods[0]
			}
			answer := s.asks(t, test.named, test.path, object)
			d := answer.Now
			if len(answer.Pods) > 0 {
				d = answer.Pods[0]
			}
			require.Equal(t, test.do, d.Do)
			require.Equal(t, test.next, d.Next)
			require.Equal(t, test.wrapped, answer.Wrapped)
		})
	}
}

func TestAnnotationsBesideTheTemplateOfAFileAreWarnedOf(t *testing.T) {
	manifests, err := why.ReadManifests(strings.NewReader("kind: Deployment\nmetadata: {name: web, annotations: {entrypointer.dev/inject: \"true\"}}\nspec: {template: {spec: {containers: [{name: web, image: x}]}}}\n"))
	require.NoError(t, err)
	s := &apiServer{namespace: tenant("true", "true"), admit: injecting(&pod.Injector{})}
	_, answer, err := s.cluster(t).Preview(t.Context(), manifests[0])
	require.NoError(t, err)
	require.Equal(t, []string{"deployment/web itself has annotations of entrypointer, which have no effect there: they belong into the metadata of its pod template"}, answer.Now.Warnings)
	_, answer, err = why.Decided(manifests[0], "tenant", pod.Result{Outcome: pod.NotOurs, Pod: manifests[0].Pod}, nil)
	require.NoError(t, err)
	require.Len(t, answer.Now.Warnings, 1, "without a cluster")
}

// A controller adds to the template: an API server would refuse a pod without it.
func TestATrialHasWhatItsControllerAdds(t *testing.T) {
	var tried corev1.Pod
	s := &apiServer{namespace: tenant("true", "true"), admit: func(p *corev1.Pod) error { tried = *p; return nil }}
	template := asked(asks, container("web"))
	s.asks(t, "sts/db", "/apis/apps/v1/namespaces/tenant/statefulsets/db", map[string]any{
		"kind": "StatefulSet", "metadata": map[string]any{"name": "db", "uid": "u"},
		"spec": map[string]any{"template": template, "volumeClaimTemplates": []any{map[string]any{"metadata": map[string]any{"name": "data"}}}},
	})
	require.Equal(t, "data-db-0", tried.Spec.Volumes[0].PersistentVolumeClaim.ClaimName)
	require.Equal(t, "StatefulSet", tried.OwnerReferences[0].Kind)
	s.asks(t, "ds/agent", "/apis/apps/v1/namespaces/tenant/daemonsets/agent", map[string]any{
		"kind": "DaemonSet", "metadata": map[string]any{"name": "agent", "uid": "u"}, "spec": map[string]any{"template": template},
	})
	require.Equal(t, corev1.TaintNodeUnschedulable, tried.Spec.Tolerations[0].Key)
}

// The tasks of a PipelineRun differ: only the newest pod is like the one that is tried.
func TestTasksOfAPipelineRunAreNotComparedWithEachOther(t *testing.T) {
	plain := injecting(&pod.Injector{})
	first := existing(asked(asks, container("web")), time.Hour, plain)
	first.Name = "first"
	second := existing(asked(map[string]string{pod.InjectAnnotation: "true", "entrypointer.dev/timeout": "1h"}, container("web")), time.Minute, plain)
	s := &apiServer{namespace: tenant("true", "true"), admit: plain, pods: []corev1.Pod{first, second}}
	answer := s.asks(t, "pr/release", "/apis/tekton.dev/v1/namespaces/tenant/pipelineruns/release", map[string]any{"metadata": map[string]any{"name": "release"}})
	require.Equal(t, "web-1", answer.Pods[0].Pod)
	require.Empty(t, answer.Pods[1].Differs)
}

// The image of a tag may be another by now, and a former release noted nothing.
func TestANoteOfTheInjectorIsNoDifference(t *testing.T) {
	admit := injecting(&pod.Injector{Lookup: somewhere{}})
	template := asked(asks, corev1.Container{Name: "web", Image: "busybox"})
	for name, flags := range map[string][]string{"of a former release": nil, "of another digest": {"-image-words=1:busybox@sha256:0"}} {
		p := existing(template, time.Minute, admit)
		args := &p.Spec.Containers[0].Args
		require.Contains(t, (*args)[0], "-image-words=1:busybox@sha256:")
		*args = append(slices.Clone(flags), (*args)[1:]...)
		s := &apiServer{namespace: tenant("true", "true"), admit: admit, pods: []corev1.Pod{p}}
		answer := s.asks(t, "deploy/web", "/apis/apps/v1/namespaces/tenant/deployments/web", map[string]any{
			"metadata": map[string]any{"name": "web", "uid": "u"}, "spec": map[string]any{"selector": map[string]any{"matchLabels": map[string]string{"app": "web"}}, "template": template},
		})
		require.Len(t, answer.Pods, 1)
		require.Equal(t, why.Reason(pod.Injected), answer.Pods[0].Reason)
		require.Empty(t, answer.Pods[0].Differs, name)
	}
}

func TestAWrongNamespaceOfAFileReachesNoServer(t *testing.T) {
	s := &apiServer{}
	c := s.cluster(t)
	c.Namespace = "a;rm -rf ~ #/../tenant"
	_, _, err := c.Preview(t.Context(), why.Manifest{Name: "pod/p", Pod: &corev1.Pod{}})
	require.ErrorContains(t, err, "is no name of a namespace")
	require.Empty(t, s.requests)
}
