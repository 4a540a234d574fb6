// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/config"
	"github.com/entrypointer/entrypointer/internal/objects"
	"github.com/entrypointer/entrypointer/internal/objects/objectstest"
	"github.com/entrypointer/entrypointer/test/jsonschema"
	"github.com/entrypointer/entrypointer/test/markdown"
)

var update = flag.Bool("update", false, "write golden files and docs/cli.md instead of comparing with them")

type object = map[string]any

// An apiServer stands in for the API server of a cluster, whose faults are hard to bring
// about there. TestCheck in test/e2e asks a real one.
type apiServer struct {
	objects   map[string]any // by path
	metrics   map[string]string
	forbidden func(r *http.Request) bool
	// refusal is the injector's answer to a namespace and a pod with a wrong annotation.
	refusal string
	pods    []any // of all namespaces
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch path := r.URL.Path; {
	case s.forbidden != nil && s.forbidden(r):
		objectstest.Refuse(w, http.StatusForbidden, filepath.Base(path)+` is forbidden: User "jane" cannot do this`)
	case strings.HasSuffix(path, "/proxy/metrics"):
		fmt.Fprint(w, typed(s.metrics[strings.Split(path, "/")[4]]))
	case strings.HasSuffix(path, "/selfsubjectaccessreviews"):
		objectstest.Respond(w, object{"status": object{"allowed": true}})
	case r.Method == http.MethodPost && s.refusal != "":
		objectstest.Refuse(w, http.StatusBadRequest, s.refusal)
	case r.Method == http.MethodPost, r.Method == http.MethodPatch:
		objectstest.Respond(w, object{})
	case path == "/api/v1/pods":
		objectstest.Respond(w, object{"items": s.pods})
	case s.objects[path] != nil:
		objectstest.Respond(w, s.objects[path])
	case slices.Contains([]string{"nodes", "namespaces", "pods", "supervisorvolumes"}, filepath.Base(path)):
		s.list(w, path)
	default:
		objectstest.Refuse(w, http.StatusNotFound, path+" not found")
	}
}

// typed says of metrics that they are gauges, as the servers do.
func typed(text string) string {
	return regexp.MustCompile(`(?m)^\w+`).ReplaceAllString(text, "# TYPE $0 gauge\n$0")
}

