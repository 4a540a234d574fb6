// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package credentials_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	goruntime "runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/entrypointer/entrypointer/pkg/credentials"
	"github.com/entrypointer/entrypointer/pkg/lookup"
	"github.com/entrypointer/entrypointer/pkg/registrytest"
)

func newLookup(of lookup.Credentials) *lookup.Registry {
	return lookup.NewRegistry(of, http.DefaultTransport, lookup.Options{})
}

// A login is an entry of a pull secret. The right password is "right".
type login struct{ registry, password string }

func pullSecret(t *testing.T, name string, logins ...login) *corev1.Secret {
	t.Helper()
	entries := map[string]any{}
	for _, l := range logins {
		entries[l.registry] = map[string]string{"username": "user", "password": l.password}
	}
	file, err := json.Marshal(map[string]any{"auths": entries})
	require.NoError(t, err)
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "tenant"},
		Type:       corev1.SecretTypeDockerConfigJson,
		Data:       map[string][]byte{corev1.DockerConfigJsonKey: file},
	}
}

func serviceAccount(name string, secrets ...string) *corev1.ServiceAccount {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "tenant"}}
	for _, secret := range secrets {
		account.ImagePullSecrets = append(account.ImagePullSecrets, corev1.LocalObjectReference{Name: secret})
	}
	return account
}

// privateRegistry serves team/app only to the user with the right password.
func privateRegistry(t *testing.T) *registrytest.Server {
	t.Helper()
	server := registrytest.New(t)
	registrytest.Push(t, server.Image("team/app"), registrytest.NewImage(t, registrytest.AMD64, []string{"/entry"}, nil))
	server.Intercept = registrytest.RequireBasic("user", "right")
	return server
}

func TestEveryCredentialThatMatchesIsTried(t *testing.T) {
	server := privateRegistry(t)
	here := server.Host
	legacy := pullSecret(t, "legacy")
	legacy.Type = corev1.SecretTypeDockercfg
	legacy.Data = map[string][]byte{corev1.DockerConfigKey: fmt.Appendf(nil, `{%q: {"username": "user", "password": "right"}}`, here)}
	malformed := pullSecret(t, "malformed")
	malformed.Data[corev1.DockerConfigJsonKey] = []byte("{")

	for name, test := range map[string]struct {
		objects []runtime.Object
		pull    []string
		account string
	}{
		"a secret of the pod's":                 {[]runtime.Object{serviceAccount("default"), pullSecret(t, "a", login{here, "right"})}, []string{"a"}, ""},
		"a secret of the service account's":     {[]runtime.Object{serviceAccount("builder", "a"), pullSecret(t, "a", login{here, "right"})}, nil, "builder"},
		"a .dockercfg":                          {[]runtime.Object{serviceAccount("default"), legacy}, []string{"legacy"}, ""},
		"only the second works":                 {[]runtime.Object{serviceAccount("default"), pullSecret(t, "a", login{here, "wrong"}), pullSecret(t, "b", login{here, "right"})}, []string{"a", "b"}, ""},
		"only the service account's works":      {[]runtime.Object{serviceAccount("default", "b"), pullSecret(t, "a", login{here, "wrong"}), pullSecret(t, "b", login{here, "right"})}, []string{"a"}, ""},
		"one scoped to a path, and a wrong one": {[]runtime.Object{serviceAccount("default"), pullSecret(t, "a", login{here, "wrong"}, login{here + "/team", "right"})}, []string{"a"}, ""},
		"a wrong one scoped to a path":          {[]runtime.Object{serviceAccount("default"), pullSecret(t, "a", login{here, "right"}, login{here + "/team/app", "wrong"})}, []string{"a"}, ""},
		"others' registries don't matter":       {[]runtime.Object{serviceAccount("default"), pullSecret(t, "a", login{"elsewhere.example", "x"}, login{"https://" + here + "/v2/", "right"})}, []string{"a"}, ""},
		"a secret that is missing hides none":   {[]runtime.Object{serviceAccount("default"), pullSecret(t, "a", login{here, "right"})}, []string{"missing", "a"}, ""},
		"a secret that is malformed hides none": {[]runtime.Object{serviceAccount("default"), malformed, pullSecret(t, "a", login{here, "right"})}, []string{"malformed", "a"}, ""},
		"a service account that is missing":     {[]runtime.Object{pullSecret(t, "a", login{here, "right"})}, []string{"a"}, "missing"},
	} {
		t.Run(name, func(t *testing.T) {
			asked := newLookup(credentials.OfPods(fake.NewClientset(test.objects...)))
			_, err := asked.Lookup(t.Context(), lookup.Query{
				Image: server.Image("team/app"), Namespace: "tenant", ServiceAccount: test.account, PullSecrets: test.pull,
			})
			require.NoError(t, err)
		})
	}
}

