// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package keeper

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"
)

// roomBelow is the share of the quota, in percent, down to which makeRoom deletes.
const roomBelow = 90

// makeRoom trims streams of namespaces that have reached their quota. It cuts the largest
// streams to the same size, so that a container that prints much loses its own oldest
// output, and none of its neighbours'. found and records are those of the sweep.
func (k *Keeper) makeRoom(ctx context.Context, now time.Time, found map[string]amount, records map[string]streamRecord) error {
	sizes := map[string][]int64{} // of the streams of namespaces without room
	for namespace, have := range found {
		if quota := k.limits.Load().Of(namespace).Quota; quota > 0 && have.bytes >= quota {
			sizes[namespace] = nil
		}
	}
	if len(sizes) == 0 {
		return nil
	}
	for _, stream := range records {
		if _, full := sizes[stream.namespace]; full {
			sizes[stream.namespace] = append(sizes[stream.namespace], stream.bytes)
		}
	}
	most := map[string]int64{}
	for namespace, list := range sizes {
		quota := k.limits.Load().Of(namespace).Quota
		most[namespace] = largestSize(list, found[namespace].bytes-quota/100*roomBelow)
	}
	var firstErr error
	for _, id := range slices.Collect(maps.Keys(records)) {
		stream := records[id]
		size, full := most[stream.namespace]
		if !full || stream.bytes <= size || ctx.Err() != nil {
			continue
		}
		done, err := k.trim(ctx, id, now, size)
		if err != nil {
			if firstErr == nil {
				firstErr = fmt.Errorf("making room in namespace %q: %w", stream.namespace, err)
			}
			continue
		}
		found[stream.namespace] = found[stream.namespace].plus(amount{bytes: done - stream.bytes})
		stream.bytes = done
		records[id] = stream
	}
	return firstErr
}

// trim trims a stream, and returns its new size.
func (k *Keeper) trim(ctx context.Context, id string, now time.Time, size int64) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, streamTimeout)
	defer cancel()
	done, err := k.streams.Trim(ctx, id, now, size)
	k.metrics.trimmed.Add(float64(done.Deleted))
	return done.Bytes, err
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
