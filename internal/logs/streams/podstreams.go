// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/entrypointer/entrypointer/internal/logs/storage"
)

const (
	// maxPodCounts bounds the cached counts, of some 200 bytes each.
	maxPodCounts = 20_000
	// podRefusalTTL is how long a refusal is cached: streams of a pod that has so many go by
	// retention only.
	podRefusalTTL = time.Minute
)

// podStreams bounds the streams of all pods with the same name. Listing them takes as long
// as there are many, so counts are cached. Each replica counts only its own streams between
// two listings, so with n replicas the limit can be exceeded by n-1 quarters.
type podStreams struct {
	most int // MaxPodStreams

	mu     sync.Mutex
	counts map[string]podCount // by the directory that lists the streams
}

// A podCount is what is known of the streams of a pod.
type podCount struct {
	left    int       // how many more it can have until they are counted again
	refused time.Time // until when it can have none
}

func newPodStreams(most int) *podStreams {
	return &podStreams{most: most, counts: map[string]podCount{}}
}

// checkPodStreams returns ErrPodStreams if the pods with a name can't have another stream.
func (s *Store) checkPodStreams(ctx context.Context, source Source) error {
	listed, err := podDirectory(source.Namespace, source.Pod)
	if err != nil {
		return err
	}
	if known, refusal := s.podStreams.tryTake(listed, time.Now()); known {
		return refusal
	}
	have := 0
	if err := s.bucket.Each(ctx, listed, func(storage.Object) bool { have++; return have < s.podStreams.most }); err != nil {
		return fmt.Errorf("counting the streams of pod %q: %w", source.Pod, err)
	}
	return s.podStreams.setCount(listed, have, time.Now())
}

// tryTake counts a stream if the cached count allows a decision. Otherwise, known is false.
func (p *podStreams) tryTake(listed string, now time.Time) (known bool, refusal error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	count := p.counts[listed]
	if now.Before(count.refused) {
		return true, ErrPodStreams
	}
	if count.left == 0 {
		return false, nil
	}
	count.left--
	p.counts[listed] = count
	return true, nil
}

// setCount caches how many streams were listed, and counts the one that has caused it.
func (p *podStreams) setCount(listed string, have int, now time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.counts) >= maxPodCounts {
		clear(p.counts)
	}
	if have >= p.most {
		p.counts[listed] = podCount{refused: now.Add(podRefusalTTL)}
		return ErrPodStreams
	}
	p.counts[listed] = podCount{left: (p.most - have - 1) / 4}
	return nil
}
