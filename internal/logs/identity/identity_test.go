// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"

	"github.com/entrypointer/entrypointer/internal/logs/api"
	"github.com/entrypointer/entrypointer/internal/logs/endpoint"
)

const apiServer = "https://kubernetes.default.svc"

// A token is how the API server reviews a token.
type token struct {
	audiences []string // which it is for
	user      authenticationv1.UserInfo
}

// An apiServerOf answers as the API server does, and counts the questions.
type apiServerOf struct {
	tokens  map[string]token
	deaf    bool // to audiences, as an authenticator that knows none
	down    atomic.Bool
	reviews atomic.Int32
	access  atomic.Int32
	asked   func() // while a review is under way
	may     func(authorizationv1.SubjectAccessReviewSpec) bool

	namespace      *corev1.Namespace // nil if it doesn't exist
	namespaceReads atomic.Int32
	noNamespaces   bool // the service may not get namespaces

	documents map[string]string // those of the OpenID discovery, by path
	keyReads  atomic.Int32

	mu    sync.Mutex
	clock time.Time
}

func (s *apiServerOf) now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clock
}

func (s *apiServerOf) pass(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock = s.clock.Add(d)
}

func (s *apiServerOf) reviewer() *Reviewer {
	s.clock = time.Now()
	s.exists("uid-tenant", 24*time.Hour)
	client := fake.NewClientset()
	client.PrependReactor("get", "namespaces", func(action k8stesting.Action) (bool, runtime.Object, error) {
		s.namespaceReads.Add(1)
		name := action.(k8stesting.GetAction).GetName()
		switch {
		case s.down.Load():
			return true, nil, apierrors.NewServiceUnavailable("no leader")
		case s.noNamespaces:
			return true, nil, apierrors.NewForbidden(corev1.Resource("namespaces"), name, nil)
		case s.namespace == nil || name != s.namespace.Name:
			return true, nil, apierrors.NewNotFound(corev1.Resource("namespaces"), name)
		}
		return true, s.namespace.DeepCopy(), nil
	})
	client.PrependReactor("create", "tokenreviews", func(action k8stesting.Action) (bool, runtime.Object, error) {
		s.reviews.Add(1)
		if s.asked != nil {
			s.asked()
		}
		if s.down.Load() {
			return true, nil, apierrors.NewServiceUnavailable("no leader")
		}
		return true, s.review(action.(k8stesting.CreateAction).GetObject().(*authenticationv1.TokenReview)), nil
	})
	client.PrependReactor("create", "subjectaccessreviews", func(action k8stesting.Action) (bool, runtime.Object, error) {
		s.access.Add(1)
		if s.down.Load() {
			return true, nil, apierrors.NewServiceUnavailable("no leader")
		}
		review := action.(k8stesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview)
		review.Status.Allowed = s.may(review.Spec)
		return true, review, nil
	})
	return newReviewer(client, slog.New(slog.DiscardHandler), s.readKeys, s.now)
}

// readKeys reads a document of the OpenID discovery.
func (s *apiServerOf) readKeys(_ context.Context, path string) ([]byte, error) {
	s.keyReads.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if document, is := s.documents[path]; is {
		return []byte(document), nil
	}
	return nil, errors.New("forbidden")
}

// exists makes a namespace of some age.
func (s *apiServerOf) exists(uid types.UID, age time.Duration) {
	s.namespace = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "tenant", UID: uid, CreationTimestamp: metav1.NewTime(s.now().Add(-age))}}
}

func (s *apiServerOf) review(review *authenticationv1.TokenReview) *authenticationv1.TokenReview {
	known, ok := s.tokens[review.Spec.Token]
	if s.deaf {
		review.Status.Authenticated, review.Status.User = ok, known.user
		return review
	}
	wanted := review.Spec.Audiences
	if len(wanted) == 0 {
		wanted = []string{apiServer}
	}
	for _, audience := range wanted {
		for _, a := range known.audiences {
			if a == audience {
				review.Status = authenticationv1.TokenReviewStatus{Authenticated: true, User: known.user, Audiences: append(review.Status.Audiences, a)}
			}
		}
	}
	return review
}

func ofPod(name, uid string) authenticationv1.UserInfo {
	return authenticationv1.UserInfo{Username: "system:serviceaccount:tenant:default", Extra: map[string]authenticationv1.ExtraValue{
		podName: {name}, podUID: {uid},
	}}
}