func (s *apiServer) list(w http.ResponseWriter, collection string) {
	items := []any{}
	for path, o := range s.objects {
		if strings.HasPrefix(path, collection+"/") && !strings.Contains(path[len(collection)+1:], "/") {
			items = append(items, o)
		}
	}
	slices.SortFunc(items, func(a, b any) int { return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	objectstest.Respond(w, object{"items": items})
}

func (s *apiServer) client(t *testing.T) objects.Client {
	t.Helper()
	return objectstest.Client(t, "team-a", s)
}

// empty is a cluster without entrypointer.
func empty() *apiServer {
	return &apiServer{
		objects: map[string]any{
			"/version":                  object{"gitVersion": "v1.36.3"},
			"/api/v1/nodes/one":         named("", "one", object{"labels": platform("linux", "amd64")}),
			"/api/v1/nodes/two":         named("", "two", object{"labels": platform("linux", "arm64")}),
			"/api/v1/nodes/three":       named("", "three", object{"labels": platform("windows", "amd64")}),
			"/api/v1/namespaces/team-b": named("", "team-b", nil),
		},
		metrics: map[string]string{},
	}
}

// healthy is a cluster with all parts of this release.
func healthy(t *testing.T) *apiServer {
	t.Helper()
	s := empty()
	for _, part := range []string{"webhook", "auto", "claims", "outage", "logs"} {
		all, err := manifestsOf(part)
		require.NoError(t, err)
		for _, m := range all {
			s.objects[m.path()] = m.object
		}
	}
	ca := certificate(t, time.Date(2126, 1, 1, 0, 0, 0, 0, time.UTC))
	for path := range s.objects {
		switch {
		case strings.Contains(path, "webhookconfigurations/"):
			s.edit(t, path, func(o object) {
				for _, w := range o["webhooks"].([]any) {
					w.(object)["clientConfig"].(object)["caBundle"] = ca
				}
			})
		case strings.Contains(path, "/deployments/"):
			s.edit(t, path, func(o object) {
				replicas := o["spec"].(object)["replicas"]
				o["status"] = object{"availableReplicas": replicas, "updatedReplicas": replicas, "observedGeneration": 1}
			})
		}
	}
	s.edit(t, "/api/v1/namespaces/entrypointer-system/secrets/entrypointer-webhook-certs", func(o object) { o["data"] = object{"server-cert.pem": ca} })
	s.edit(t, outagePath, func(o object) { o["metadata"].(object)["annotations"].(object)[config.OutageAnnotation] = "copier" })
	s.edit(t, "/apis/apiregistration.k8s.io/v1/apiservices/v1alpha1.logs.entrypointer.dev", func(o object) {
		o["status"] = object{"conditions": []any{object{"type": "Available", "status": "True"}}}
	})
	s.objects["/apis/entrypointer.dev/v1alpha1/supervisorvolumes/entrypointer"] = claim("True", "")
	for _, name := range []string{"injector-1", "injector-2"} {
		s.objects["/api/v1/namespaces/entrypointer-system/pods/"+name] = named("entrypointer-system", name, object{"labels": object{"app.kubernetes.io/name": "injector"}})
	}
	s.objects["/api/v1/namespaces/entrypointer-logs/pods/logs-1"] = named("entrypointer-logs", "logs-1", object{"labels": object{"app.kubernetes.io/name": "logs"}})
	s.metrics = map[string]string{
		"entrypointer-system": `entrypointer_build_info{version="v1.2.3-abcdef0"} 1
entrypointer_config_faulty_keys 0
entrypointer_delivery_image_volumes{reason="Proven"} 1
`,
		"entrypointer-logs": `entrypointer_logs_build_info{version="v1.2.3-abcdef0"} 1
entrypointer_logs_storage_free_bytes 5.2e10
entrypointer_logs_storage_free_inodes 1e7
entrypointer_logs_keeper_postponed_streams 0
entrypointer_logs_config_faulty 0
`,
	}
	s.objects["/api/v1/namespaces/team-a"] = optedInAs("team-a", "true", "true")
	s.objects["/api/v1/namespaces/team-a/pods/wrapped"] = named("team-a", "wrapped", object{"annotations": object{"entrypointer.dev/inject": "true", "entrypointer.dev/status": "Injected by init-container"}})
	s.objects["/api/v1/namespaces/team-a/pods/does-not-ask"] = named("team-a", "does-not-ask", nil)
	s.refusal = `admission webhook "namespaces.entrypointer.dev" denied the request: no`
	return s
}

// outagePath is that of the object in which the injector writes for config/outage.
const outagePath = "/api/v1/namespaces/entrypointer-system"

// edit changes an object.
func (s *apiServer) edit(t *testing.T, path string, change func(object)) {
	t.Helper()
	o, is := s.objects[path].(object)
	require.True(t, is, path)
	change(o)
}

func named(namespace, name string, meta object) object {
	if meta == nil {
		meta = object{}
	}
	meta["name"], meta["namespace"] = name, namespace
	return object{"metadata": meta}
}

func platform(system, architecture string) object {
	return object{"kubernetes.io/os": system, "kubernetes.io/arch": architecture}
}

func optedInAs(name, annotation, label string) object {
	return named("", name, object{"annotations": object{"entrypointer.dev/inject": annotation}, "labels": object{"entrypointer.dev/inject": label}})
}

func claim(ready, reason string) object {
	o := named("team-a", "entrypointer", nil)
	o["status"] = object{"conditions": []any{object{"type": "Bound", "status": "True"}, object{"type": "Ready", "status": ready, "reason": reason, "message": "the Job could not copy"}}}
	return o
}

// certificate returns a certificate of the webhook, which is its own CA.
func certificate(t *testing.T, end time.Time) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: end.AddDate(-200, 0, 0), NotAfter: end, DNSNames: []string{serverName},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// TestWhatIsPrinted compares the reports of clusters with files in testdata.
func TestWhatIsPrinted(t *testing.T) {
	for _, test := range []struct {
		name    string
		cluster func(t *testing.T) *apiServer
		options Options
	}{
		{"without-entrypointer", func(*testing.T) *apiServer { return empty() }, Options{}},
		{"healthy", healthy, Options{}},
		{"one-namespace", healthy, Options{OnlyNamespace: true}},
		{"tenant", func(t *testing.T) *apiServer {
			s := healthy(t)
			s.forbidden = func(r *http.Request) bool {
				return r.URL.Path != "/version" && r.URL.Path != "/api/v1/namespaces/team-a" && !strings.HasPrefix(r.URL.Path, "/api/v1/namespaces/team-a/")
			}
			s.refusal = `admission webhook "pods.entrypointer.dev" denied the request: no`
			return s
		}, Options{}},
		{"broken", broken, Options{}},
		{"down", down, Options{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			report, err := Run(t.Context(), test.cluster(t).client(t), test.options)
			require.NoError(t, err)
			var b bytes.Buffer
			require.NoError(t, report.Print(&b))
			require.NoError(t, jsonschema.CheckValue("../../docs/cli.schema.json", "check", report))
			file := filepath.Join("testdata", test.name+".txt")
			if *update {
				require.NoError(t, os.WriteFile(file, b.Bytes(), 0o600))
			}
			want, err := os.ReadFile(file)
			require.NoError(t, err)
			require.Equal(t, string(want), b.String())
		})
	}
}

func TestTaskRunsWaitIfTheInjectorDoesNotSayHowToWrapThem(t *testing.T) {
	s := healthy(t)
	s.edit(t, outagePath, func(o object) { delete(o["metadata"].(object)["annotations"].(object), config.OutageAnnotation) })
	report, err := Run(t.Context(), s.client(t), Options{})
	require.NoError(t, err)
	at := slices.IndexFunc(report.Checks, func(r Result) bool { return r.Check == "TaskRuns don't fail" })
	require.Equal(t, Passed, report.Checks[at].State)
	require.Contains(t, report.Checks[at].Note, "they wait")
}

// kubectl apply leaves an entry in place that it hasn't created.
func TestAWebhookOfSomebodyElseIsToBeRemovedAndOneOfAnotherReleaseIsNot(t *testing.T) {
	s := healthy(t)
	s.edit(t, podsWebhook, func(o object) {
		o["webhooks"] = append([]any{object{"name": "first.example.test"}, object{"name": "later.entrypointer.dev"}}, o["webhooks"].([]any)...)
	})
	report, err := Run(t.Context(), s.client(t), Options{})
	require.NoError(t, err)
	at := slices.IndexFunc(report.Checks, func(r Result) bool { return r.Check == "its objects are those of this release" })
	require.Equal(t, []Finding{
		{
			State: Warning, Message: "MutatingWebhookConfiguration pods.entrypointer.dev: webhook first.example.test isn't of this release",
			Next: `kubectl patch mutatingwebhookconfiguration pods.entrypointer.dev --type strategic -p '{"webhooks":[{"name":"first.example.test","$patch":"delete"}]}'`,
		},
		{
			State: Warning, Message: "MutatingWebhookConfiguration pods.entrypointer.dev: webhook later.entrypointer.dev isn't of this release",
			Next: "ko apply -f config/webhook",
		},
	}, report.Checks[at].Findings)
}

// broken is a cluster in which each part has a fault that leaves it running.
func broken(t *testing.T) *apiServer {
	t.Helper()
	s := healthy(t)
	s.objects["/version"] = object{"gitVersion": "v1.33.0"}
	s.objects["/api/v1/nodes/four"] = named("", "four", object{"labels": platform("linux", "s390x")})
	delete(s.objects, "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/unwrapped.entrypointer.dev")
	s.edit(t, podsWebhook, func(o object) {
		webhooks := o["webhooks"].([]any)
		webhooks[0].(object)["failurePolicy"] = "Ignore"
		webhooks[1].(object)["clientConfig"].(object)["caBundle"] = certificate(t, time.Date(2126, 1, 1, 0, 0, 0, 0, time.UTC))
	})
	s.edit(t, "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/config.entrypointer.dev", func(o object) {
		o["webhooks"] = append(o["webhooks"].([]any), object{"name": "foreign", "clientConfig": object{}})
	})
	s.edit(t, "/apis/apps/v1/namespaces/entrypointer-system/deployments/injector", func(o object) { o["status"].(object)["availableReplicas"] = 1 })
	s.edit(t, "/api/v1/namespaces/entrypointer-system/configmaps/config-entrypointer", func(o object) { o["data"] = object{"delivery": "by-post", "lookup-timeout": "x"} })
	s.metrics["entrypointer-system"] = `entrypointer_build_info{version="v1.2.2-1234567"} 1
entrypointer_delivery_image_volumes{reason="NodeUnfit"} 0
`
	s.metrics["entrypointer-logs"] = `entrypointer_logs_build_info{version="v1.2.3-abcdef0"} 1
entrypointer_logs_storage_free_bytes 1e8
entrypointer_logs_storage_free_inodes 10
entrypointer_logs_keeper_postponed_streams 3
entrypointer_logs_config_faulty 1
`
	s.objects["/apis/entrypointer.dev/v1alpha1/supervisorvolumes/entrypointer"] = claim("False", "JobFailed")
	s.objects["/api/v1/namespaces/team-b"] = optedInAs("team-b", "all", "true")
	s.objects["/api/v1/namespaces/team-c"] = optedInAs("team-c", "nonsense", "all")
	for i := range 5 {
		name := fmt.Sprintf("old-%d", i)
		s.objects["/api/v1/namespaces/team-a/pods/"+name] = named("team-a", name, object{"labels": object{"tekton.dev/taskRun": "x"}})
	}
	s.objects["/api/v1/namespaces/team-a/pods/waived"] = named("team-a", "waived", object{"annotations": object{"entrypointer.dev/status": "LookupWaived\x1b[31m"}})
	return s
}

// down is a cluster in which nothing of ours runs.
func down(t *testing.T) *apiServer {
	t.Helper()
	s := healthy(t)
	s.edit(t, "/api/v1/namespaces/entrypointer-system", func(o object) { o["metadata"].(object)["deletionTimestamp"] = "2026-01-02T03:04:05Z" })
	s.edit(t, "/apis/apps/v1/namespaces/entrypointer-system/deployments/injector", func(o object) { o["spec"].(object)["replicas"] = 0 })
	s.edit(t, "/apis/apps/v1/namespaces/entrypointer-logs/deployments/logs", func(o object) { o["status"] = object{} })
	s.edit(t, "/apis/apiregistration.k8s.io/v1/apiservices/v1alpha1.logs.entrypointer.dev", func(o object) {
		o["status"] = object{"conditions": []any{object{"type": "Available", "status": "False", "reason": "MissingEndpoints", "message": "no endpoints"}}}
	})
	s.edit(t, "/api/v1/namespaces/entrypointer-system/secrets/entrypointer-webhook-certs", func(o object) {
		o["data"] = object{"server-cert.pem": certificate(t, time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC))}
	})
	s.edit(t, podsWebhook, func(o object) { delete(o["webhooks"].([]any)[0].(object)["clientConfig"].(object), "caBundle") })
	for _, pod := range []string{"entrypointer-system/pods/injector-1", "entrypointer-system/pods/injector-2", "entrypointer-logs/pods/logs-1"} {
		delete(s.objects, "/api/v1/namespaces/"+pod)
	}
	s.refusal = ""
	return s
}

// TestARightThatIsMissingIsNoFailure takes the answers away one after another.
func TestARightThatIsMissingIsNoFailure(t *testing.T) {
	for _, hidden := range []string{"nodes", "secrets", "configmaps", "deployments", "pods", "namespaces", "mutatingwebhookconfigurations", "apiservices", "supervisorvolumes", "clusterroles"} {
		s := healthy(t)
		s.forbidden = func(r *http.Request) bool {
			segments := strings.Split(r.URL.Path, "/")
			return r.Method == http.MethodGet && (segments[len(segments)-1] == hidden || len(segments) > 2 && segments[len(segments)-2] == hidden)
		}
		report, err := Run(t.Context(), s.client(t), Options{})
		require.NoError(t, err)
		require.Zero(t, report.Count(Failed), hidden)
		require.Positive(t, report.Count(Unknown), hidden)
	}
}

// TestReplicasThatDoNotTell are of another release, or aren't ours.
func TestReplicasThatDoNotTell(t *testing.T) {
	s := healthy(t)
	s.metrics = map[string]string{"entrypointer-system": "up 1\n", "entrypointer-logs": "up 1\n"}
	report, err := Run(t.Context(), s.client(t), Options{})
	require.NoError(t, err)
	var unknown []string
	for _, result := range report.Checks {
		if result.State == Unknown {
			unknown = append(unknown, result.Check)
		}
	}
	require.Equal(t, []string{"all replicas have the version of this plugin", "the configuration is in force as it is written", "auto: the nodes can mount images", "its storage has space"}, unknown)
}

// TestManyMetricsTakeLittleMemory has only those parsed that are asked for.
func TestManyMetricsTakeLittleMemory(t *testing.T) {
	kept, err := askedFor(strings.NewReader(strings.Repeat("a 1\n", 1<<20) + "# TYPE entrypointer_build_info gauge\n" + strings.Repeat("entrypointer_build_info{version=\"x\"} 1\n", 1000)))
	require.NoError(t, err)
	text, err := io.ReadAll(kept)
	require.NoError(t, err)
	require.Equal(t, mostLines, strings.Count(string(text), "\n"))
	require.NotContains(t, string(text), "a 1")
}

// TestTheRefusalOfAnotherWebhookIsNotOurs blames neither the injector nor the user's rights.
func TestTheRefusalOfAnotherWebhookIsNotOurs(t *testing.T) {
	for refusal, says := range map[string]string{
		`Internal error occurred: failed calling webhook "mutate.kyverno.svc": timeout`:       "failed calling webhook \"mutate.kyverno.svc\"",
		`admission webhook "policy.example.com" denied the request: namespaces need an owner`: "namespaces need an owner",
	} {
		s := healthy(t)
		s.refusal = refusal
		got := checkReach(t.Context(), &inquiry{Client: s.client(t)})
		require.Equal(t, Unknown, got.state())
		require.Contains(t, got.findings[0].Message, says)
	}
}

// TestPodsOfManyNamespacesAreListedAtOnce has one request instead of one for each.
func TestPodsOfManyNamespacesAreListedAtOnce(t *testing.T) {
	s := healthy(t)
	s.pods = []any{named("many-7", "old", object{"annotations": object{"entrypointer.dev/inject": "true"}}), named("foreign", "x", object{"annotations": object{"entrypointer.dev/inject": "true"}})}
	for i := range allFrom {
		name := fmt.Sprintf("many-%d", i)
		s.objects["/api/v1/namespaces/"+name] = optedInAs(name, "true", "true")
	}
	got := checkPods(t.Context(), &inquiry{Client: s.client(t)})
	require.Equal(t, []Finding{{State: Warning, Message: "pods of namespace many-7 aren't wrapped: old", Next: "kubectl entrypointer why -n many-7 old"}}, got.findings)
}

// TestNobodySaysWhetherItIsInstalled of those who may look at nothing.
func TestNobodySaysWhetherItIsInstalled(t *testing.T) {
	s := empty()
	s.forbidden = func(r *http.Request) bool { return r.Method == http.MethodGet && r.URL.Path != "/version" }
	report, err := Run(t.Context(), s.client(t), Options{})
	require.NoError(t, err)
	require.Nil(t, report.Installed)
	require.Zero(t, report.Count(Failed)-1, "the webhook isn't reached")
}

// TestAnInstallThatIsRefused says why, before anything is installed.
func TestAnInstallThatIsRefused(t *testing.T) {
	s := empty()
	s.forbidden = func(r *http.Request) bool {
		return r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "validatingadmissionpolicies")
	}
	report, err := Run(t.Context(), s.client(t), Options{})
	require.NoError(t, err)
	require.Equal(t, 1, report.Count(Failed))
	require.Contains(t, report.Checks[2].Findings[0].Message, "ValidatingAdmissionPolicy grants.entrypointer.dev: ")
}

