// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package outage

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/reconciler"

	"github.com/entrypointer/entrypointer/internal/config"
)

const image = "registry.example.test/copier@sha256:1111111111111111111111111111111111111111111111111111111111111111"

type settings struct{ *config.Config }

func (s settings) Load() *config.Config { return s.Config }

func configured(t *testing.T, data map[string]string) settings {
	t.Helper()
	read, err := config.FromConfigMap(&corev1.ConfigMap{Data: data})
	require.NoError(t, err)
	return settings{read}
}

// newWriter returns the leader's, and the client that it uses. The namespace has these
// annotations.
func newWriter(t *testing.T, configuration configuration, annotations map[string]string) (*writer, *fake.Clientset) {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "entrypointer-system", Annotations: annotations}}
	client, known := fake.NewClientset(namespace), cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
	require.NoError(t, known.Add(namespace))
	w := &writer{
		client: client, namespaces: corelisters.NewNamespaceLister(known), key: types.NamespacedName{Name: namespace.Name}, image: image, settings: configuration,
	}
	require.NoError(t, w.Promote(reconciler.UniversalBucket(), nil))
	return w, client
}

func written(t *testing.T, client *fake.Clientset) map[string]string {
	t.Helper()
	has, err := client.CoreV1().Namespaces().Get(t.Context(), "entrypointer-system", metav1.GetOptions{})
	require.NoError(t, err)
	return has.Annotations
}

func TestTheImageIsWrittenWhileTheConfigurationIsOneThatThePolicyKnows(t *testing.T) {
	for name, test := range map[string]struct {
		data  map[string]string
		plain bool
	}{
		"the default":              {nil, true},
		"the default, in words":    {map[string]string{"delivery": "init-container", "status-version": "omitted", "pod-owners": "Tekton"}, true},
		"lookups":                  {map[string]string{"failed-lookup": "admit", "allowed-registries": "registry.example", "lookup-timeout": "1s"}, true},
		"options of pods":          {map[string]string{"pod-options": "timeout", "pod-opt-out": "forbidden"}, true},
		"another delivery":         {map[string]string{"delivery": "image-volume"}, false},
		"auto":                     {map[string]string{"delivery": "auto"}, false},
		"options of all":           {map[string]string{"defaults": "timeout: 1h"}, false},
		"the version in statuses":  {map[string]string{"status-version": "included"}, false},
		"no pods of TaskRuns":      {map[string]string{"pod-owners": "Knative"}, false},
		"TaskRuns among the other": {map[string]string{"pod-owners": "Knative, Tekton, Argo"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			for _, before := range []map[string]string{nil, {config.OutageAnnotation: "another"}, {config.OutageAnnotation: image}, {config.OutagePrefix + "0": image}, {"somebody's": "own"}} {
				w, client := newWriter(t, configured(t, test.data), before)
				require.NoError(t, w.Reconcile(t.Context(), ""))
				after := written(t, client)
				if test.plain {
					require.Equal(t, image, after[config.OutageAnnotation])
				} else {
					require.NotContains(t, after, config.OutageAnnotation)
				}
				require.NotContains(t, after, config.OutagePrefix+"0", "it is of another release")
				require.Equal(t, before["somebody's"], after["somebody's"])
			}
		})
	}
}

func TestWhatIsThereIsNotWrittenAgain(t *testing.T) {
	for _, test := range []struct{ data, annotations map[string]string }{
		{nil, map[string]string{config.OutageAnnotation: image, "other": "x"}},
		{map[string]string{"delivery": "auto"}, map[string]string{"other": "x"}},
	} {
		w, client := newWriter(t, configured(t, test.data), test.annotations)
		require.NoError(t, w.Reconcile(t.Context(), ""))
		require.Empty(t, client.Actions())
	}
}

func TestWhileTheInjectorIsBeingUninstalledNothingIsWritten(t *testing.T) {
	w, client := newWriter(t, configured(t, nil), nil)
	namespace, err := w.namespaces.Get("entrypointer-system")
	require.NoError(t, err)
	namespace.DeletionTimestamp = &metav1.Time{}
	require.NoError(t, w.Reconcile(t.Context(), ""))
	w.key.Name = "gone"
	require.NoError(t, w.Reconcile(t.Context(), ""))
	require.Empty(t, client.Actions())
}

func TestBeforeThereIsAConfigurationNothingIsWritten(t *testing.T) {
	w, client := newWriter(t, settings{}, nil)
	require.NoError(t, w.Reconcile(t.Context(), ""))
	require.Empty(t, client.Actions())
}

func TestOnlyTheLeaderWrites(t *testing.T) {
	w, client := newWriter(t, configured(t, nil), nil)
	w.Demote(reconciler.UniversalBucket())
	require.True(t, controller.IsSkipKey(w.Reconcile(t.Context(), "")))
	require.Empty(t, client.Actions())
}

func TestARefusalIsSaid(t *testing.T) {
	w, client := newWriter(t, configured(t, nil), nil)
	client.PrependReactor("patch", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("no")
	})
	require.ErrorContains(t, w.Reconcile(t.Context(), ""), `writing annotation entrypointer-wraps-taskruns-1 of namespace "entrypointer-system": no`)
}
