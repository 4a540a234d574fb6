// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package identity asks the API server who the writers and readers of logs are.
package identity

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/kubernetes"

	"github.com/entrypointer/entrypointer/internal/logs/api"
	"github.com/entrypointer/entrypointer/internal/logs/endpoint"
)

const (
	// writerTTL is for how long a deleted pod may still begin streams, and write, unless its
	// tokens are verified here.
	writerTTL = time.Minute
	// podTTL is for how long a deleted pod may still add to its streams by tokens that are
	// verified here.
	podTTL = 10 * time.Minute
	// readerTTL is for how long a reader whose token or permission was revoked may still
	// read.
	readerTTL = 10 * time.Second
	// refusalTTL is for how long a refusal is cached.
	refusalTTL = 10 * time.Second
	// outageTTL is for how much longer a pod is trusted while the API server can't be asked,
	// so that its logs don't end with the API server. The cost: a token of a pod that was
	// deleted can still write to that pod's own streams, and begin some, for as long as
	// podTTL and outageTTL after the pod's last review.
	outageTTL = 5 * time.Minute
	// maxRemembered bounds each kind of cached answers, of about 1 KiB each.
	maxRemembered = 10_000
	// maxPods bounds the tokens of pods, and the pods, that are cached. With more of them,
	// reviews are more frequent.
	maxPods = 30_000
)

// A Reviewer is the api.Authenticator that asks the API server.
type Reviewer struct {
	client  kubernetes.Interface
	keys    *keyCache
	writers *answerCache[api.Pod]
	// pods has the answer[api.Pod] of the last review of each pod, by its UID.
	pods    *cache.LRUExpireCache
	readers *answerCache[api.User]
	rights  *answerCache[struct{}]
	// namespaces has those that exist, by name.
	namespaces *cache.LRUExpireCache
	now        func() time.Time
}

var (
	_ api.Authenticator = (*Reviewer)(nil)
	_ api.Permissions   = (*Reviewer)(nil)
)

// New returns a Reviewer. Its client needs permission to create TokenReviews and
// SubjectAccessReviews, and to get namespaces. To verify tokens by itself, it needs those of
// the ClusterRole system:service-account-issuer-discovery; without them, it reviews each token
// every minute.
func New(client kubernetes.Interface, logger *slog.Logger) *Reviewer {
	return newReviewer(client, logger, readOf(client), time.Now)
}

func newReviewer(client kubernetes.Interface, logger *slog.Logger, read func(context.Context, string) ([]byte, error), now func() time.Time) *Reviewer {
	return &Reviewer{
		client: client,
		keys: &keyCache{read: read, now: now, failed: func(err error) {
			logger.Warn("Tokens of pods are reviewed every minute by the API server, because its keys can't be read", "error", err)
		}},
		writers: newAnswerCache[api.Pod](maxPods, refusalTTL, outageTTL, now),
		pods:    cache.NewLRUExpireCacheWithClock(maxPods, clock(now)),
		readers: newAnswerCache[api.User](maxRemembered, refusalTTL, 0, now),
		rights:  newAnswerCache[struct{}](maxRemembered, refusalTTL, 0, now),

		namespaces: cache.NewLRUExpireCacheWithClock(maxRemembered, clock(now)),
		now:        now,
	}
}

// Writer implements api.Authenticator: the token has to be for this service, and bound to
// a pod. A token that is verified here needs no review if the pod was reviewed within podTTL.
func (r *Reviewer) Writer(ctx context.Context, token string) (api.Pod, error) {
	key := sha256.Sum256([]byte(token))
	return r.writers.getWithin(ctx, key, podTTL, func(ctx context.Context) (answer[api.Pod], error) {
		is, err := r.keys.verify(ctx, token)
		if err != nil {
			return r.reviewPod(ctx, key, token, verified{})
		}
		if found, ok := r.pods.Get(is.pod.UID); ok {
			known := found.(answer[api.Pod])
			if pod := known.value; pod.Name == is.pod.Name && pod.Namespace == is.pod.Namespace && r.now().Before(known.refreshAt) {
				known.refreshAt = earliest(known.refreshAt, is.expires)
				return known, nil
			}
		}
		return r.reviewPod(ctx, key, token, is)
	})
}

