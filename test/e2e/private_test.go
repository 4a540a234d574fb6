// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/crane"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// privateRegistry is a registry that serves nobody without a password.
type privateRegistry struct{ host, user, password string }

func findPrivateRegistry(t *testing.T) privateRegistry {
	t.Helper()
	login, host, ok := strings.Cut(os.Getenv("E2E_PRIVATE_REGISTRY"), "@")
	if !ok {
		t.Skip("E2E_PRIVATE_REGISTRY (user:password@host:port) names no registry that asks for a password")
	}
	user, password, _ := strings.Cut(login, ":")
	return privateRegistry{host, user, password}
}

// push pushes an image that is busybox but for what it runs.
func (r privateRegistry) push(t *testing.T, name string, entrypoint []string) string {
	t.Helper()
	auth := crane.WithAuth(&authn.Basic{Username: r.user, Password: r.password})
	pushedTo(t, r.host+"/e2e-"+name, changedBusybox(t, runs(entrypoint, nil)), auth)
	return r.host + "/e2e-" + name + ":latest"
}

// login creates a pull secret with a password.
func (r privateRegistry) login(t *testing.T, namespace, name, password string) {
	t.Helper()
	config, err := json.Marshal(map[string]any{"auths": map[string]any{r.host: map[string]string{"username": r.user, "password": password}}})
	require.NoError(t, err)
	_, err = cluster.Kube.CoreV1().Secrets(namespace).Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Type:       corev1.SecretTypeDockerConfigJson,
		Data:       map[string][]byte{corev1.DockerConfigJsonKey: config},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
}

func TestAPrivateImageRunsWhereThereIsAPullSecret(t *testing.T) {
	t.Parallel()
	registry := findPrivateRegistry(t)
	argv := []string{"echo", "known to those who may pull"}
	image := registry.push(t, "private", argv)
	p := askingPod("private", corev1.Container{Name: "main", Image: image})
	want := containerResult{Reason: "Completed", Log: "known to those who may pull\n"}

	t.Run("of the pod", func(t *testing.T) {
		t.Parallel()
		namespace := optedInNamespace(t)
		registry.login(t, namespace, "login", registry.password)
		p := p.DeepCopy()
		p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "login"}}
		created := createPod(t, namespace, p)
		requireWrapped(t, created, "main")
		require.Equal(t, append([]string{"-image-words=2:" + created.Spec.Containers[0].Image, "--"}, argv...), created.Spec.Containers[0].Args)
		require.Equal(t, want, ranMain(t, namespace, p.Name))
	})
	t.Run("of the service account", func(t *testing.T) {
		t.Parallel()
		namespace := optedInNamespace(t)
		registry.login(t, namespace, "login", registry.password)
		_, err := cluster.Kube.CoreV1().ServiceAccounts(namespace).Patch(t.Context(), "default", types.MergePatchType,
			[]byte(`{"imagePullSecrets":[{"name":"login"}]}`), metav1.PatchOptions{})
		require.NoError(t, err)
		requireWrapped(t, createPod(t, namespace, p), "main")
		require.Equal(t, want, ranMain(t, namespace, p.Name))
	})
	t.Run("of which the first is of no use", func(t *testing.T) {
		t.Parallel()
		namespace := optedInNamespace(t)
		registry.login(t, namespace, "former", "changed since")
		registry.login(t, namespace, "login", registry.password)
		p := p.DeepCopy()
		p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "former"}, {Name: "login"}}
		requireWrapped(t, createPod(t, namespace, p), "main")
		require.Equal(t, want, ranMain(t, namespace, p.Name))
	})
}

func TestWhoMayNotPullAnImageDoesNotLearnWhatItRuns(t *testing.T) {
	t.Parallel()
	registry := findPrivateRegistry(t)
	image := registry.push(t, "secret", []string{"echo", "a-token-that-is-none-of-your-business"})
	p := askingPod("curious", corev1.Container{Name: "main", Image: image})

	// Somebody may, so the answer is known.
	owner := optedInNamespace(t)
	registry.login(t, owner, "login", registry.password)
	allowed := p.DeepCopy()
	allowed.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "login"}}
	requireWrapped(t, createPod(t, owner, allowed), "main")

	other := optedInNamespace(t)
	registry.login(t, other, "guess", "guessed")
	for what, secrets := range map[string][]corev1.LocalObjectReference{
		"no secret":      nil,
		"a wrong one":    {{Name: "guess"}},
		"one elsewhere":  {{Name: "login"}},
		"one and a half": {{Name: "login"}, {Name: "guess"}},
	} {
		p.Spec.ImagePullSecrets = secrets
		_, err := wouldBecome(t, other, p)
		require.Error(t, err, what)
		require.NotContains(t, err.Error(), "none-of-your-business", what)
		require.ErrorContains(t, err, image, what)
		require.ErrorContains(t, err, "set command:", what)
	}
}
