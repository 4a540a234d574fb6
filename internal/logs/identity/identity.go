// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package identity asks the API server who writes and reads logs.
package identity

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/entrypointer/entrypointer/internal/logs/api"
	"github.com/entrypointer/entrypointer/internal/logs/endpoint"
)

const (
	// writerKept is for how long a pod that has been deleted may still write.
	writerKept = time.Minute
	// readerKept is for how long somebody reads on whose token or right is gone.
	readerKept = 10 * time.Second
	// refusedKept is how long it takes until a client that was refused is asked about again.
	refusedKept = 10 * time.Second
	// outage is for how much longer a pod is believed while the API server can't be
	// asked: its logs shouldn't end with it. All that is lost by it is that a token
	// of a pod that was deleted meanwhile writes to that pod's own streams.
	outage = 5 * time.Minute
	// remembered bounds what is known of each kind. Each is about 1 KiB.
	remembered = 10_000
)

// A Reviewer is an api.Authenticator.
type Reviewer struct {
	client  kubernetes.Interface
	writers *memory[api.Pod]
	readers *memory[api.User]
	rights  *memory[struct{}]
}

var _ api.Authenticator = (*Reviewer)(nil)

// New returns a Reviewer that may create TokenReviews and SubjectAccessReviews.
func New(client kubernetes.Interface) *Reviewer { return newReviewer(client, time.Now) }

func newReviewer(client kubernetes.Interface, now func() time.Time) *Reviewer {
	return &Reviewer{
		client:  client,
		writers: newMemory[api.Pod](remembered, writerKept, refusedKept, outage, now),
		readers: newMemory[api.User](remembered, readerKept, refusedKept, 0, now),
		rights:  newMemory[struct{}](remembered, readerKept, refusedKept, 0, now),
	}
}

// Writer implements api.Authenticator: the token is one for this service, and bound to a pod.
func (r *Reviewer) Writer(ctx context.Context, token string) (api.Pod, error) {
	return r.writers.of(ctx, sha256.Sum256([]byte(token)), func(ctx context.Context) (api.Pod, error) {
		status, err := r.review(ctx, token, endpoint.Audience)
		if err != nil {
			return api.Pod{}, err
		}
		// An API server that knows no audiences names none.
		if !slices.Contains(status.Audiences, endpoint.Audience) {
			return api.Pod{}, fmt.Errorf("a token that isn't for %q: %w", endpoint.Audience, api.ErrUnauthenticated)
		}
		return podOf(status.User)
	})
}

// Reader implements api.Authenticator: the token is one for the API server.
func (r *Reviewer) Reader(ctx context.Context, token string) (api.User, error) {
	return r.readers.of(ctx, sha256.Sum256([]byte(token)), func(ctx context.Context) (api.User, error) {
		status, err := r.review(ctx, token)
		if err != nil {
			return api.User{}, err
		}
		// What a pod writes logs with doesn't read any, even if the API server has our
		// audience among its own.
		if slices.Contains(status.Audiences, endpoint.Audience) {
			return api.User{}, fmt.Errorf("a token for %q, which reads nothing: %w", endpoint.Audience, api.ErrUnauthenticated)
		}
		user := api.User{Name: status.User.Username, UID: status.User.UID, Groups: status.User.Groups, Extra: map[string][]string{}}
		for key, values := range status.User.Extra {
			user.Extra[key] = values
		}
		return user, nil
	})
}

// review returns an error unless a token is valid for one of some audiences, or
// without any, for the API server.
func (r *Reviewer) review(ctx context.Context, token string, audiences ...string) (authenticationv1.TokenReviewStatus, error) {
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: audiences}}
	review, err := r.client.AuthenticationV1().TokenReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return authenticationv1.TokenReviewStatus{}, fmt.Errorf("asking the API server whose a token is: %w", err)
	}
	if !review.Status.Authenticated {
		return review.Status, api.ErrUnauthenticated
	}
	return review.Status, nil
}

// What the API server says of a token that is bound to a pod.
const (
	podName = "authentication.kubernetes.io/pod-name"
	podUID  = "authentication.kubernetes.io/pod-uid"
)

func podOf(user authenticationv1.UserInfo) (api.Pod, error) {
	account, is := strings.CutPrefix(user.Username, "system:serviceaccount:")
	namespace, name, _ := strings.Cut(account, ":")
	if !is || namespace == "" || name == "" || strings.Contains(name, ":") {
		return api.Pod{}, fmt.Errorf("a token of %q, which is no service account: %w", user.Username, api.ErrUnauthenticated)
	}
	pod := api.Pod{Namespace: namespace, Name: only(user.Extra[podName]), UID: only(user.Extra[podUID])}
	if pod.Name == "" || pod.UID == "" {
		return api.Pod{}, fmt.Errorf("a token of %q that is bound to no pod: %w", user.Username, api.ErrUnauthenticated)
	}
	return pod, nil
}

// only is the value, if there is no other.
func only(values []string) string {
	if len(values) != 1 {
		return ""
	}
	return values[0]
}

// MayRead implements api.Authenticator: whoever may kubectl logs, may read.
func (r *Reviewer) MayRead(ctx context.Context, user api.User, namespace, pod string) error {
	spec := authorizationv1.SubjectAccessReviewSpec{
		User: user.Name, UID: user.UID, Groups: user.Groups, Extra: map[string]authorizationv1.ExtraValue{},
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: "get", Version: "v1", Resource: "pods", Subresource: "log", Namespace: namespace, Name: pod,
		},
	}
	for key, values := range user.Extra {
		spec.Extra[key] = values
	}
	question, err := json.Marshal(spec)
	if err != nil {
		return fmt.Errorf("asking the API server who may read logs: %w", err)
	}
	_, err = r.rights.of(ctx, sha256.Sum256(question), func(ctx context.Context) (struct{}, error) {
		review, err := r.client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
		if err != nil {
			return struct{}{}, fmt.Errorf("asking the API server who may read logs: %w", err)
		}
		if !review.Status.Allowed || review.Status.Denied {
			return struct{}{}, api.ErrForbidden
		}
		return struct{}{}, nil
	})
	return err
}

// refuses says whether an error is what the API server has decided.
func refuses(err error) bool {
	return errors.Is(err, api.ErrUnauthenticated) || errors.Is(err, api.ErrForbidden)
}