// Beginner implements api.Authenticator: it is Writer with a review within writerTTL.
func (r *Reviewer) Beginner(ctx context.Context, token string) (api.Pod, error) {
	key := sha256.Sum256([]byte(token))
	return r.writers.getWithin(ctx, key, writerTTL, func(ctx context.Context) (answer[api.Pod], error) {
		is, _ := r.keys.verify(ctx, token) // if not, the review decides alone
		return r.reviewPod(ctx, key, token, is)
	})
}

// reviewPod has a token reviewed, and remembers its pod. The answer is valid for podTTL if the
// token was verified as well, and else for writerTTL.
func (r *Reviewer) reviewPod(ctx context.Context, key digest, token string, is verified) (a answer[api.Pod], err error) {
	if a.value, err = r.reviewWriter(ctx, token); err == nil {
		if known, ok := r.writers.cached(key); ok && known.value.NamespaceUID != "" {
			a.value = known.value // a token names the same pod for good
		} else {
			a.value, err = r.withNamespace(ctx, token, a.value)
		}
	}
	if isRefusal(err) && is.pod.UID != "" {
		r.pods.Remove(is.pod.UID) // its other tokens are to be reviewed as well
	}
	if err != nil {
		return a, err
	}
	a.asked = r.now()
	a.refreshAt = a.asked.Add(writerTTL)
	if is.pod.UID == a.value.UID && a.value.NamespaceUID != "" {
		a.refreshAt = a.asked.Add(podTTL)
		r.pods.Add(a.value.UID, a, podTTL)
		a.refreshAt = earliest(a.refreshAt, is.expires)
	}
	return a, nil
}

func earliest(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// reviewWriter returns the pod to which a valid token is bound.
func (r *Reviewer) reviewWriter(ctx context.Context, token string) (api.Pod, error) {
	status, err := r.review(ctx, token, endpoint.Audience)
	if err != nil {
		return api.Pod{}, err
	}
	// An API server without support for audiences returns none.
	if !slices.Contains(status.Audiences, endpoint.Audience) {
		return api.Pod{}, fmt.Errorf("checking a token: its audience isn't %q: %w", endpoint.Audience, api.ErrUnauthenticated)
	}
	return podOf(status.User)
}

// Reader implements api.Authenticator: the token has to be for the API server.
func (r *Reviewer) Reader(ctx context.Context, token string) (api.User, error) {
	return r.readers.get(ctx, sha256.Sum256([]byte(token)), readerTTL, func(ctx context.Context) (api.User, error) {
		status, err := r.review(ctx, token)
		if err != nil {
			return api.User{}, err
		}
		// The token with which a pod writes logs can't read them, even if the API server
		// accepts our audience as well.
		if slices.Contains(status.Audiences, endpoint.Audience) {
			return api.User{}, fmt.Errorf("checking a token: its audience is %q, which can only write: %w", endpoint.Audience, api.ErrUnauthenticated)
		}
		user := api.User{Name: status.User.Username, UID: status.User.UID, Groups: status.User.Groups, Extra: map[string][]string{}}
		for key, values := range status.User.Extra {
			user.Extra[key] = values
		}
		return user, nil
	})
}

// review returns an error unless a token is valid for one of some audiences, or without
// audiences, for the API server.
func (r *Reviewer) review(ctx context.Context, token string, audiences ...string) (authenticationv1.TokenReviewStatus, error) {
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: audiences}}
	review, err := r.client.AuthenticationV1().TokenReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return authenticationv1.TokenReviewStatus{}, fmt.Errorf("reviewing a token: %w", err)
	}
	if !review.Status.Authenticated {
		return review.Status, api.ErrUnauthenticated
	}
	return review.Status, nil
}

