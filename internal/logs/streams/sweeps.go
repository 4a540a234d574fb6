// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"time"

	"github.com/entrypointer/entrypointer/internal/logs/storage"
)

// sweeps/<random> is written by a sweep if none was in the hour before. A gap between two of
// them says that the service was down, or that the clock of the storage was changed.
// Nobody can tell which, so nothing is deleted by age for a while after a gap.
const sweeps = "sweeps"

const (
	// longestGap is how long the service may be down without a doubt about the clock.
	longestGap = 6 * time.Hour
	// doubt is for how long the clock is doubted after a gap: a weekend.
	doubt = 72 * time.Hour
	// keptSweeps is how many objects are kept, more than there can be in doubt, even if
	// several replicas write one at the same time.
	keptSweeps = 500
)

// A Gap is a time without sweeps, by the clock of the storage.
type Gap struct{ From, To time.Time }

// DoubtUntil returns until when the clock is doubted because of the gap.
func (g Gap) DoubtUntil() time.Time { return g.To.Add(doubt) }

// NoteSweep notes that a sweep begins. It returns the gap because of which the clock is
// doubted, or an empty one. Sweeps from the future, when the clock was wrong, are forgotten.
func (s *Store) NoteSweep(ctx context.Context, now time.Time) (gap Gap, err error) {
	if gap, err = s.noteSweep(ctx, now); err != nil {
		return gap, fmt.Errorf("noting a sweep: %w", err)
	}
	return gap, nil
}

func (s *Store) noteSweep(ctx context.Context, now time.Time) (gap Gap, err error) {
	objects, err := s.bucket.List(ctx, sweeps)
	if err != nil {
		return gap, err
	}
	slices.SortFunc(objects, func(a, b storage.Object) int { return b.Written.Compare(a.Written) })
	var kept []time.Time // the newest first
	for _, o := range objects {
		if o.Written.Sub(now) <= settleTime && len(kept) < keptSweeps {
			kept = append(kept, o.Written)
		} else if err := s.bucket.Delete(ctx, sweeps+"/"+o.Name); err != nil {
			return gap, err
		}
	}
	if len(kept) == 0 || now.Sub(kept[0]) >= time.Hour {
		if err := s.create(ctx, sweeps+"/"+rand.Text(), nil); err != nil {
			return gap, err
		}
	}
	after := now
	for _, at := range kept {
		if gap = (Gap{at, after}); after.Sub(at) > longestGap && now.Before(gap.DoubtUntil()) {
			return gap, nil
		}
		after = at
	}
	return Gap{}, nil
}