func TestDockerHubIsFoundByEachOfItsNames(t *testing.T) {
	for _, key := range []string{"docker.io", "index.docker.io", "https://index.docker.io/v1/"} {
		var shown atomic.Value
		transport := registrytest.Answering(func(w http.ResponseWriter, r *http.Request) {
			if user, _, ok := r.BasicAuth(); ok {
				shown.Store(user)
			}
			registrytest.RequireBasic("nobody", "")(w, r)
		})
		client := fake.NewClientset(serviceAccount("default"), pullSecret(t, "hub", login{key, "right"}))
		_, err := lookup.NewRegistry(credentials.OfPods(client), transport, lookup.Options{}).
			Lookup(t.Context(), lookup.Query{Image: "busybox", Namespace: "tenant", PullSecrets: []string{"hub"}})
		registrytest.RequireReason(t, err, lookup.Unauthorized)
		require.Equal(t, "user", shown.Load(), key)
	}
}

func TestARefusalTellsWhichSecretsCouldntBeRead(t *testing.T) {
	server := privateRegistry(t)
	client := fake.NewClientset(serviceAccount("default"), pullSecret(t, "old", login{server.Host, "wrong"}))
	_, err := newLookup(credentials.OfPods(client)).Lookup(t.Context(), lookup.Query{
		Image: server.Image("team/app"), Namespace: "tenant", PullSecrets: []string{"old", "missing"},
	})
	registrytest.RequireReason(t, err, lookup.CredentialsError, "401 Unauthorized", `pull secret "missing"`, "not found", "imagePullSecrets")
	require.NotContains(t, err.Error(), "wrong", "passwords stay secret")
}

// forbid makes a fake API server refuse to let us read, for some requests.
func forbid(client *fake.Clientset, verb, resource string, times int64) *atomic.Int64 {
	var asked atomic.Int64
	client.PrependReactor(verb, resource, func(clienttesting.Action) (bool, runtime.Object, error) {
		if asked.Add(1) > times {
			return false, nil, nil
		}
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "", nil)
	})
	return &asked
}

func TestANamespaceThatHasJustOptedInIsWaitedFor(t *testing.T) {
	server := privateRegistry(t)
	client := fake.NewClientset(serviceAccount("default"), pullSecret(t, "a", login{server.Host, "right"}))
	forbid(client, "get", "secrets", 3)
	_, err := newLookup(credentials.OfPods(client)).Lookup(t.Context(), lookup.Query{
		Image: server.Image("team/app"), Namespace: "tenant", PullSecrets: []string{"a"},
	})
	require.NoError(t, err)
}

func TestPublicImagesNeedNoRights(t *testing.T) {
	server := registrytest.New(t)
	registrytest.Push(t, server.Image("app"), registrytest.NewImage(t, registrytest.AMD64, []string{"/entry"}, nil))
	client := fake.NewClientset()
	asked := forbid(client, "get", "*", 1<<40)
	_, err := newLookup(credentials.OfPods(client)).Lookup(t.Context(), lookup.Query{
		Image: server.Image("app"), Namespace: "tenant", PullSecrets: []string{"a", "b", "c"},
	})
	require.NoError(t, err)
	require.Less(t, asked.Load(), int64(16), "it waits once, not once for each")
}

