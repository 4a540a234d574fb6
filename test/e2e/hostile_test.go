// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/entrypointer/entrypointer/internal/config"
	"github.com/entrypointer/entrypointer/test/framework"
)

const (
	// hostilePods is how many pods of each kind are sent, hostileAtOnce how many at a time.
	hostilePods   = 12
	hostileAtOnce = 24
	// halfOfTheLimit is half of what the injector may use (config/webhook/500-injector.yaml).
	halfOfTheLimit = 256 << 20
)

// All that tenants can send is sent at its worst and in bulk, while a tenant
// that knows nothing of it creates pods.
func TestTheWorstThatTenantsAndTheirRegistriesSendIsBorne(t *testing.T) {
	registry := hostileRegistry(t)
	hostile, modest := optedInNamespace(t), optedInNamespace(t)
	crowdedSecret(t, hostile, registry)
	before := restarts(t)
	watching, stop := context.WithCancel(t.Context())
	peak := watchMemory(watching, t)

	var pods []*corev1.Pod
	for i := range hostilePods {
		for _, image := range []string{"index", "layers", "words", "header", "endless"} {
			pods = append(pods, askingPod(image, corev1.Container{Name: "main", Image: fmt.Sprintf("%s/%s:%d", registry, image, i)}))
		}
		long := askingPod("long-name", corev1.Container{Name: "main", Image: fmt.Sprint(registry, "/", i, strings.Repeat("/x", 1<<19))})
		crowded := askingPod("crowded-secret", corev1.Container{Name: "main", Image: fmt.Sprintf("%s/private:%d", registry, i)})
		crowded.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "crowded"}}
		many := askingPod("many-secrets", corev1.Container{Name: "main", Image: fmt.Sprintf("%s/many:%d", registry, i)})
		for j := range 40_000 {
			many.Spec.ImagePullSecrets = append(many.Spec.ImagePullSecrets, corev1.LocalObjectReference{Name: fmt.Sprint("s-", i, "-", j)})
		}
		pods = append(pods, long, crowded, many)
	}
	var refused atomic.Int64
	slots := make(chan struct{}, hostileAtOnce)
	var flood sync.WaitGroup
	flood.Go(func() {
		for _, p := range pods {
			slots <- struct{}{}
			flood.Go(func() {
				defer func() { <-slots }()
				_, err := cluster.Kube.CoreV1().Pods(hostile).Create(t.Context(), p, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
				if err != nil {
					refused.Add(1)
				}
			})
		}
	})
	atOnce := 0
	for i := range 10 {
		tries := 0
		eventually(t, time.Minute, "another namespace's pod to be admitted", func() error {
			tries++
			_, err := wouldBecome(t, modest, askingPod(fmt.Sprint("modest-", i), corev1.Container{Name: "main", Image: image(t, "busybox:1.37")}))
			return err
		})
		if tries == 1 {
			atOnce++
		}
	}
	require.GreaterOrEqual(t, atOnce, 5, "another namespace's pods are admitted meanwhile")
	flood.Wait()
	stop()
	t.Logf("%d of %d hostile pods were refused; the injector used %d MiB at most", refused.Load(), len(pods), peak()>>20)
	require.Equal(t, before, restarts(t), "no replica died")
	require.Less(t, peak(), int64(halfOfTheLimit))
	require.GreaterOrEqual(t, refused.Load(), int64(hostilePods*(len(pods)/hostilePods-1)), "all are refused whose command line can't be known")
}

// watchMemory returns a function that tells the most that a replica of the injector used.
func watchMemory(ctx context.Context, t *testing.T) (peak func() int64) {
	t.Helper()
	replicas, err := cluster.InjectorPods(t.Context())
	require.NoError(t, err)
	var most atomic.Int64
	var watch sync.WaitGroup
	for _, p := range replicas {
		watch.Go(func() {
			for ctx.Err() == nil {
				if now, err := cluster.WorkingSet(ctx, p.Spec.NodeName, p.Name); err == nil && now > most.Load() {
					most.Store(now)
				}
				time.Sleep(time.Second)
			}
		})
	}
	return func() int64 { watch.Wait(); return most.Load() }
}