// The keys of the pod to which a token is bound, in the API server's answer.
const (
	podName = "authentication.kubernetes.io/pod-name"
	podUID  = "authentication.kubernetes.io/pod-uid"
)

func podOf(user authenticationv1.UserInfo) (api.Pod, error) {
	account, is := strings.CutPrefix(user.Username, "system:serviceaccount:")
	namespace, name, _ := strings.Cut(account, ":")
	if !is || namespace == "" || name == "" || strings.Contains(name, ":") {
		return api.Pod{}, fmt.Errorf("checking a token: %q isn't a service account: %w", user.Username, api.ErrUnauthenticated)
	}
	pod := api.Pod{Namespace: namespace, Name: single(user.Extra[podName]), UID: single(user.Extra[podUID])}
	if pod.Name == "" || pod.UID == "" {
		return api.Pod{}, fmt.Errorf("checking a token: the token of %q isn't bound to a pod: %w", user.Username, api.ErrUnauthenticated)
	}
	return pod, nil
}

// single returns the value of a list with one element, "" for other lists.
func single(values []string) string {
	if len(values) != 1 {
		return ""
	}
	return values[0]
}

// MayRead implements api.Authenticator: users who may use kubectl logs may read.
func (r *Reviewer) MayRead(ctx context.Context, user api.User, namespace, pod string) error {
	return r.may(ctx, user, authorizationv1.ResourceAttributes{
		Verb: "get", Version: "v1", Resource: "pods", Subresource: "log", Namespace: namespace, Name: pod,
	}, api.ErrForbidden)
}

// MayAsk returns nil if a user may ask for lines of logs of a namespace through API servers, or
// api.ErrForbidden. API servers review this themselves before they pass a request on.
func (r *Reviewer) MayAsk(ctx context.Context, user api.User, namespace string) error {
	return r.may(ctx, user, authorizationv1.ResourceAttributes{
		Verb: "get", Group: endpoint.Group, Version: endpoint.Version, Resource: "logs", Subresource: "log", Namespace: namespace,
	}, api.ErrForbidden)
}

// MayChange implements api.Permissions.
func (r *Reviewer) MayChange(ctx context.Context, user api.User, verb, subresource, namespace, pod string) error {
	return r.may(ctx, user, authorizationv1.ResourceAttributes{
		Verb: verb, Group: endpoint.Group, Version: endpoint.Version, Resource: "logs", Subresource: subresource, Namespace: namespace, Name: pod,
	}, api.ErrMayNotChange)
}

// may returns nil if a user has a right, or the refusal.
func (r *Reviewer) may(ctx context.Context, user api.User, right authorizationv1.ResourceAttributes, refusal error) error {
	spec := authorizationv1.SubjectAccessReviewSpec{
		User: user.Name, UID: user.UID, Groups: user.Groups, Extra: map[string]authorizationv1.ExtraValue{},
		ResourceAttributes: &right,
	}
	for key, values := range user.Extra {
		spec.Extra[key] = values
	}
	question, err := json.Marshal(spec)
	if err != nil {
		return fmt.Errorf("reviewing access to logs: %w", err)
	}
	_, err = r.rights.get(ctx, sha256.Sum256(question), readerTTL, func(ctx context.Context) (struct{}, error) {
		review, err := r.client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
		if err != nil {
			return struct{}{}, fmt.Errorf("reviewing access to logs: %w", err)
		}
		if !review.Status.Allowed || review.Status.Denied {
			return struct{}{}, refusal
		}
		return struct{}{}, nil
	})
	return err
}

// isRefusal reports whether an error is a decision of the API server.
func isRefusal(err error) bool {
	return errors.Is(err, api.ErrUnauthenticated) || errors.Is(err, api.ErrForbidden) || errors.Is(err, api.ErrMayNotChange)
}
