// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package lookup_test

import (
	"encoding/json"
	"fmt"
	"net/http"
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

	"github.com/entrypointer/entrypointer/pkg/lookup"
)

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

// privateRegistry serves team/app to the user with the right password, and to nobody else.
func privateRegistry(t *testing.T) *registryServer {
	t.Helper()
	server := newRegistry(t)
	push(t, server.image("team/app"), newImage(t, amd64, []string{"/entry"}, nil))
	server.intercept = requireBasic("user", "right")
	return server
}

func TestEveryCredentialThatMatchesIsTried(t *testing.T) {
	server := privateRegistry(t)
	here := server.host
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
			asked := newLookup(lookup.PodCredentials(fake.NewClientset(test.objects...)))
			_, err := asked.Lookup(t.Context(), lookup.Query{
				Image: server.image("team/app"), Namespace: "tenant", ServiceAccount: test.account, PullSecrets: test.pull,
			})
			require.NoError(t, err)
		})
	}
}

func TestDockerHubIsFoundByEachOfItsNames(t *testing.T) {
	for _, key := range []string{"docker.io", "index.docker.io", "https://index.docker.io/v1/"} {
		var shown atomic.Value
		transport := answering(func(w http.ResponseWriter, r *http.Request) {
			if user, _, ok := r.BasicAuth(); ok {
				shown.Store(user)
			}
			requireBasic("nobody", "")(w, r)
		})
		client := fake.NewClientset(serviceAccount("default"), pullSecret(t, "hub", login{key, "right"}))
		_, err := lookup.NewRegistry(lookup.PodCredentials(client), transport, nil).
			Lookup(t.Context(), lookup.Query{Image: "busybox", Namespace: "tenant", PullSecrets: []string{"hub"}})
		requireReason(t, err, lookup.Unauthorized)
		require.Equal(t, "user", shown.Load(), key)
	}
}

func TestARefusalTellsWhichSecretsCouldntBeRead(t *testing.T) {
	server := privateRegistry(t)
	client := fake.NewClientset(serviceAccount("default"), pullSecret(t, "old", login{server.host, "wrong"}))
	_, err := newLookup(lookup.PodCredentials(client)).Lookup(t.Context(), lookup.Query{
		Image: server.image("team/app"), Namespace: "tenant", PullSecrets: []string{"old", "missing"},
	})
	requireReason(t, err, lookup.CredentialsError, "401 Unauthorized", `pull secret "missing"`, "not found", "imagePullSecrets")
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
	client := fake.NewClientset(serviceAccount("default"), pullSecret(t, "a", login{server.host, "right"}))
	forbid(client, "get", "secrets", 3)
	_, err := newLookup(lookup.PodCredentials(client)).Lookup(t.Context(), lookup.Query{
		Image: server.image("team/app"), Namespace: "tenant", PullSecrets: []string{"a"},
	})
	require.NoError(t, err)
}

func TestPublicImagesNeedNoRights(t *testing.T) {
	server := newRegistry(t)
	push(t, server.image("app"), newImage(t, amd64, []string{"/entry"}, nil))
	client := fake.NewClientset()
	asked := forbid(client, "get", "*", 1<<40)
	_, err := newLookup(lookup.PodCredentials(client)).Lookup(t.Context(), lookup.Query{
		Image: server.image("app"), Namespace: "tenant", PullSecrets: []string{"a", "b", "c"},
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
	_, err := newLookup(lookup.PodCredentials(client)).Lookup(t.Context(), lookup.Query{
		Image: server.image("team/app"), Namespace: "tenant", PullSecrets: names,
	})
	requireReason(t, err, lookup.CredentialsError, "and 30 more")
	require.Equal(t, int64(32), asked.Load())
}