// restarts are those of the injector's replicas, by their names.
func restarts(t *testing.T) map[string]int32 {
	t.Helper()
	replicas, err := cluster.InjectorPods(t.Context())
	require.NoError(t, err)
	counts := map[string]int32{}
	for _, p := range replicas {
		counts[p.Name] = p.Status.ContainerStatuses[0].RestartCount
	}
	return counts
}

// crowdedSecret is as large as a secret may be, and of entries as small.
func crowdedSecret(t *testing.T, namespace, registry string) {
	t.Helper()
	var entries strings.Builder
	for i := range 30_000 {
		fmt.Fprintf(&entries, `"r%d.example":{"auth":"eDp5"},`, i)
	}
	_, err := cluster.Kube.CoreV1().Secrets(namespace).Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "crowded"},
		Type:       corev1.SecretTypeDockerConfigJson,
		Data:       map[string][]byte{corev1.DockerConfigJsonKey: fmt.Appendf(nil, `{"auths":{%s%q:{"auth":"eDp5"}}}`, entries.String(), registry)},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
}

// hostileRegistry answers at an address of this machine that nodes reach.
func hostileRegistry(t *testing.T) (host string) {
	t.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort(reachableAddress(t).String(), "0"))
	require.NoError(t, err)
	server := &http.Server{Handler: http.HandlerFunc(hostileAnswer), ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return listener.Addr().String()
}

// The longest that is read of a manifest, and of a config.
const (
	longManifest = 4 << 20
	longConfig   = 1 << 20
)

// filled is JSON of a length: a list of elements between what comes before and after.
func filled(length int, before, element, after string) []byte {
	n := (length - len(before) - len(after)) / (len(element) + 1)
	return []byte(before + strings.TrimSuffix(strings.Repeat(element+",", n), ",") + after)
}

func digestOf(content []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(content)) }

const (
	ociIndex    = "application/vnd.oci.image.index.v1+json"
	ociManifest = "application/vnd.oci.image.manifest.v1+json"
	ociConfig   = "application/vnd.oci.image.config.v1+json"
)

var hostileContent = func() map[string]struct {
	mediaType        string
	manifest, config []byte
} {
	words := filled(longConfig, `{"os":"linux","architecture":"amd64","config":{"Cmd":[`, `""`, `]}}`)
	small := []byte(`{"os":"linux","architecture":"amd64","config":{"Cmd":["true"]}}`)
	describe := func(config []byte) string {
		return fmt.Sprintf(`"config":{"mediaType":%q,"digest":%q,"size":%d}`, ociConfig, digestOf(config), len(config))
	}
	return map[string]struct {
		mediaType        string
		manifest, config []byte
	}{
		"index":  {ociIndex, filled(longManifest, `{"manifests":[`, `{}`, `]}`), nil},
		"layers": {ociManifest, filled(longManifest, `{`+describe(small)+`,"layers":[`, `{}`, `]}`), small},
		"words":  {ociManifest, []byte(`{` + describe(words) + `}`), words},
	}
}()

