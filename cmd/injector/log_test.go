// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	_ "knative.dev/pkg/client/injection/kube/informers/admissionregistration/v1/mutatingwebhookconfiguration/fake"
	namespaceinformer "knative.dev/pkg/client/injection/kube/informers/core/v1/namespace"
	_ "knative.dev/pkg/client/injection/kube/informers/core/v1/namespace/fake"
	"knative.dev/pkg/configmap"
	"knative.dev/pkg/injection"
	_ "knative.dev/pkg/injection/clients/namespacedkube/informers/core/v1/secret/fake"
	_ "knative.dev/pkg/injection/clients/namespacedkube/informers/factory/fake"
	"knative.dev/pkg/logging"
	"knative.dev/pkg/logging/logkey"
	rtesting "knative.dev/pkg/reconciler/testing"
	_ "knative.dev/pkg/system/testing"
	"knative.dev/pkg/webhook"

	"github.com/entrypointer/entrypointer/internal/autodelivery"
	"github.com/entrypointer/entrypointer/internal/config"
	"github.com/entrypointer/entrypointer/internal/podwebhook"
)

// newPodWebhook returns the server of run, with the webhook for pods alone, in a
// cluster of one namespace, which opted in. It writes its log to core.
func newPodWebhook(t testing.TB, core zapcore.Core) http.Handler {
	t.Helper()
	apiServer := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(apiServer.Close)
	ctx, _ := rtesting.SetupFakeContext(t)
	ctx = injection.WithConfig(ctx, &rest.Config{Host: apiServer.URL})
	ctx = webhook.WithOptions(ctx, webhook.Options{SecretName: "certs"})
	ctx = logging.WithLogger(ctx, zap.New(demoteLibrary(core), zap.AddCaller()).Sugar())
	require.NoError(t, namespaceinformer.Get(ctx).Informer().GetIndexer().Add(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: "tenant", Annotations: map[string]string{"entrypointer.dev/inject": "true"},
	}}))
	watcher, settings := &configmap.ManualWatcher{}, &config.Store{}
	settings.Watch(logging.FromContext(ctx), watcher)
	watcher.OnChange(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: config.Name}})
	controller := podwebhook.NewAdmissionController(podwebhook.Images{Copier: "copier"}, settings, autodelivery.New(autodelivery.Images{}), func(string) string { return "" })(ctx, watcher)
	server, err := newHandler(ctx, []any{controller.Reconciler})
	require.NoError(t, err)
	return server
}

// admit posts a saved review of a pod.
func admit(t *testing.T, server http.Handler) {
	t.Helper()
	review, err := os.ReadFile("../../internal/podwebhook/testdata/review.json")
	require.NoError(t, err)
	// With a command, no registry is asked.
	review = bytes.Replace(review, []byte(`"image": "busybox"`), []byte(`"image": "busybox", "command": ["sh"]`), 1)
	request := httptest.NewRequest(http.MethodPost, "/pods", bytes.NewReader(review))
	request.Header.Set("Content-Type", "application/json")
	answer := httptest.NewRecorder()
	server.ServeHTTP(answer, request)
	require.Contains(t, answer.Body.String(), `"allowed":true`)
}

func TestADecisionIsOneLineThatNamesThePodAndTheOutcome(t *testing.T) {
	core, log := observer.New(zap.InfoLevel)
	server := newPodWebhook(t, core)
	log.TakeAll()
	admit(t, server)
	lines := log.All()
	require.Len(t, lines, 1)
	require.Equal(t, "Decided on a pod", lines[0].Message)
	fields := lines[0].ContextMap()
	require.NotZero(t, fields["took"])
	delete(fields, "took")
	require.Equal(t, map[string]any{
		"namespace": "tenant", "pod": "app-7d4b9-*", "controller": "ReplicaSet/app-7d4b9",
		"outcome": "Injected", "owner": "Annotation", "delivery": "init-container", "wrapped": []any{"app"},
	}, fields)
}

func TestAtDebugTheLibrarysLinesAreThereAsWell(t *testing.T) {
	core, log := observer.New(zap.DebugLevel)
	server := newPodWebhook(t, core)
	log.TakeAll()
	admit(t, server)
	require.Equal(t, 1, log.FilterLevelExact(zap.InfoLevel).Len())
	require.NotZero(t, log.FilterLevelExact(zap.DebugLevel).FilterMessageSnippet("Webhook ServeHTTP").Len())
}

func TestTheLibrarysWarningsStay(t *testing.T) {
	core, log := observer.New(zap.InfoLevel)
	logger := zap.New(demoteLibrary(core), zap.AddCaller()).Sugar()
	(&logging.WarningHandler{Logger: logger}).HandleWarningHeader(299, "", "that version is deprecated")
	require.Equal(t, 1, log.FilterLevelExact(zap.WarnLevel).Len())
}

func TestALineNamesTheReplicaThatWritesIt(t *testing.T) {
	t.Setenv("POD_NAME", "injector-0")
	file := t.TempDir() + "/log"
	settings, err := json.Marshal(map[string]any{"outputPaths": []string{file}})
	require.NoError(t, err)
	logger, level, err := newLogger(logging.WithConfig(t.Context(), &logging.Config{
		LoggingConfig: string(settings), LoggingLevel: map[string]zapcore.Level{component: zap.WarnLevel},
	}))
	require.NoError(t, err)
	require.Equal(t, zap.WarnLevel, level.Level())
	logger.Warn("Tested")
	written, err := os.ReadFile(file)
	require.NoError(t, err)
	var line map[string]any
	require.NoError(t, json.Unmarshal(written, &line), "one line: %s", written)
	require.Equal(t, "injector-0", line["injector"])
	require.NotContains(t, line, logkey.Pod)
}

func TestOfManyEqualLinesASampleIsWritten(t *testing.T) {
	core, log := observer.New(zap.InfoLevel)
	const kept = 2
	logger := zap.New(demoteLibrary(zapcore.NewSamplerWithOptions(core, time.Hour, kept, 0)), zap.AddCaller())
	for range 10 {
		logger.Info("Decided on a pod")
	}
	require.Equal(t, kept, log.Len())
}
