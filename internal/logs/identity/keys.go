// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"context"
	"crypto/ecdsa"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"golang.org/x/sync/singleflight"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const (
	// keysTTL is for how long the API server's keys are used before they are read again: a
	// key that was withdrawn counts for as long.
	keysTTL = 10 * time.Minute
	// keysPause is the time between two readings because of an unknown key or a failure.
	keysPause = time.Minute
	// keysTimeout bounds a reading of the keys. It leaves time for a review.
	keysTimeout = 3 * time.Second
	// maxKeyDocument bounds each document about keys, in bytes.
	maxKeyDocument = 256 << 10
	// maxKeys bounds the keys, of which an API server has one for each key file.
	maxKeys = 100
	// The lengths of RSA's keys that are used, in bits. The longest bounds the work of a
	// check.
	minKeyBits, maxKeyBits = 2048, 8192
)

// The paths of an API server's OpenID discovery
// (https://kubernetes.io/docs/tasks/configure-pod-container/configure-service-account/#service-account-issuer-discovery).
const (
	discoveryPath = "/.well-known/openid-configuration"
	keysPath      = "/openid/v1/jwks"
)

// errNoKey says that no key has the ID that a token names.
var errNoKey = errors.New("the API server has no such key")

// A keySet is the keys by which an API server signs the tokens of service accounts.
type keySet struct {
	issuer string
	byID   map[string]*jose.JSONWebKey
	readAt time.Time
}

// keyCache reads the keys of an API server when they are needed.
type keyCache struct {
	read func(ctx context.Context, path string) ([]byte, error)
	now  func() time.Time
	// failed is told why keys can't be read, once until they can.
	failed func(error)

	flight singleflight.Group

	mu      sync.Mutex
	set     *keySet // nil while there is none
	triedAt time.Time
	isTold  bool
}

// key returns a key and the issuer of its tokens. An ID that is unknown has the keys read
// again, but not more often than each keysPause.
func (k *keyCache) key(ctx context.Context, id string) (key *jose.JSONWebKey, issuer string, err error) {
	for range 2 {
		set, isDue := k.current(id)
		if set != nil && set.byID[id] != nil {
			return set.byID[id], set.issuer, nil
		}
		if !isDue {
			break
		}
		done := k.flight.DoChan("", func() (any, error) {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keysTimeout)
			defer cancel()
			k.renew(ctx)
			return nil, nil //nolint:nilnil // the result is in the cache
		})
		select {
		case <-done:
		case <-ctx.Done():
			return nil, "", ctx.Err()
		}
	}
	return nil, "", errNoKey
}

// current returns the keys unless they are old, and whether to read them because of an ID.
func (k *keyCache) current(id string) (set *keySet, isDue bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.now()
	if k.set != nil && now.Sub(k.set.readAt) < keysTTL {
		set = k.set
	}
	return set, (set == nil || set.byID[id] == nil) && (k.triedAt.IsZero() || now.Sub(k.triedAt) >= keysPause)
}

// renew reads the keys.
func (k *keyCache) renew(ctx context.Context) {
	k.mu.Lock()
	now := k.now()
	k.triedAt = now
	k.mu.Unlock()
	set, err := k.readSet(ctx)
	k.mu.Lock()
	if err == nil {
		set.readAt = now
		k.set = set
	}
	tell := err != nil && !k.isTold
	k.isTold = err != nil
	k.mu.Unlock()
	if tell {
		k.failed(err)
	}
}

func (k *keyCache) readSet(ctx context.Context) (*keySet, error) {
	var discovery struct {
		Issuer string `json:"issuer"`
	}
	if err := k.readJSON(ctx, discoveryPath, &discovery); err != nil {
		return nil, err
	}
	if discovery.Issuer == "" {
		return nil, fmt.Errorf("reading %s of the API server: it names no issuer", discoveryPath)
	}
	var keys struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := k.readJSON(ctx, keysPath, &keys); err != nil {
		return nil, err
	}
	if len(keys.Keys) > maxKeys {
		return nil, fmt.Errorf("reading %s of the API server: it has %d keys, more than %d", keysPath, len(keys.Keys), maxKeys)
	}
	set := &keySet{issuer: discovery.Issuer, byID: map[string]*jose.JSONWebKey{}}
	for _, raw := range keys.Keys {
		var key jose.JSONWebKey
		if err := json.Unmarshal(raw, &key); err == nil && isUsable(&key) { // others may be of a later kind
			set.byID[key.KeyID] = &key
		}
	}
	if len(set.byID) == 0 {
		return nil, fmt.Errorf("reading %s of the API server: it has no key of RSA or ECDSA", keysPath)
	}
	return set, nil
}

func (k *keyCache) readJSON(ctx context.Context, path string, into any) error {
	content, err := k.read(ctx, path)
	if err == nil {
		err = json.Unmarshal(content, into)
	}
	if err != nil {
		return fmt.Errorf("reading %s of the API server: %w", path, err)
	}
	return nil
}

// isUsable reports whether a key can check the signatures of tokens.
func isUsable(key *jose.JSONWebKey) bool {
	if key.KeyID == "" || key.Use != "" && key.Use != "sig" {
		return false
	}
	switch public := key.Key.(type) {
	case *rsa.PublicKey:
		return key.Valid() && public.N.BitLen() >= minKeyBits && public.N.BitLen() <= maxKeyBits
	case *ecdsa.PublicKey:
		return key.Valid()
	default:
		return false
	}
}

// readOf returns a function that reads a path of the API server, up to maxKeyDocument bytes.
func readOf(client kubernetes.Interface) func(context.Context, string) ([]byte, error) {
	return func(ctx context.Context, path string) ([]byte, error) {
		api := client.Discovery().RESTClient()
		if concrete, is := api.(*rest.RESTClient); api == nil || is && concrete == nil {
			return nil, errors.New("the client has no connection")
		}
		body, err := api.Get().AbsPath(path).SetHeader("Accept", "application/json, application/jwk-set+json").Stream(ctx)
		if err != nil {
			return nil, err
		}
		defer body.Close()
		content, err := io.ReadAll(io.LimitReader(body, maxKeyDocument+1))
		if err == nil && len(content) > maxKeyDocument {
			err = fmt.Errorf("it has more than %d bytes", maxKeyDocument)
		}
		return content, err
	}
}