func hostileAnswer(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/v2/" {
		return
	}
	name, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v2/"), "/")
	switch name {
	case "header":
		w.Header().Set("X-Long", strings.Repeat("x", 10<<20))
		return
	case "endless":
		w.Header().Set("Docker-Content-Digest", digestOf(nil))
		w.Header().Set("Content-Type", ociManifest)
		for r.Method == http.MethodGet && r.Context().Err() == nil {
			if _, err := w.Write(bytes.Repeat([]byte(" "), 1<<16)); err != nil {
				return
			}
		}
		return
	}
	content, ok := hostileContent[name]
	if !ok {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	body := content.manifest
	if strings.Contains(r.URL.Path, "/blobs/") {
		body = content.config
	}
	w.Header().Set("Content-Type", content.mediaType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.Header().Set("Docker-Content-Digest", digestOf(body))
	if r.Method == http.MethodGet {
		_, _ = w.Write(body)
	}
}

// Any pod can post to the Service of the webhook.
func TestWhatAForeignPodPostsHasNoEffectOnWhoDidNotOptIn(t *testing.T) {
	t.Parallel()
	registry := findPrivateRegistry(t)
	private := registry.push(t, "foreign", []string{"echo", "none-of-your-business"})
	victim, foreign := plainNamespace(t), plainNamespace(t)
	registry.login(t, victim, "login", registry.password)
	owner := `{"apiVersion":"batch/v1","kind":"Job","name":"victim","uid":"u","controller":true}`
	review := func(image string) string {
		return fmt.Sprintf(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","namespace":%q,"operation":"CREATE",`+
			`"kind":{"version":"v1","kind":"Pod"},"resource":{"version":"v1","resource":"pods"},`+
			`"object":{"metadata":{"name":"p","annotations":{"entrypointer.dev/inject":"true","entrypointer.dev/colour":"red"},"ownerReferences":[%s]},`+
			`"spec":{"imagePullSecrets":[{"name":"login"}],"containers":[{"name":"main","image":%q}]}}}}`, victim, owner, image)
	}
	script := fmt.Sprintf(`
import ssl, urllib.request
context = ssl._create_unverified_context()
for body in (%q, %q):
    request = urllib.request.Request("https://entrypointer-webhook.%s.svc/pods?timeout=10s", body.encode(), {"Content-Type": "application/json"})
    print(urllib.request.urlopen(request, context=context, timeout=30).read().decode())
`, review(private), review("registry.invalid/missing"), framework.SystemNamespace)
	p := plainPod("foreign", corev1.Container{Name: "main", Image: image(t, "python"), Command: []string{"python3", "-c", script}})
	createPod(t, foreign, p)
	got := ranMain(t, foreign, p.Name)
	require.Equal(t, "Completed", got.Reason, got.Log)
	require.Equal(t, 2, strings.Count(got.Log, `"allowed":true`), got.Log)
	require.NotContains(t, got.Log, "patch")
	require.NotContains(t, got.Log, "none-of-your-business")
	events, err := cluster.Kube.CoreV1().Events(victim).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	for _, event := range events.Items {
		require.NotEqual(t, "entrypointer", event.Source.Component, "%s", event.Message)
	}
}

// The API server of this cluster shows no certificate, so it is nobody, too.
func TestWithACAForAPIServersNobodyElseIsAnswered(t *testing.T) {
	namespace := optedInNamespace(t)
	p := askingPod("asked", corev1.Container{Name: "main", Image: "busybox", Command: []string{"true"}})
	webhook, err := cluster.Kube.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(t.Context(), framework.PodWebhook, metav1.GetOptions{})
	require.NoError(t, err)
	answers := func() error {
		_, err := wouldBecome(t, namespace, p)
		return err
	}
	require.NoError(t, answers())
	undo, err := configure(t, "api-server-ca", string(webhook.Webhooks[0].ClientConfig.CABundle), metav1.UpdateOptions{})
	require.NoError(t, err)
	defer func() {
		_, err := cluster.Kube.CoreV1().ConfigMaps(framework.SystemNamespace).Patch(t.Context(), config.Name, types.MergePatchType, undo, metav1.PatchOptions{})
		require.NoError(t, err)
		eventually(t, patience, "the injector to answer again", answers)
	}()
	eventually(t, patience, "the injector to refuse who shows no certificate", func() error {
		if err := answers(); err == nil || !strings.Contains(err.Error(), "api-server-ca") {
			return fmt.Errorf("it says nothing of api-server-ca: %w", err)
		}
		return nil
	})
}
