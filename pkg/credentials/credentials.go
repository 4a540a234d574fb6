// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package credentials finds the credentials that a pod may show to an image registry: in
// the same places as the kubelet, with as few permissions as possible.
//
// It is a separate package because of its dependencies: the clients of Kubernetes and of
// three clouds.
package credentials

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/authn/k8schain"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/entrypointer/entrypointer/pkg/lookup"
	"github.com/entrypointer/entrypointer/pkg/tenants"
)

// grantPatience bounds the time that a query waits for access to a namespace, about a
// second in all: the grant follows moments after the namespace has opted in.
var grantPatience = wait.Backoff{Duration: 50 * time.Millisecond, Factor: 1.5, Steps: 6}

// readsAtOnce is the number of objects that are read and parsed concurrently, and
// readsShare the part of one namespace. Each object may be a megabyte, and takes ten
// megabytes when it is parsed.
const (
	readsAtOnce = 8
	readsShare  = 2
)

// OfPods finds credentials in the same places as the kubelet: the pod's imagePullSecrets,
// its service account's, then the clouds' own keychains, and last no credentials. Within
// a secret, the entry for the longest path comes first, as in the kubelet's keyring
// (k8s.io/kubernetes/pkg/credentialprovider).
//
// A missing or malformed secret doesn't hide the others.
func OfPods(client kubernetes.Interface) lookup.Credentials {
	reads := tenants.NewShares(readsAtOnce, readsShare)
	return func(ctx context.Context, query lookup.Query, repository authn.Resource) iter.Seq2[authn.Authenticator, error] {
		return func(yield func(authn.Authenticator, error) bool) {
			s := search{client: client, reads: reads, query: query, repository: repository, yield: yield, patience: grantPatience}
			_ = s.secrets(ctx, query.PullSecrets) && s.serviceAccount(ctx) && s.clouds(ctx) && yield(authn.Anonymous, nil)
		}
	}
}

// search visits the places of credentials. Its methods report whether to continue.
type search struct {
	client     kubernetes.Interface
	reads      *tenants.Shares
	query      lookup.Query
	repository authn.Resource
	yield      func(authn.Authenticator, error) bool
	seen       []string     // names of secrets
	patience   wait.Backoff // the rest of the patience
}

func (s *search) secrets(ctx context.Context, names []string) bool {
	for _, name := range names {
		if slices.Contains(s.seen, name) {
			continue
		}
		if len(s.seen) == lookup.MaxPullSecrets {
			return s.yield(nil, fmt.Errorf("reading pull secrets: there are more than %d; the rest was not tried", lookup.MaxPullSecrets))
		}
		s.seen = append(s.seen, name)
		if !s.secret(ctx, name) {
			return false
		}
	}
	return true
}

func (s *search) secret(ctx context.Context, name string) bool {
	found, err := read(ctx, s, func() ([]authn.Authenticator, error) {
		secret, err := s.client.CoreV1().Secrets(s.query.Namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		return matching(secret, s.repository)
	})
	if err != nil && !s.yield(nil, fmt.Errorf("reading pull secret %q: %w", name, err)) {
		return false
	}
	for _, credential := range found {
		if !s.yield(credential, nil) {
			return false
		}
	}
	return true
}

func (s *search) serviceAccount(ctx context.Context) bool {
	name := s.query.ServiceAccount
	if name == "" {
		name = "default"
	}
	names, err := read(ctx, s, func() ([]string, error) {
		account, err := s.client.CoreV1().ServiceAccounts(s.query.Namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		return pullSecretsOf(account), nil
	})
	if err != nil {
		return s.yield(nil, fmt.Errorf("reading service account %q: %w", name, err))
	}
	return s.secrets(ctx, names)
}

// pullSecretsOf returns as many names as secrets are used, and one more if there are
// more.
func pullSecretsOf(account *corev1.ServiceAccount) []string {
	few := account.ImagePullSecrets[:min(len(account.ImagePullSecrets), lookup.MaxPullSecrets+1)]
	names := make([]string, len(few))
	for i, secret := range few {
		names[i] = secret.Name
	}
	return names
}

func (s *search) clouds(ctx context.Context) bool {
	keychain, err := k8schain.NewNoClient(ctx)
	if err != nil {
		return s.yield(nil, fmt.Errorf("finding credentials of this cloud: %w", err))
	}
	found, err := authn.Resolve(ctx, keychain, s.repository)
	switch {
	case err != nil:
		return s.yield(nil, fmt.Errorf("finding credentials of this cloud: %w", err))
	case found == authn.Anonymous:
		return true
	default:
		return s.yield(found, nil)
	}
}

// read reads an object in a tenant's namespace, and waits for a grant that is under way.
// Its memory is bounded by get's result, and by the number of concurrent calls.
func read[T any](ctx context.Context, s *search, get func() (T, error)) (T, error) {
	for {
		got, err := oneOfFew(ctx, s, get)
		if !apierrors.IsForbidden(err) || s.patience.Steps == 0 {
			return got, err
		}
		select {
		case <-ctx.Done():
			return got, err
		case <-time.After(s.patience.Step()):
		}
	}
}

func oneOfFew[T any](ctx context.Context, s *search, get func() (T, error)) (T, error) {
	release, err := s.reads.Acquire(ctx, 1, s.query.Namespace)
	if err != nil {
		var none T
		return none, err
	}
	defer release()
	return get()
}
