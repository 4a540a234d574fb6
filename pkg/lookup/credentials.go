// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/authn/k8schain"
	kauth "github.com/google/go-containerregistry/pkg/authn/kubernetes"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
)

// Credentials yields what the pod of a query may show to a registry, in the
// order in which to try it. An error in between means that there may have been
// more; the next ones are still worth a try.
type Credentials func(ctx context.Context, query Query, repository authn.Resource) iter.Seq2[authn.Authenticator, error]

// maxPullSecrets bounds what a single pod can make us read.
const maxPullSecrets = 32

// grantPatience is how long a query waits to be let into a namespace, about a
// second in all: the right to read there follows moments after it has opted in.
var grantPatience = wait.Backoff{Duration: 50 * time.Millisecond, Factor: 1.5, Steps: 6}

// PodCredentials finds credentials where the kubelet would: the pod's
// imagePullSecrets, its service account's, then the clouds' own keychains; at
// last it tries without any. Within a secret, the entry for the longest path
// comes first, as in the kubelet's keyring (k8s.io/kubernetes/pkg/credentialprovider).
//
// A secret that is missing or malformed doesn't hide the others.
func PodCredentials(client kubernetes.Interface) Credentials {
	return func(ctx context.Context, query Query, repository authn.Resource) iter.Seq2[authn.Authenticator, error] {
		return func(yield func(authn.Authenticator, error) bool) {
			s := search{client: client, query: query, repository: repository, yield: yield, patience: grantPatience}
			_ = s.secrets(ctx, query.PullSecrets) && s.serviceAccount(ctx) && s.clouds(ctx) && yield(authn.Anonymous, nil)
		}
	}
}

// search walks the places where credentials may be. Its methods say whether to go on.
type search struct {
	client     kubernetes.Interface
	query      Query
	repository authn.Resource
	yield      func(authn.Authenticator, error) bool
	seen       []string     // names of secrets
	patience   wait.Backoff // what is left of it
}

func (s *search) secrets(ctx context.Context, names []string) bool {
	for _, name := range names {
		if slices.Contains(s.seen, name) {
			continue
		}
		if len(s.seen) == maxPullSecrets {
			return s.yield(nil, fmt.Errorf("reading pull secrets: there are more than %d; the rest was not tried", maxPullSecrets))
		}
		s.seen = append(s.seen, name)
		if !s.secret(ctx, name) {
			return false
		}
	}
	return true
}

func (s *search) secret(ctx context.Context, name string) bool {
	secret, err := patiently(ctx, &s.patience, func() (*corev1.Secret, error) {
		return s.client.CoreV1().Secrets(s.query.Namespace).Get(ctx, name, metav1.GetOptions{})
	})
	if err != nil {
		return s.yield(nil, fmt.Errorf("reading pull secret %q: %w", name, err))
	}
	entries, err := entriesOf(secret)
	if err != nil {
		return s.yield(nil, fmt.Errorf("reading pull secret %q: %w", name, err))
	}
	for _, entry := range entries {
		if !s.keychain(ctx, entry, fmt.Sprintf("reading pull secret %q", name)) {
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
	account, err := patiently(ctx, &s.patience, func() (*corev1.ServiceAccount, error) {
		return s.client.CoreV1().ServiceAccounts(s.query.Namespace).Get(ctx, name, metav1.GetOptions{})
	})
	if err != nil {
		return s.yield(nil, fmt.Errorf("reading service account %q: %w", name, err))
	}
	names := make([]string, len(account.ImagePullSecrets))
	for i, secret := range account.ImagePullSecrets {
		names[i] = secret.Name
	}
	return s.secrets(ctx, names)
}

func (s *search) clouds(ctx context.Context) bool {
	keychain, err := k8schain.NewNoClient(ctx)
	if err != nil {
		return s.yield(nil, fmt.Errorf("finding credentials of this cloud: %w", err))
	}
	return s.keychain(ctx, keychain, "finding credentials of this cloud")
}

// keychain yields what a keychain has for the repository, if anything.
func (s *search) keychain(ctx context.Context, keychain authn.Keychain, doing string) bool {
	found, err := authn.Resolve(ctx, keychain, s.repository)
	switch {
	case err != nil:
		return s.yield(nil, fmt.Errorf("%s: %w", doing, err))
	case found == authn.Anonymous:
		return true
	default:
		return s.yield(found, nil)
	}
}

// patiently reads something in a tenant's namespace, where we may not have been let in yet.
func patiently[T any](ctx context.Context, patience *wait.Backoff, get func() (T, error)) (T, error) {
	for {
		got, err := get()
		if !apierrors.IsForbidden(err) || patience.Steps == 0 {
			return got, err
		}
		select {
		case <-ctx.Done():
			return got, err
		case <-time.After(patience.Step()):
		}
	}
}

// entriesOf cuts a secret into keychains of one entry each: a keychain answers
// with the first entry that matches, and we want to try all of them.
func entriesOf(secret *corev1.Secret) ([]authn.Keychain, error) {
	entries := map[string]json.RawMessage{}
	var err error
	switch secret.Type {
	case corev1.SecretTypeDockerConfigJson:
		file := struct{ Auths *map[string]json.RawMessage }{&entries}
		err = json.Unmarshal(secret.Data[corev1.DockerConfigJsonKey], &file)
	case corev1.SecretTypeDockercfg:
		err = json.Unmarshal(secret.Data[corev1.DockerConfigKey], &entries)
	default:
		err = fmt.Errorf("its type is %q, not %q", secret.Type, corev1.SecretTypeDockerConfigJson)
	}
	if err != nil {
		return nil, err
	}
	var keychains []authn.Keychain
	for _, key := range slices.Backward(slices.Sorted(maps.Keys(entries))) {
		keychain, err := entry(key, entries[key])
		if err != nil {
			return nil, fmt.Errorf("entry %q: %w", key, err)
		}
		keychains = append(keychains, keychain)
	}
	return keychains, nil
}

func entry(key string, value json.RawMessage) (authn.Keychain, error) {
	// What the library calls Docker Hub, and the kubelet as well as docker login accept.
	if key == "docker.io" || strings.HasPrefix(key, "docker.io/") {
		key = "index." + key
	}
	config, err := json.Marshal(map[string]json.RawMessage{key: value})
	if err != nil {
		return nil, err
	}
	return kauth.NewFromPullSecrets(context.Background(), []corev1.Secret{{
		Type: corev1.SecretTypeDockercfg,
		Data: map[string][]byte{corev1.DockerConfigKey: config},
	}})
}