var ours = []string{endpoint.Audience}

func TestTokensOfWriters(t *testing.T) {
	t.Parallel()
	extra := func(key string, values ...string) authenticationv1.UserInfo {
		user := ofPod("pod", "uid")
		if user.Extra[key] = values; len(values) == 0 {
			delete(user.Extra, key)
		}
		return user
	}
	called := func(name string) authenticationv1.UserInfo {
		user := ofPod("pod", "uid")
		user.Username = name
		return user
	}
	for name, test := range map[string]struct {
		token token
		deaf  bool
		want  api.Pod
	}{
		"a pod":                          {token: token{ours, ofPod("pod", "uid")}, want: api.Pod{Namespace: "tenant", NamespaceUID: "uid-tenant", Name: "pod", UID: "uid"}},
		"a pod, for several":             {token: token{[]string{apiServer, endpoint.Audience}, ofPod("pod", "uid")}, want: api.Pod{Namespace: "tenant", NamespaceUID: "uid-tenant", Name: "pod", UID: "uid"}},
		"a token for the API server":     {token: token{[]string{apiServer}, ofPod("pod", "uid")}},
		"a token for others":             {token: token{[]string{"vault"}, ofPod("pod", "uid")}},
		"no audiences known":             {token: token{ours, ofPod("pod", "uid")}, deaf: true},
		"nobody's token":                 {},
		"no pod":                         {token: token{ours, authenticationv1.UserInfo{Username: "system:serviceaccount:tenant:default"}}},
		"no name":                        {token: token{ours, extra(podName)}},
		"an empty name":                  {token: token{ours, extra(podName, "")}},
		"no UID":                         {token: token{ours, extra(podUID)}},
		"two UIDs":                       {token: token{ours, extra(podUID, "uid", "another")}},
		"a person":                       {token: token{ours, called("jane")}},
		"a node":                         {token: token{ours, called("system:node:node")}},
		"a service account without name": {token: token{ours, called("system:serviceaccount:tenant:")}},
		"no namespace":                   {token: token{ours, called("system:serviceaccount::default")}},
		"too many parts":                 {token: token{ours, called("system:serviceaccount:tenant:default:x")}},
		"too few parts":                  {token: token{ours, called("system:serviceaccount:tenant")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := &apiServerOf{tokens: map[string]token{"token": test.token}, deaf: test.deaf}
			got, err := server.reviewer().Writer(t.Context(), "token")
			if test.want == (api.Pod{}) {
				require.ErrorIs(t, err, api.ErrUnauthenticated)
			} else {
				require.NoError(t, err)
			}
			require.Equal(t, test.want, got)
		})
	}
}

func TestTokensOfReaders(t *testing.T) {
	t.Parallel()
	jane := authenticationv1.UserInfo{Username: "jane", UID: "7", Groups: []string{"developers"}, Extra: map[string]authenticationv1.ExtraValue{"scopes": {"a", "b"}}}
	for name, test := range map[string]struct {
		token token
		deaf  bool
		want  string
	}{
		"a person":                       {token: token{[]string{apiServer}, jane}, want: "jane"},
		"a person, no audiences known":   {token: token{nil, jane}, deaf: true, want: "jane"},
		"a pod, by what it writes with":  {token: token{ours, ofPod("pod", "uid")}},
		"a token for others":             {token: token{[]string{"vault"}, jane}},
		"nobody's token":                 {},
		"a pod, by what it asks kube by": {token: token{[]string{apiServer}, ofPod("pod", "uid")}, want: "system:serviceaccount:tenant:default"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := &apiServerOf{tokens: map[string]token{"token": test.token}, deaf: test.deaf}
			if name == "nobody's token" {
				server.tokens = nil
			}
			got, err := server.reviewer().Reader(t.Context(), "token")
			if test.want == "" {
				require.ErrorIs(t, err, api.ErrUnauthenticated)
				require.Zero(t, got)
				return
			}
			require.NoError(t, err)
			require.Equal(t, test.want, got.Name)
			if got.Name == "jane" {
				require.Equal(t, api.User{Name: "jane", UID: "7", Groups: []string{"developers"}, Extra: map[string][]string{"scopes": {"a", "b"}}}, got)
			}
		})
	}
}

