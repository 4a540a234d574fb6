// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"
)

// A stream is trimmed at its front: because of the age of its bytes while it is still being
// written, and because of the quota of its namespace. trim/<0>-<len> says up to where, and
// the longest one counts. It is written first, and then objects before it are deleted. A
// listing reads it last, so nothing that was deleted looks as if it had never come. After a
// crash, the next Tidy continues. Late writes before it are deleted as well.
//
// An object that is only partly before it stays until all of it is.

// trimSlack is the share of the retention by which bytes of a stream that is still being
// written may be kept longer, so that not each Tidy trims a little.
const trimSlack = 32

// trimByAge trims what is older than the retention. Only stored bytes count: markers, which
// are written for as long as a container loses bytes, keep nothing.
func (t *tidier) trimByAge(ctx context.Context) error {
	slack := t.keep / trimSlack
	if t.inDoubt || t.keep <= 0 || t.now.Sub(t.first) <= t.keep+slack {
		return nil
	}
	for _, p := range t.trims {
		if since := t.now.Sub(p.written); since < slack && since > -settleTime { // or the clock was ahead
			return nil
		}
	}
	to := t.Trimmed
	for _, p := range t.stored() {
		if p.To <= t.Trimmed {
			continue
		}
		if t.now.Sub(p.written) > t.keep {
			to = p.To
			continue
		}
		if p.joined { // it is younger than its members
			var err error
			if to, err = t.oldMembers(ctx, p, to); err != nil {
				return err
			}
		}
		break
	}
	return t.trim(ctx, to)
}

// oldMembers returns the end of those members of a joined object that are older than the
// retention, or the offset that it got.
func (t *tidier) oldMembers(ctx context.Context, p piece, to int64) (int64, error) {
	from, err := t.store.readJoined(ctx, t.id, p)
	if err != nil {
		return to, fmt.Errorf("looking for old bytes: %w", err)
	}
	for at := p.From; at < p.To; {
		m := from.memberAt(at)
		if t.now.Sub(m.written) <= t.keep {
			return to, nil
		}
		at = m.counts.To
		to = max(to, min(at, p.To))
	}
	return to, nil
}

// trim trims the stream up to an offset, unless it is held.
func (t *tidier) trim(ctx context.Context, to int64) error {
	if to <= t.Trimmed {
		return nil
	}
	if isHeld, err := t.store.isHeld(ctx, t.id); err != nil || isHeld {
		return err
	}
	if err := t.store.create(ctx, directory(t.id)+"trim/"+rangeName(Range{0, to}), nil); err != nil {
		return err
	}
	t.Trimmed = to
	t.Bytes += ObjectOverhead
	return nil
}

// deleteTrimmed deletes the objects before the offset up to which the stream was trimmed.
func (t *tidier) deleteTrimmed(ctx context.Context) error {
	var old []doomed
	for _, p := range supersededObjects(t.trims, t.isSettled) {
		old = append(old, doomed{"trim/" + rangeName(p.object), 0})
	}
	for kind, pieces := range map[string]*[]piece{"drop": &t.drops, "data": &t.data, "joined": &t.joined} {
		var kept []piece
		for _, p := range *pieces {
			if p.object.To > t.Trimmed {
				kept = append(kept, p)
			} else {
				old = append(old, doomed{kind + "/" + p.name(), p.size})
			}
		}
		*pieces = kept
	}
	return t.delete(ctx, old)
}

// Inspect returns how much of the storage a stream takes, and changes nothing.
func (s *Store) Inspect(ctx context.Context, id string) (TidyResult, error) {
	t := tidier{store: s, id: id}
	if err := t.inspect(ctx); err != nil {
		return TidyResult{}, fmt.Errorf("inspecting stream %q: %w", id, err)
	}
	return t.TidyResult, nil
}

// Trim trims a stream at its front until its content takes at most some bytes of the
// storage, as far as its objects allow it. It is idempotent.
func (s *Store) Trim(ctx context.Context, id string, now time.Time, most int64) (TidyResult, error) {
	t := tidier{store: s, id: id, now: now}
	if err := t.trimTo(ctx, most); err != nil {
		return t.TidyResult, fmt.Errorf("trimming stream %q: %w", id, err)
	}
	return t.TidyResult, nil
}

func (t *tidier) trimTo(ctx context.Context, most int64) error {
	if err := t.inspect(ctx); err != nil {
		return err
	}
	copies := t.copies()
	objects := slices.DeleteFunc(slices.Concat(t.drops, t.data, t.joined), func(p piece) bool { return copies[p] })
	slices.SortFunc(objects, func(a, b piece) int { return cmp.Compare(a.object.To, b.object.To) })
	to, left := t.Trimmed, t.Content
	for _, p := range objects {
		if p.object.To > to && left <= most {
			break
		}
		to, left = max(to, p.object.To), left-p.size-ObjectOverhead
	}
	if err := t.trim(ctx, to); err != nil {
		return err
	}
	return t.deleteTrimmed(ctx)
}
