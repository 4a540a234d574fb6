// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package offline_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/internal/offline"
	"github.com/entrypointer/entrypointer/pkg/pod"
)

func asking(c corev1.Container) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Annotations: map[string]string{pod.InjectAnnotation: "true"}}, Spec: corev1.PodSpec{Containers: []corev1.Container{c}}}
}

var (
	main    = corev1.Container{Name: "main", Image: "app", Command: []string{"serve"}}
	optedIn = map[string]string{pod.InjectAnnotation: "true"}
)

func TestTheConfigurationAndTheNamespaceDecideAsInACluster(t *testing.T) {
	t.Parallel()
	current, err := offline.ReadConfig(strings.NewReader(`
apiVersion: v1
kind: ConfigMap
metadata: {name: config-entrypointer}
data:
  delivery: auto
  defaults: "timeout: 2h"
  static-images: |
    app: {entrypoint: [/app], cmd: [serve]}
`))
	require.NoError(t, err)
	o := offline.Options{Config: current, Annotations: map[string]string{pod.InjectAnnotation: "all", "entrypointer.dev/grace-period": "3s"}, CopierImage: "copier"}
	p := asking(corev1.Container{Name: "main", Image: "app"})
	p.Annotations = nil
	result, err := o.Inject(t.Context(), "tenant", p)
	require.NoError(t, err)
	require.Equal(t, pod.Injected, result.Outcome)
	require.Equal(t, pod.DeliveryInitContainer, result.Delivery, "only a cluster knows its nodes")
	require.Equal(t, "copier", result.Pod.Spec.InitContainers[0].Image)
	require.Equal(t, []string{"-timeout=2h", "-grace-period=3s", "-image-words=2:app", "--", "/app", "serve"}, result.Pod.Spec.Containers[0].Args)
}

func TestWithoutAConfigurationTheDefaultsDecide(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		annotations map[string]string
		want        pod.Outcome
	}{
		"opted in":                {optedIn, pod.Injected},
		"no annotation":           {nil, pod.NotOptedIn},
		"image volumes, by hand":  {map[string]string{pod.InjectAnnotation: "true", pod.DeliveryAnnotation: "image-volume"}, pod.Injected},
		"a claim, unknown here":   {map[string]string{pod.InjectAnnotation: "true", pod.DeliveryAnnotation: "claim"}, pod.Injected},
		"opted out by annotation": {map[string]string{pod.InjectAnnotation: "false"}, pod.NotOptedIn},
	} {
		result, err := offline.Options{Annotations: test.annotations}.Inject(t.Context(), "tenant", asking(main))
		require.NoError(t, err, name)
		require.Equal(t, test.want, result.Outcome, name)
	}
	_, err := offline.Options{Annotations: map[string]string{pod.InjectAnnotation: "maybe"}}.Inject(t.Context(), "tenant", asking(main))
	require.ErrorContains(t, err, `"maybe" is none of`)
	wrong := asking(main)
	wrong.Annotations["entrypointer.dev/timeout"] = "10 minutes"
	_, err = offline.Options{Annotations: optedIn}.Inject(t.Context(), "tenant", wrong)
	refusal := &pod.Refusal{}
	require.ErrorAs(t, err, &refusal)
	require.Equal(t, pod.InvalidAnnotation, refusal.Outcome)
}

func TestAFileThatIsNoConfigurationIsRefused(t *testing.T) {
	t.Parallel()
	for says, text := range map[string]string{
		"it is no ConfigMap":            "a: [",
		`but of kind "Pod"`:             "kind: Pod",
		`key "deliveri": it is unknown`: "kind: ConfigMap\ndata: {deliveri: auto}",
		`is none of ["init-container"`:  "kind: ConfigMap\ndata: {delivery: nowhere}",
	} {
		_, err := offline.ReadConfig(strings.NewReader(text))
		require.ErrorContains(t, err, says)
	}
}

// The credentials are those that docker and podman keep for the user.
func TestImagesAreLookedUpWithTheUsersCredentials(t *testing.T) {
	images := registry.New()
	var users []string
	server := httptest.NewServer(authenticated(images, &users))
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "http://")
	directory := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(directory, "config.json"), []byte(`{"auths":{"`+host+`":{"auth":"amFuZTpzZWNyZXQ="}}}`), 0o600))
	t.Setenv("DOCKER_CONFIG", directory)
	_, err := offline.Options{Annotations: optedIn}.Inject(t.Context(), "tenant", asking(corev1.Container{Name: "main", Image: host + "/app:1"}))
	require.Error(t, err, "the registry has no such image")
	require.Contains(t, users, "jane")
}

// authenticated notes who asks a registry, and lets in whoever has a name.
func authenticated(next http.Handler, users *[]string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, _, ok := r.BasicAuth()
		if !ok {
			w.Header().Set("WWW-Authenticate", `Basic realm="images"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		*users = append(*users, user)
		next.ServeHTTP(w, r)
	})
}
