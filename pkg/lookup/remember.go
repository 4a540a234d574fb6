// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/singleflight"
	"k8s.io/apimachinery/pkg/util/cache"
)

const (
	// answerTTL is how long an answer is given again to the same asker. It is
	// also how long a tag that moved, or a credential that was withdrawn, may
	// go unnoticed.
	answerTTL = 5 * time.Second
	// failureTTL is the same for failures: a Deployment that can't come up
	// doesn't hammer the registry, and a repaired image works at once.
	failureTTL = 2 * time.Second
	// maxAnswers bounds how many answers are remembered.
	maxAnswers = 1024
)

// Remember gives the answer to a question again for a few seconds, to the same
// asker only, and has one question in flight at a time: a thousand pods of one
// new image ask the registry once. Failures are remembered for a shorter
// while, timeouts never.
//
// A question in flight belongs to all who wait for it, so it goes on, up to
// budget, when the first of them gives up.
func Remember(next Lookuper, budget time.Duration) Lookuper {
	return &remembering{next: next, budget: budget, answers: cache.NewLRUExpireCache(maxAnswers)}
}

type remembering struct {
	next    Lookuper
	budget  time.Duration
	flights singleflight.Group
	answers *cache.LRUExpireCache // Query.key() -> answer
}

type answer struct {
	image *Image
	err   error
}

// Lookup implements Lookuper.
func (r *remembering) Lookup(ctx context.Context, query Query) (*Image, error) {
	key := query.key()
	if remembered, ok := r.answers.Get(key); ok {
		return remembered.(answer).again()
	}
	flight := r.flights.DoChan(key, func() (_ any, err error) {
		// Nobody else is in a position to: this is a goroutine of its own.
		defer func() {
			if recovered := recover(); recovered != nil {
				err = fmt.Errorf("internal error: %v; please report it", recovered)
			}
		}()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.budget)
		defer cancel()
		image, err := r.next.Lookup(ctx, query)
		r.keep(key, answer{image: image, err: err})
		return image, err
	})
	select {
	case <-ctx.Done():
		return nil, newError(query, ctx.Err())
	case landed := <-flight:
		if landed.Err != nil {
			return nil, newError(query, landed.Err)
		}
		return landed.Val.(*Image), nil
	}
}

// again gives the answer another time, and says so.
func (a answer) again() (*Image, error) {
	if a.err != nil {
		return nil, a.err
	}
	image := *a.image
	image.Source = Remembered
	return &image, nil
}

func (r *remembering) keep(key string, a answer) {
	var failure *Error
	switch {
	case a.err == nil:
		r.answers.Add(key, a, answerTTL)
	case errors.As(a.err, &failure) && failure.Reason != Timeout:
		r.answers.Add(key, a, max(failureTTL, failure.RetryAfter))
	}
}
