// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/entrypointer/entrypointer/internal/logs/api"
)

func onePod() *apiServerOf {
	return &apiServerOf{tokens: map[string]token{"token": {ours, ofPod("pod", "uid")}}}
}

func TestAPodStaysInTheNamespaceInWhichItWasSeenFirst(t *testing.T) {
	t.Parallel()
	server := onePod()
	reviewer := server.reviewer()
	for range 3 {
		pod, err := reviewer.Writer(t.Context(), "token")
		require.NoError(t, err)
		require.Equal(t, "uid-tenant", pod.NamespaceUID)
		server.exists("uid-next", 0)
		server.pass(writerTTL)
	}
	require.EqualValues(t, 1, server.namespaceReads.Load())
	require.EqualValues(t, 3, server.reviews.Load())
}

// The first review says that the pod exists, the namespace is deleted and made again, and
// only then the service reads its UID.
func TestAPodOfAFormerNamespaceIsNotTakenForOneOfTheNext(t *testing.T) {
	t.Parallel()
	server := onePod()
	reviewer := server.reviewer()
	server.exists("uid-next", time.Second)
	server.asked = func() {
		if server.reviews.Load() == 2 {
			delete(server.tokens, "token")
		}
	}
	_, err := reviewer.Writer(t.Context(), "token")
	require.ErrorIs(t, err, api.ErrUnauthenticated)
}

func TestAPodOfANewNamespaceIsReviewedTwiceAtFirst(t *testing.T) {
	t.Parallel()
	server := onePod()
	reviewer := server.reviewer()
	server.exists("uid-next", time.Second)
	for _, reviews := range []int32{2, 3} {
		pod, err := reviewer.Writer(t.Context(), "token")
		require.NoError(t, err)
		require.Equal(t, "uid-next", pod.NamespaceUID)
		require.Equal(t, reviews, server.reviews.Load())
		server.pass(writerTTL)
	}
}

func TestAPodWritesWhileItsNamespaceCanNotBeRead(t *testing.T) {
	t.Parallel()
	server := onePod()
	reviewer := server.reviewer()
	server.noNamespaces = true
	pod, err := reviewer.Writer(t.Context(), "token")
	require.NoError(t, err)
	require.Equal(t, api.Pod{Namespace: "tenant", Name: "pod", UID: "uid"}, pod)
	_, err = reviewer.Namespace(t.Context(), "tenant")
	require.ErrorContains(t, err, `reading namespace "tenant"`)

	server.noNamespaces = false
	server.pass(writerTTL)
	pod, err = reviewer.Writer(t.Context(), "token")
	require.NoError(t, err)
	require.Equal(t, "uid-tenant", pod.NamespaceUID)
}

// An answer that doesn't come costs a pod's first request namespaceTimeout.
func TestAPodWritesWhileTheReadOfItsNamespaceHangs(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			<-r.Context().Done()
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(authenticationv1.TokenReview{
			TypeMeta: metav1.TypeMeta{Kind: "TokenReview", APIVersion: "authentication.k8s.io/v1"},
			Status:   authenticationv1.TokenReviewStatus{Authenticated: true, Audiences: ours, User: ofPod("pod", "uid")},
		})
	}))
	defer server.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	require.NoError(t, err)
	pod, err := New(client, slog.New(slog.DiscardHandler)).Writer(t.Context(), "token")
	require.NoError(t, err)
	require.Equal(t, api.Pod{Namespace: "tenant", Name: "pod", UID: "uid"}, pod)
}

func TestAPodWhoseNamespaceIsGoneIsGone(t *testing.T) {
	t.Parallel()
	server := onePod()
	reviewer := server.reviewer()
	server.namespace = nil
	_, err := reviewer.Writer(t.Context(), "token")
	require.ErrorIs(t, err, api.ErrUnauthenticated)
}

func TestANamespaceIsRememberedOnlyWhileItCanNotHaveBeenMadeAgain(t *testing.T) {
	t.Parallel()
	server := onePod()
	reviewer := server.reviewer()
	has := func(uid string, reads int32) {
		t.Helper()
		got, err := reviewer.Namespace(t.Context(), "tenant")
		require.NoError(t, err)
		require.Equal(t, uid, got.UID)
		require.Equal(t, reads, server.namespaceReads.Load())
	}
	has("uid-tenant", 1)
	server.pass(namespaceTTL - time.Millisecond)
	has("uid-tenant", 1)
	server.namespace.DeletionTimestamp = &metav1.Time{Time: server.now()}
	server.pass(2 * time.Millisecond)
	has("uid-tenant", 2)
	server.namespace = nil
	has("", 3)
	server.exists("uid-next", 0)
	has("uid-next", 4)
	got, err := reviewer.Namespace(t.Context(), "tenant")
	require.NoError(t, err)
	require.True(t, got.Created.Equal(server.namespace.CreationTimestamp.Time))
}
