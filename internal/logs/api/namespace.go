// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/entrypointer/entrypointer/internal/logs/streams"
)

// has reports whether a stream belongs to the namespace, rather than to a former one of
// the same name. Where the UID wasn't recorded, the time of the stream's creation decides.
func (n Namespace) has(source streams.Source, created time.Time) bool {
	switch {
	case n.UID == "":
		return false
	case source.NamespaceUID == "":
		return !created.Before(n.Created)
	default:
		return source.NamespaceUID == n.UID
	}
}

// mayReadFormer returns nil if a user may read logs of namespaces that were deleted, or
// errFormer. Rights in a namespace of the same name don't count: its owner may be another.
func (s readAPI) mayReadFormer(ctx context.Context, user User) error {
	err := s.authenticator.MayRead(ctx, user, "", "")
	if errors.Is(err, ErrForbidden) {
		return errFormer
	}
	return err
}

// checkNamespace returns errFormer if a stream is of a former namespace, and the user may
// not read that. It comes after MayRead: the namespace whose rights were checked, or a
// later one, is the one that counts.
func (s readAPI) checkNamespace(ctx context.Context, user User, id string, source streams.Source) error {
	now, err := s.authenticator.Namespace(ctx, source.Namespace)
	if err != nil {
		return err
	}
	var created time.Time
	if source.NamespaceUID == "" {
		if created, err = s.streams.Created(ctx, id); err != nil {
			return err
		}
	}
	if now.has(source, created) {
		return nil
	}
	return s.mayReadFormer(ctx, user)
}

// withoutFormer is checkNamespace for the streams of a list: it leaves out those that the
// user may not read.
func (s readAPI) withoutFormer(ctx context.Context, user User, namespace string, list []streams.Listed) ([]streams.Listed, error) {
	now, err := s.authenticator.Namespace(ctx, namespace)
	if err != nil {
		return nil, err
	}
	isFormer := func(l streams.Listed) bool { return !now.has(l.Source, l.Created) }
	if !slices.ContainsFunc(list, isFormer) {
		return list, nil
	}
	err = s.mayReadFormer(ctx, user)
	if errors.Is(err, errFormer) {
		return slices.DeleteFunc(list, isFormer), nil
	}
	return list, err
}
