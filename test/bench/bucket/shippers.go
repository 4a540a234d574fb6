// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/entrypointer/entrypointer/test/shipping"
)

const (
	// podsOfNamespace is how many pods a namespace has.
	podsOfNamespace = 1000
	// creators is how many streams are created at a time, and creationLimit for how long.
	creators      = 64
	creationLimit = 5 * time.Minute
)

// createStreams creates streams of pods, whose connections lead to the replicas in turns: as
// many as within creationLimit.
func (c *cluster) createStreams(ctx context.Context, count int, record *shipping.Recorder) ([]*shipping.Stream, error) {
	list := make([]*shipping.Stream, count)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(creators)
	until := time.Now().Add(creationLimit)
	for pod := range (count + shipping.StreamsOfPod - 1) / shipping.StreamsOfPod {
		group.Go(func() error {
			if time.Now().After(until) {
				return nil
			}
			token, err := c.api.token(fmt.Sprintf("team-%d", pod/podsOfNamespace), fmt.Sprintf("pod-%d", pod))
			if err != nil {
				return fmt.Errorf("signing a token: %w", err)
			}
			first := pod * shipping.StreamsOfPod
			made, err := shipping.Begin(ctx, &c.replicas[pod%len(c.replicas)].Service, token, first, min(count-first, shipping.StreamsOfPod), record)
			copy(list[first:], made)
			return err
		})
	}
	err := group.Wait()
	return slices.DeleteFunc(list, func(s *shipping.Stream) bool { return s == nil }), err
}
