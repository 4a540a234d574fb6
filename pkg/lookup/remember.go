// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/entrypointer/entrypointer/pkg/tenants"
)

const (
	// answerTTL is the time for which an answer is repeated to the same asker. A moved
	// tag, or a withdrawn credential, may stay unnoticed for that long.
	answerTTL = 5 * time.Second
	// failureTTL is the same for failures: it is long enough to protect the registry from
	// a failing Deployment, and short enough for a repaired image to work at once.
	failureTTL = 2 * time.Second
	// rememberedBytes bounds the remembered answers, and rememberedShare the part of one
	// namespace.
	rememberedBytes = 16 << 20
	rememberedShare = 2 << 20
)

// Remember repeats the answer to a query for a few seconds, to the same asker only, and
// joins concurrent equal queries: a thousand pods of one new image cause one request to
// the registry. Failures are remembered for a shorter time, timeouts never.
//
// A joined query belongs to all callers that wait for it. It continues, up to budget,
// when the first of them gives up, and ends with the last of them.
func Remember(next Lookuper, budget time.Duration) Lookuper {
	return &remembering{
		next: next, budget: budget, flights: map[string]*flight{},
		answers: tenants.NewCache[remembered](rememberedBytes, rememberedShare),
	}
}

type remembering struct {
	next    Lookuper
	budget  time.Duration
	answers *tenants.Cache[remembered] // by Query.key()

	mu      sync.Mutex
	flights map[string]*flight // by Query.key()
}

// A flight is a query under way.
type flight struct {
	cancel  context.CancelFunc
	waiting int           // askers; the remembering's mutex guards it
	landed  chan struct{} // closed when the outcome is there
	outcome remembered
}

type remembered struct {
	image *Image
	err   error
}

// Lookup implements Lookuper.
func (r *remembering) Lookup(ctx context.Context, query Query) (*Image, error) {
	query, err := bounded(query)
	if err != nil {
		return nil, err
	}
	key := query.key()
	if before, ok := r.answers.Get(key); ok {
		return before.again()
	}
	f := r.board(ctx, key, query)
	defer r.leave(key, f)
	select {
	case <-ctx.Done():
		return nil, newError(query, ctx.Err())
	case <-f.landed:
		if f.outcome.err != nil {
			return nil, newError(query, f.outcome.err)
		}
		return f.outcome.image, nil
	}
}

// board joins the flight that is under way, or starts one.
func (r *remembering) board(ctx context.Context, key string, query Query) *flight {
	r.mu.Lock()
	defer r.mu.Unlock()
	f, ok := r.flights[key]
	if !ok {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.budget)
		f = &flight{cancel: cancel, landed: make(chan struct{})}
		r.flights[key] = f
		go r.fly(ctx, key, query, f)
	}
	f.waiting++
	return f
}

func (r *remembering) fly(ctx context.Context, key string, query Query, f *flight) {
	defer f.cancel()
	f.outcome = r.ask(ctx, query)
	r.keep(query.Namespace, key, f.outcome)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.flights[key] == f {
		delete(r.flights, key)
	}
	close(f.landed)
}

func (r *remembering) ask(ctx context.Context, query Query) (outcome remembered) {
	// This goroutine is the only place to recover the panic.
	defer func() {
		if recovered := recover(); recovered != nil {
			outcome = remembered{err: fmt.Errorf("internal error: %v; please report it", recovered)}
		}
	}()
	image, err := r.next.Lookup(ctx, query)
	return remembered{image: image, err: err}
}

// leave ends the flight if no caller waits for it any more. The next query starts
// another.
func (r *remembering) leave(key string, f *flight) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f.waiting--
	if f.waiting > 0 {
		return
	}
	f.cancel()
	if r.flights[key] == f {
		delete(r.flights, key)
	}
}

// again returns the answer, with the source Remembered.
func (a remembered) again() (*Image, error) {
	if a.err != nil {
		return nil, a.err
	}
	image := *a.image
	image.Source = Remembered
	return &image, nil
}

func (r *remembering) keep(namespace, key string, a remembered) {
	var failure *Error
	switch {
	case a.err == nil:
		r.answers.Add(namespace, key, a, argvBytes(a.image.Configs)+len(a.image.Pinned), answerTTL)
	case errors.As(a.err, &failure) && failure.Reason != Timeout && failure.Reason != Busy:
		r.answers.Add(namespace, key, a, len(failure.Error())+len(failure.Query.Image), max(failureTTL, failure.RetryAfter))
	}
}

// MaxPullSecrets is the number of pull secrets that are used for one pod.
const MaxPullSecrets = 32

// bounded cuts the parts of a query that lookups don't use, because a tenant can write
// megabytes into a pod.
func bounded(query Query) (Query, error) {
	if _, err := parseReference(query.Image); err != nil {
		query.Image = shorten(query.Image)
		return Query{}, &Error{Query: query, Reason: InvalidReference, Err: err}
	}
	some := query.PullSecrets[:min(len(query.PullSecrets), MaxPullSecrets+1)] // the last one shows that there are more
	query.PullSecrets = make([]string, len(some))
	for i, name := range some {
		query.PullSecrets[i] = boundedName(name)
	}
	query.ServiceAccount = boundedName(query.ServiceAccount)
	return query, nil
}

// maxNameBytes is the longest name of a secret or a service account (a DNS subdomain, RFC
// 1123).
const maxNameBytes = 253

// boundedName cuts a name that is too long for an object. The result is still too long.
func boundedName(name string) string { return strings.Clone(name[:min(len(name), maxNameBytes+1)]) }