func TestAWritersTokenReadsNothingEvenIfTheAPIServerAcceptsIt(t *testing.T) {
	t.Parallel()
	client := fake.NewClientset()
	client.PrependReactor("create", "tokenreviews", func(k8stesting.Action) (bool, runtime.Object, error) {
		return true, &authenticationv1.TokenReview{Status: authenticationv1.TokenReviewStatus{
			Authenticated: true, User: ofPod("pod", "uid"), Audiences: []string{endpoint.Audience},
		}}, nil
	})
	_, err := New(client, slog.New(slog.DiscardHandler)).Reader(t.Context(), "token")
	require.ErrorIs(t, err, api.ErrUnauthenticated)
}

func TestPermissionToRead(t *testing.T) {
	t.Parallel()
	server := &apiServerOf{}
	var asked authorizationv1.SubjectAccessReviewSpec
	server.may = func(spec authorizationv1.SubjectAccessReviewSpec) bool {
		asked = spec
		return spec.User == "jane" && spec.ResourceAttributes.Namespace == "tenant"
	}
	reviewer := server.reviewer()
	jane := api.User{Name: "jane", UID: "7", Groups: []string{"developers"}, Extra: map[string][]string{"scopes": {"a"}}}
	for range 3 {
		require.NoError(t, reviewer.MayRead(t.Context(), jane, "tenant", "pod"))
	}
	require.EqualValues(t, 1, server.access.Load())
	require.Equal(t, authorizationv1.SubjectAccessReviewSpec{
		User: "jane", UID: "7", Groups: []string{"developers"}, Extra: map[string]authorizationv1.ExtraValue{"scopes": {"a"}},
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: "tenant", Verb: "get", Version: "v1", Resource: "pods", Subresource: "log", Name: "pod"},
	}, asked)
	require.ErrorIs(t, reviewer.MayRead(t.Context(), jane, "elsewhere", "pod"), api.ErrForbidden)
	require.ErrorIs(t, reviewer.MayRead(t.Context(), api.User{Name: "john"}, "tenant", "pod"), api.ErrForbidden)
	require.NoError(t, reviewer.MayAsk(t.Context(), jane, "tenant"))
	require.Equal(t, &authorizationv1.ResourceAttributes{Namespace: "tenant", Verb: "get", Group: "logs.entrypointer.dev", Version: "v1alpha1", Resource: "logs", Subresource: "log"}, asked.ResourceAttributes)
	require.ErrorIs(t, reviewer.MayAsk(t.Context(), jane, "elsewhere"), api.ErrForbidden)

	server.may = func(authorizationv1.SubjectAccessReviewSpec) bool { return false }
	server.pass(readerTTL + time.Millisecond)
	require.ErrorIs(t, reviewer.MayRead(t.Context(), jane, "tenant", "pod"), api.ErrForbidden)
	server.down.Store(true)
	server.pass(refusalTTL + time.Millisecond)
	err := reviewer.MayRead(t.Context(), jane, "tenant", "pod")
	require.ErrorContains(t, err, "reviewing access to logs")
	require.NotErrorIs(t, err, api.ErrForbidden)
}

func TestCachedTokensExpire(t *testing.T) {
	t.Parallel()
	server := &apiServerOf{tokens: map[string]token{"token": {ours, ofPod("pod", "uid")}}}
	reviewer := server.reviewer()
	write := func(name string) error {
		_, err := reviewer.Writer(t.Context(), name)
		return err
	}
	asked := func(times int32) { t.Helper(); require.Equal(t, times, server.reviews.Swap(0)) }

	require.NoError(t, write("token"))
	server.pass(writerTTL - time.Second)
	require.NoError(t, write("token"))
	asked(1)
	server.pass(time.Second)
	require.NoError(t, write("token"))
	asked(1)

	require.ErrorIs(t, write("bad"), api.ErrUnauthenticated)
	require.ErrorIs(t, write("bad"), api.ErrUnauthenticated)
	asked(1)
	server.tokens["bad"] = token{ours, ofPod("another", "uid-2")}
	server.pass(refusalTTL + time.Millisecond)
	require.NoError(t, write("bad"), "the token has become valid")
	asked(1)

	delete(server.tokens, "token")
	server.pass(writerTTL)
	require.ErrorIs(t, write("token"), api.ErrUnauthenticated)
	server.down.Store(true)
	server.pass(refusalTTL + time.Millisecond)
	require.NotErrorIs(t, write("token"), api.ErrUnauthenticated, "what was refused isn't believed in an outage")
	require.Error(t, write("token"))
}

