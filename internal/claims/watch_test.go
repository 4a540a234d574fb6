// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	logtesting "knative.dev/pkg/logging/testing"
)

// An installation is config/claims, which comes and goes.
type installation struct {
	answer  error
	watch   *watch
	changed chan string
}

func newInstallation(t *testing.T, w *world) *installation {
	t.Helper()
	scheme := metadatafake.NewTestScheme()
	require.NoError(t, metav1.AddMetaToScheme(scheme))
	var there []runtime.Object
	for _, claim := range w.allClaims() {
		there = append(there, &metav1.PartialObjectMetadata{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"}, ObjectMeta: claim.ObjectMeta,
		})
	}
	i := &installation{changed: make(chan string, 100)}
	i.watch = &watch{
		volumes: w.dynamic, metadata: metadatafake.NewSimpleMetadataClient(scheme, there...), logger: logtesting.TestLogger(t),
		changed: func(namespace string) { i.changed <- namespace },
	}
	w.dynamic.PrependReactor("list", "supervisorvolumes", func(clienttesting.Action) (bool, runtime.Object, error) {
		return i.answer != nil, nil, i.answer
	})
	return i
}

func TestClaimsAreMountedWhileConfigClaimsIsInstalled(t *testing.T) {
	w := filledClaim(t, Spec{})
	name := w.ready()
	i := newInstallation(t, w)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := &Claims{images: thisRelease}
	ready := func() string {
		c.watch.current.Store(i.watch.current.Load())
		return c.Ready("tenant")
	}

	i.answer = apierrors.NewNotFound(Resource.GroupResource(), "")
	i.watch.look(ctx)
	require.Empty(t, ready())
	require.True(t, i.watch.absent.Load())
	require.Empty(t, <-i.changed, "all namespaces are told")

	i.answer = nil
	i.watch.look(ctx)
	require.Equal(t, name, ready())
	require.False(t, i.watch.absent.Load())

	i.answer = errors.New("the API server doesn't answer")
	i.watch.look(ctx)
	require.Equal(t, name, ready(), "as before")

	i.answer = apierrors.NewForbidden(Resource.GroupResource(), "", errors.New("no right"))
	i.watch.look(ctx)
	require.Empty(t, ready())
	require.True(t, i.watch.absent.Load())

	i.answer = nil
	i.watch.look(ctx)
	require.Equal(t, name, ready(), "it may come back")
	i.watch.stop()
	require.Empty(t, ready())
}