func TestAPodCantMakeUsReadSecretsWithoutEnd(t *testing.T) {
	server := privateRegistry(t)
	var names []string
	for i := range 1000 {
		names = append(names, fmt.Sprint("secret-", i))
	}
	client := fake.NewClientset(serviceAccount("default"))
	asked := forbid(client, "get", "secrets", 0)
	_, err := newLookup(credentials.OfPods(client)).Lookup(t.Context(), lookup.Query{
		Image: server.Image("team/app"), Namespace: "tenant", PullSecrets: names,
	})
	registrytest.RequireReason(t, err, lookup.CredentialsError, "and 30 more")
	require.Equal(t, int64(32), asked.Load())
}

func TestCredentialsForARegistryAreNotShownToItsMirror(t *testing.T) {
	server, mirror := registrytest.New(t), registrytest.New(t)
	registrytest.Push(t, server.Image("app"), registrytest.NewImage(t, registrytest.AMD64, []string{"/upstream"}, nil))
	server.Intercept = registrytest.RequireBasic("user", "right")
	mirror.Intercept = func(w http.ResponseWriter, r *http.Request) bool {
		if _, _, shown := r.BasicAuth(); shown {
			t.Error("the mirror was shown a password")
		}
		return registrytest.RequireBasic("mirror", "")(w, r)
	}
	mirrors := lookup.Mirrors{}
	require.NoError(t, mirrors.Add(server.Host, mirror.Host))
	client := fake.NewClientset(serviceAccount("default"), pullSecret(t, "a", login{server.Host, "right"}))
	_, err := lookup.NewRegistry(credentials.OfPods(client), http.DefaultTransport, lookup.Options{Mirrors: mirrors}).
		Lookup(t.Context(), lookup.Query{Image: server.Image("app"), Namespace: "tenant", PullSecrets: []string{"a"}})
	require.NoError(t, err)
}

// manyEntries is a secret of many entries, the last of which is for a registry.
func manyEntries(t *testing.T, n int, key func(int) string, last login) *corev1.Secret {
	t.Helper()
	logins := make([]login, 0, n+1)
	for i := range n {
		logins = append(logins, login{key(i), "wrong"})
	}
	return pullSecret(t, "a", append(logins, last)...)
}

func TestASecretOfEightyThousandEntriesIsReadInPassing(t *testing.T) {
	server := privateRegistry(t)
	secret := manyEntries(t, 20_000, func(i int) string { return fmt.Sprintf("registry-%d.example", i) }, login{server.Host, "right"})
	asked := newLookup(credentials.OfPods(fake.NewClientset(serviceAccount("default"), secret)))
	var before, after goruntime.MemStats
	goruntime.ReadMemStats(&before)
	_, err := asked.Lookup(t.Context(), lookup.Query{Image: server.Image("team/app"), Namespace: "tenant", PullSecrets: []string{"a"}})
	require.NoError(t, err)
	goruntime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(32<<20), "bytes allocated")
}

func TestNoMoreThanSomeEntriesOfASecretAreTried(t *testing.T) {
	server := privateRegistry(t)
	for name, test := range map[string]struct {
		key  func(int) string
		says string
	}{
		"wildcards that may match": {func(i int) string { return fmt.Sprintf("*.0.0.1/%d", i) }, "more than 256 entries may be for registry"},
		"paths that match":         {func(i int) string { return fmt.Sprintf("%s/%s", server.Host, "team/app"[:1+i%8]) }, ""},
		"ports that match": {func(i int) string {
			return fmt.Sprintf("https://%s/v%d/team", server.Host, 1+i%2) + strings.Repeat("/", i%200)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			secret := manyEntries(t, 5000, test.key, login{"elsewhere.example", "x"})
			asked := newLookup(credentials.OfPods(fake.NewClientset(serviceAccount("default"), secret)))
			_, err := asked.Lookup(t.Context(), lookup.Query{Image: server.Image("team/app"), Namespace: "tenant", PullSecrets: []string{"a"}})
			require.ErrorContains(t, err, "set command:")
			require.ErrorContains(t, err, test.says)
		})
	}
}