func TestAPodWritesOnWhileTheAPIServerIsDown(t *testing.T) {
	t.Parallel()
	server := &apiServerOf{tokens: map[string]token{"token": {ours, ofPod("pod", "uid")}, "user": {[]string{apiServer}, authenticationv1.UserInfo{Username: "jane"}}}}
	reviewer := server.reviewer()
	_, err := reviewer.Writer(t.Context(), "token")
	require.NoError(t, err)
	_, err = reviewer.Reader(t.Context(), "user")
	require.NoError(t, err)
	server.down.Store(true)
	server.pass(writerTTL)
	server.reviews.Store(0)
	for range 10 {
		pod, err := reviewer.Writer(t.Context(), "token")
		require.NoError(t, err)
		require.Equal(t, "pod", pod.Name)
	}
	require.EqualValues(t, 1, server.reviews.Load(), "not each request waits for the API server")
	_, err = reviewer.Reader(t.Context(), "user")
	require.ErrorContains(t, err, "no leader", "readers wait")
	_, err = reviewer.Writer(t.Context(), "unknown")
	require.ErrorContains(t, err, "reviewing a token")
	require.NotErrorIs(t, err, api.ErrUnauthenticated)

	server.pass(outageTTL - time.Second)
	_, err = reviewer.Writer(t.Context(), "token")
	require.NoError(t, err)
	server.pass(time.Second)
	_, err = reviewer.Writer(t.Context(), "token")
	require.ErrorContains(t, err, "no leader")
	server.down.Store(false)
	_, err = reviewer.Writer(t.Context(), "token")
	require.NoError(t, err)
}

func TestConcurrentQuestionsAreMerged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		answer := make(chan struct{})
		server := &apiServerOf{tokens: map[string]token{"token": {ours, ofPod("pod", "uid")}}, asked: func() { <-answer }}
		reviewer := server.reviewer()
		gone, leave := context.WithCancel(t.Context())
		first, others := make(chan error, 1), make(chan error, 20)
		go func() {
			_, err := reviewer.Writer(gone, "token")
			first <- err
		}()
		synctest.Wait()
		for range cap(others) {
			go func() {
				_, err := reviewer.Writer(t.Context(), "token")
				others <- err
			}()
		}
		synctest.Wait()
		leave()
		require.ErrorIs(t, <-first, context.Canceled, "a canceled request returns at once")
		close(answer)
		for range cap(others) {
			require.NoError(t, <-others)
		}
		require.EqualValues(t, 1, server.reviews.Load())
	})
}

func TestTheCacheIsBounded(t *testing.T) {
	t.Parallel()
	m := newAnswerCache[int](10, time.Hour, 0, time.Now)
	good := func(context.Context) (int, error) { return 7, nil }
	for i := range 100 {
		_, err := m.get(t.Context(), digest{byte(i), 1}, time.Hour, func(context.Context) (int, error) { return 0, fmt.Errorf("%d: %w", i, api.ErrUnauthenticated) })
		require.ErrorIs(t, err, api.ErrUnauthenticated)
		got, err := m.get(t.Context(), digest{byte(i), 2}, time.Hour, good)
		require.NoError(t, err)
		require.Equal(t, 7, got)
	}
	require.Len(t, m.accepted.Keys(), 10)
	require.Len(t, m.refused.Keys(), 10)

	// Made-up tokens evict no valid ones.
	for i := range 100 {
		_, err := m.get(t.Context(), digest{byte(i), 3}, time.Hour, func(context.Context) (int, error) { return 0, api.ErrUnauthenticated })
		require.ErrorIs(t, err, api.ErrUnauthenticated)
	}
	_, err := m.get(t.Context(), digest{99, 2}, time.Hour, func(context.Context) (int, error) { return 0, errors.New("asked again") })
	require.NoError(t, err)
}

func TestTokensAreNotKept(t *testing.T) {
	t.Parallel()
	server := &apiServerOf{tokens: map[string]token{"secret-token": {ours, ofPod("pod", "uid")}}}
	reviewer := server.reviewer()
	_, err := reviewer.Writer(t.Context(), "secret-token")
	require.NoError(t, err)
	require.NotContains(t, fmt.Sprintf("%#v", reviewer.writers.accepted.Keys()), "secret-token")
}