// TestTheRegistryIsAskedForTheRightToPush pushes nothing.
func TestTheRegistryIsAskedForTheRightToPush(t *testing.T) {
	takes := httptest.NewServer(registry.New())
	defer takes.Close()
	refuses := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			w.WriteHeader(http.StatusForbidden)
		}
	}))
	defer refuses.Close()
	for registry, want := range map[string]State{
		strings.TrimPrefix(takes.URL, "http://") + "/entrypointer": Passed,
		strings.TrimPrefix(refuses.URL, "http://"):                 Failed,
		"Not A Registry":             Failed,
		"127.0.0.1:1/nobody-listens": Failed,
		"kind.local":                 Skipped,
	} {
		got := checkRegistry(t.Context(), &inquiry{options: Options{Registry: registry}})
		require.Equal(t, want, got.state(), "%s: %+v", registry, got)
	}
}

// TestAnAPIServerThatIsGoneIsAnError has no report.
func TestAnAPIServerThatIsGoneIsAnError(t *testing.T) {
	client := empty().client(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Run(ctx, client, Options{})
	require.ErrorContains(t, err, "asking the API server whether entrypointer is installed")
}

// TestAnotherReleaseInTheClusterIsAWarning compares with the version of the plugin.
func TestAnotherReleaseInTheClusterIsAWarning(t *testing.T) {
	client := healthy(t).client(t)
	for own, want := range map[string]State{"v1.2.3": Passed, "v1.2.3-abcdef0": Passed, "devel": Passed, "v1.3.0": Warning} {
		got := checkVersions(t.Context(), &inquiry{Client: client, own: own})
		require.Equal(t, want, got.state(), "%s: %+v", own, got)
	}
}

// TestTheManifestsDifferFromThemselvesInNothing and tells what an operator has changed.
func TestTheManifestsDifferFromThemselvesInNothing(t *testing.T) {
	for _, test := range []struct {
		want, have any
		says       []string
	}{
		{object{"a": "x  y\n z"}, object{"a": "x y z", "b": "another's"}, nil},
		{object{"a": object{"b": 1.0}}, object{}, []string{"a.b is null, and 1 in this release"}},
		{object{"a": []any{"x"}}, object{"a": []any{"x", "y"}}, []string{"a has 2 entries, and 1 in this release"}},
		{object{"a": []any{object{"b": "<x>"}}}, object{"a": []any{object{"b": "<y>"}}}, []string{`a[0].b is "<y>", and "<x>" in this release`}},
		{object{"a": strings.Repeat("x", 100) + "y" + strings.Repeat("z", 100)}, object{"a": strings.Repeat("x", 100)}, []string{
			`a is ...xxxxxxxxxxxxxxxxxxxx", and ...xxxxxxxxxxxxxxxxxxxxyzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz... in this release`,
		}},
	} {
		require.Equal(t, test.says, differences("", test.want, test.have))
	}
}

// TestThePageListsTheChecks compares the table of docs/cli.md, whose links another test
// follows.
func TestThePageListsTheChecks(t *testing.T) {
	const page = "../../docs/cli.md"
	if *update {
		require.NoError(t, markdown.ReplaceSection(page, "checks", Table()))
	}
	written, err := markdown.Section(page, "checks")
	require.NoError(t, err)
	require.Equal(t, Table(), written, "go test ./internal/check -update writes it")
}
