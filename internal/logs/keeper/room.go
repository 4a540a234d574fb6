// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package keeper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"slices"
)

const (
	// roomBelow is the share of the quota, in percent, down to which makeRoom deletes.
	roomBelow = 90
	// maxRoom bounds the streams of the namespaces that get room in a sweep, of some 150 bytes
	// each.
	maxRoom = 200_000
)

// makeRoom trims streams of namespaces that have reached their quota. It cuts the largest
// streams to the same size, so that a container that prints much loses its own oldest
// output, and none of its neighbours'. Of each namespace, the replica of one partition takes
// care, and each that has refused bytes: they come to the same result. It reports whether
// anything was trimmed.
func (s *sweep) makeRoom(ctx context.Context) (hasTrimmed bool, err error) {
	hopeless := map[string]bool{}
	defer s.hopeless.Store(&hopeless)
	full := s.usage.full(func(namespace string) int64 { return s.limits.Of(namespace).Quota }, s.isResponsible)
	if len(full) == 0 {
		return false, nil
	}
	rooms := map[string]*room{}
	for namespace, have := range full {
		rooms[namespace] = &room{sweep: s, namespace: namespace, have: have, records: map[string]record{}, most: s.limits.Of(namespace).Quota / 100 * roomBelow}
	}
	if err := s.findRecords(ctx, rooms); err != nil {
		return false, fmt.Errorf("looking for what takes most of a quota: %w", err)
	}
	for namespace, r := range rooms {
		failed := r.make(ctx)
		if errors.Is(failed, errNoRoom) {
			hopeless[namespace] = true
			s.logger.Warn("A namespace has reached its quota, and can't be given room", "namespace", namespace, "error", failed)
		} else if failed != nil {
			err = errors.Join(err, fmt.Errorf("making room in namespace %q: %w", namespace, failed))
		}
		hasTrimmed = hasTrimmed || r.hasTrimmed
	}
	return hasTrimmed, err
}

// isResponsible reports whether the partition is this replica's that stands for a namespace.
func (s *sweep) isResponsible(namespace string) bool {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(namespace)) // never fails
	at := int(hash.Sum32() % partitions)
	return s.first <= at && at < s.end
}

// findRecords finds the streams of namespaces in all ledgers, also those of other replicas,
// which may be an hour old.
func (s *sweep) findRecords(ctx context.Context, rooms map[string]*room) error {
	others := &sweep{Keeper: &Keeper{bucket: s.bucket, end: partitions, logger: s.logger, metrics: s.metrics}, now: s.now}
	for i, p := range s.partitions {
		if !p.loaded {
			p = newPartition(i)
		}
		others.partitions[i] = p
	}
	if err := others.loadLedgers(ctx); err != nil {
		return err
	}
	left := maxRoom
	for _, p := range others.partitions {
		content, err := others.content(ctx, p)
		if err != nil {
			return err
		}
		if content == nil {
			continue
		}
		if err := addRecords(content, rooms, &left); err != nil {
			return err
		}
	}
	return nil
}

func addRecords(content []byte, rooms map[string]*room, left *int) error {
	r, err := readLedger(content)
	for err == nil {
		var id streamID
		var of record
		if id, of, err = r.next(); err != nil {
			break
		}
		in := rooms[of.namespace]
		if in == nil {
			continue
		}
		if *left--; *left < 0 {
			in.isCut = true
			continue
		}
		in.records[id.String()] = of
		in.ids = append(in.ids, id.String())
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return err
}

// A room is the storage of one namespace that has reached its quota.
type room struct {
	*sweep
	namespace  string
	ids        []string // of its streams
	records    map[string]record
	isCut      bool // whether it has more streams
	have       amount
	most       int64 // how many bytes it may have afterwards
	hasTrimmed bool
}

// errNoRoom says that trimming can't make room.
var errNoRoom = errors.New("the objects that its streams need besides their output take too much of its quota, or it has too many streams: nothing is deleted before its retention is over; raise its quota")

func (r *room) make(ctx context.Context) error {
	if r.isCut {
		return errNoRoom // the largest ones may be among those without a record
	}
	// Another replica may have trimmed them since the records were made, or the pods have written
	// more.
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
	is, err := r.store.Inspect(ctx, id)
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
	done, err := r.store.Trim(ctx, id, r.now, size)
	r.metrics.trimmed.Add(float64(done.Deleted))
	if err == nil || done.Deleted > 0 {
		freed := before.bytes - done.Bytes
		r.hasTrimmed = r.hasTrimmed || done.Deleted > 0
		r.RecordUsage(r.namespace, id, -freed, 0) // the replica of its partition inspects it then
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
