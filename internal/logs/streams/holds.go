// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/entrypointer/entrypointer/internal/logs/storage"
)

// held/<namespace>/pods/<pod> and held/<namespace>/labels/<key>/<value> keep all streams of
// the pods with a name or a label, also those that begin later: neither their age nor the
// quota of their namespace deletes anything of them. Whatever deletes looks here last,
// because any replica can write a hold at any time.
const held = "held/"

// MaxHolds bounds the holds of a namespace: they are listed before each deletion.
const MaxHolds = 500

// The errors of holds.
var (
	// ErrHeld says that logs can't be deleted.
	ErrHeld = errors.New("the logs are held: release them first, such as by kubectl entrypointer release-logs")
	// ErrManyHolds says that a namespace can't have another hold.
	ErrManyHolds = fmt.Errorf("the namespace holds the logs of %d objects already: release some first", MaxHolds)
)

// A HoldScope says whose streams are held: those of the pods with a name, or with a label.
type HoldScope struct{ Pod, Key, Value string }

// name returns the part of the key of a hold behind its namespace.
func (scope HoldScope) name(namespace string) (string, error) {
	directory, err := podDirectory(namespace, scope.Pod)
	if scope.Pod == "" {
		directory, err = labelDirectory(namespace, scope.Key, scope.Value)
	}
	return strings.TrimSuffix(strings.TrimPrefix(directory, scope.kind()+namespace+"/"), "/"), err
}

func (scope HoldScope) key(namespace string) (string, error) {
	name, err := scope.name(namespace)
	return heldDirectory(namespace) + scope.kind() + name, err
}

func (scope HoldScope) kind() string {
	if scope.Pod != "" {
		return "pods/"
	}
	return "labels/"
}

func heldDirectory(namespace string) string { return held + namespace + "/" }

// Hold keeps streams until Release, and notes by whom. It is idempotent.
func (s *Store) Hold(ctx context.Context, namespace string, scope HoldScope, by string) error {
	key, err := scope.key(namespace)
	if err != nil {
		return fmt.Errorf("holding logs: %w", err)
	}
	holds, err := s.Holds(ctx, namespace)
	if err == nil && len(holds) >= MaxHolds && !holds.covers(scope, namespace) {
		err = ErrManyHolds
	}
	if err != nil {
		return fmt.Errorf("holding logs in namespace %q: %w", namespace, err)
	}
	note, err := json.Marshal(map[string]string{"by": by})
	if err == nil {
		err = s.create(ctx, key, note)
	}
	if err != nil {
		return fmt.Errorf("holding logs in namespace %q: %w", namespace, err)
	}
	return nil
}

// Release undoes Hold, and reports whether there was such a hold.
func (s *Store) Release(ctx context.Context, namespace string, scope HoldScope) (was bool, err error) {
	key, err := scope.key(namespace)
	if err != nil {
		return false, fmt.Errorf("releasing logs: %w", err)
	}
	_, err = s.bucket.Read(ctx, key)
	if errors.Is(err, storage.ErrNotFound) {
		return false, nil
	}
	if err == nil {
		err = s.bucket.Delete(ctx, key)
	}
	if err != nil {
		return false, fmt.Errorf("releasing logs in namespace %q: %w", namespace, err)
	}
	return true, nil
}

// Holds are the holds of a namespace.
type Holds map[string]bool

// Holds returns the holds of a namespace.
func (s *Store) Holds(ctx context.Context, namespace string) (Holds, error) {
	if err := CheckNamespace(namespace); err != nil {
		return nil, err
	}
	holds := Holds{}
	err := s.bucket.Walk(ctx, heldDirectory(namespace), "", func(o storage.Object) bool {
		holds[o.Name] = true
		return len(holds) < 2*MaxHolds // replicas can exceed the bound a little
	})
	if err != nil {
		return nil, fmt.Errorf("listing the holds of namespace %q: %w", namespace, err)
	}
	return holds, nil
}

func (h Holds) covers(scope HoldScope, namespace string) bool {
	name, err := scope.name(namespace)
	return err == nil && h[scope.kind()+name]
}

// Has reports whether a stream is held.
func (h Holds) Has(source Source) bool {
	if h.covers(HoldScope{Pod: source.Pod}, source.Namespace) {
		return true
	}
	for key, value := range source.Labels {
		if h.covers(HoldScope{Key: key, Value: value}, source.Namespace) {
			return true
		}
	}
	return false
}

// IsHeld reports whether a stream is held now.
func (s *Store) IsHeld(ctx context.Context, source Source) (bool, error) {
	holds, err := s.Holds(ctx, source.Namespace)
	return holds.Has(source), err
}

// isHeld is IsHeld for an ID. A stream that is gone isn't held.
func (s *Store) isHeld(ctx context.Context, id string) (bool, error) {
	source, err := s.Source(ctx, id)
	if errors.Is(err, ErrNoStream) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return s.IsHeld(ctx, source)
}
