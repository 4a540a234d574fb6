// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package keeper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// roomBelow is the share of the quota, in percent, down to which makeRoom deletes.
const roomBelow = 90

// makeRoom trims streams of namespaces that have reached their quota. It cuts the largest
// streams to the same size, so that a container that prints much loses its own oldest
// output, and none of its neighbours'. found and records are those of the sweep.
func (k *Keeper) makeRoom(ctx context.Context, now time.Time, found map[string]amount, records map[string]streamRecord) error {
	limits, hopeless := k.limits.Load(), map[string]bool{}
	full := map[string][]string{} // the streams of namespaces without room
	for id, stream := range records {
		if quota := limits.Of(stream.namespace).Quota; quota > 0 && found[stream.namespace].bytes >= quota {
			full[stream.namespace] = append(full[stream.namespace], id)
		}
	}
	var all error
	for namespace, ids := range full {
		quota := limits.Of(namespace).Quota
		r := room{Keeper: k, now: now, ids: ids, records: records, have: found[namespace], most: quota / 100 * roomBelow}
		err := r.make(ctx)
		if errors.Is(err, errNoRoom) {
			hopeless[namespace] = true
			k.logger.Warn("A namespace has reached its quota, and can't be given room", "namespace", namespace, "error", err)
		} else if err != nil {
			all = errors.Join(all, fmt.Errorf("making room in namespace %q: %w", namespace, err))
		}
		found[namespace] = r.have
	}
	k.hopeless.Store(&hopeless)
	return all
}

// A room is the storage of one namespace that has reached its quota.
type room struct {
	*Keeper
	now     time.Time
	ids     []string // of its streams
	records map[string]streamRecord
	have    amount
	most    int64 // how many bytes it may have afterwards
}

// errNoRoom says that trimming can't make room.
var errNoRoom = errors.New("the objects that its streams need besides their output take too much of its quota, or it has too many streams: nothing is deleted before its retention is over; raise its quota")

func (r *room) make(ctx context.Context) error {
	if int64(len(r.ids)) < r.have.streams {
		return errNoRoom // the largest ones may be among those without a record
	}
	// Another replica may have trimmed them since the records were made.
	for _, id := range r.larger(r.level()) {
		if err := r.refresh(ctx, id); err != nil {
			return err
		}
	}
	content, copies := int64(0), int64(0)
	for _, id := range r.ids {
		content, copies = content+r.records[id].content, copies+r.records[id].copies
	}
	r.most += copies // these are deleted soon in any case
	if content < r.have.bytes-r.most {
		return errNoRoom
	}
	level := r.level()
	for _, id := range r.larger(level) {
		if r.have.bytes <= r.most || ctx.Err() != nil {
			break
		}
		if err := r.trim(ctx, id, level); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// level returns the size to which the content of larger streams has to be cut.
func (r *room) level() int64 {
	var sizes []int64
	for _, id := range r.ids {
		sizes = append(sizes, r.records[id].content)
	}
	return largestSize(sizes, r.have.bytes-r.most)
}

// larger returns the streams whose content is larger, the largest and oldest first.
func (r *room) larger(size int64) (ids []string) {
	for _, id := range r.ids {
		if r.records[id].content > size {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b string) int {
		one, other := r.records[a], r.records[b]
		return cmp.Or(cmp.Compare(other.content, one.content), one.last.Compare(other.last), cmp.Compare(a, b))
	})
	return ids
}

func (r *room) refresh(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, streamTimeout)
	defer cancel()
	is, err := r.streams.Inspect(ctx, id)
	if err == nil {
		r.note(id, is.Bytes, is.Content, is.Copies)
	}
	return err
}

// trim trims a stream. Other replicas, and this one in its next sweep, continue after a
// failure.
func (r *room) trim(ctx context.Context, id string, size int64) error {
	ctx, cancel := context.WithTimeout(ctx, streamTimeout)
	defer cancel()
	before := r.records[id]
	done, err := r.streams.Trim(ctx, id, r.now, size)
	r.metrics.trimmed.Add(float64(done.Deleted))
	if err == nil || done.Deleted > 0 {
		freed := before.bytes - done.Bytes
		r.note(id, done.Bytes, max(0, before.content-freed), before.copies)
	}
	return err
}

// note notes the size of a stream.
func (r *room) note(id string, bytes, content, copies int64) {
	stream := r.records[id]
	r.have.bytes += bytes - stream.bytes
	stream.bytes, stream.content, stream.copies = bytes, content, copies
	r.records[id] = stream
}

// largestSize returns the size to which larger streams have to be cut so that they become
// smaller by some bytes together.
func largestSize(sizes []int64, by int64) int64 {
	slices.Sort(sizes)
	var sum int64 // of the streams from i on
	for i, size := range slices.Backward(sizes) {
		sum += size
		below := int64(0)
		if i > 0 {
			below = sizes[i-1]
		}
		// Cut to the size of the next smaller stream, these don't become small enough, or
		// they do, and something between is enough.
		if cut := sum - below*int64(len(sizes)-i); cut >= by {
			return max(0, (sum-by)/int64(len(sizes)-i))
		}
	}
	return 0
}
