// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/entrypointer/entrypointer/internal/logs/storage"
)

// An Indexed is a stream in the index of pods.
type Indexed struct {
	Namespace, Pod, ID string
	Created            time.Time
}

// EachIndexed calls each for all streams until it returns false, in the order of the names
// <namespace>/<pod>/<id>.
func (s *Store) EachIndexed(ctx context.Context, each func(Indexed) bool) error {
	err := s.bucket.Walk(ctx, "pods", "", func(o storage.Object) bool {
		parts := strings.Split(o.Name, "/")
		if len(parts) != 3 || !IsID(parts[2]) {
			return true
		}
		return each(Indexed{Namespace: parts[0], Pod: parts[1], ID: parts[2], Created: o.Written})
	})
	if err != nil {
		return fmt.Errorf("listing all streams: %w", err)
	}
	return nil
}

// maxCounted bounds the streams of a pod that are looked at to count its restarts.
const maxCounted = 100

// Restarts returns how many earlier starts of a stream's container have streams of the same
// name. It isn't known if pods of this name have many streams.
func (s *Store) Restarts(ctx context.Context, of Source) (restarts int, known bool, err error) {
	listed, err := podDirectory(of.Namespace, of.Pod)
	if err != nil {
		return 0, false, fmt.Errorf("counting the restarts of a container: %w", err)
	}
	var ids []string
	err = s.bucket.Each(ctx, listed, func(o storage.Object) bool {
		ids = append(ids, o.Name)
		return len(ids) <= maxCounted
	})
	if err != nil || len(ids) > maxCounted {
		return 0, false, err
	}
	for _, id := range ids {
		other, err := s.Source(ctx, id)
		if errors.Is(err, ErrNoStream) {
			continue // it was just deleted
		}
		if err != nil {
			return 0, false, err
		}
		if other.PodUID == of.PodUID && other.Container == of.Container && other.Name == of.Name && other.Start < of.Start {
			restarts++
		}
	}
	return restarts, true, nil
}
