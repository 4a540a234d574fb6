// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/entrypointer/entrypointer/test/framework"
)

const (
	// before is how long the load runs before a fault.
	before = 8 * time.Second
	// inARow is how many new objects of each kind have to work.
	inARow = 3
	// recovery is what that may take until the drill goes on, goal what it should.
	recovery = 3 * time.Minute
	goal     = time.Minute
	// ending is what the load may take to end, and mending what the end of a fault may.
	ending  = 3 * time.Minute
	mending = 5 * time.Minute
	// lookEvery is between two looks at the load.
	lookEvery = 500 * time.Millisecond
)

// drill has some faults happen at the same time, and returns what users saw.
func (e *environment) drill(ctx context.Context, faults []fault) (r row, err error) {
	if err := e.cluster.WaitForInjector(ctx); err != nil { // of the drill before
		return r, err
	}
	unstage, err := e.stage(ctx, faults)
	defer func() { err = errors.Join(err, unstage()) }()
	if err != nil {
		return r, err
	}
	refusals, err := e.refusals(ctx)
	if err != nil {
		return r, err
	}
	l := &load{environment: e, prefix: fmt.Sprintf("c%d", time.Now().Unix())}
	stop := l.start(ctx)
	defer stop()
	if err := wait(ctx, before); err != nil {
		return r, err
	}
	r = row{faults: faults, began: time.Now(), lasting: e.lasting, workers: e.workers}
	e.kills = nil
	from, err := e.strike(ctx, faults)
	r.kills = e.kills
	if err != nil {
		return r, err
	}
	if err := l.waitForRecovery(ctx, from, &r); err != nil {
		return r, err
	}
	stop()
	unsettled := l.waitForEnd(ctx)
	if ctx.Err() != nil {
		return r, ctx.Err()
	}
	if unsettled != nil {
		fmt.Fprintln(os.Stderr, unsettled)
	}
	if err := e.account(ctx, l, refusals, &r); err != nil {
		return r, err
	}
	return r, l.remove(ctx)
}

// start keeps the load up, and looks at it, until what it returns is called.
func (l *load) start(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var both sync.WaitGroup
	both.Go(func() { l.run(ctx) })
	both.Go(func() { l.keepLooking(ctx) })
	return func() {
		cancel()
		both.Wait()
	}
}

// waitForEnd waits until each object of the load has ended.
func (l *load) waitForEnd(ctx context.Context) error {
	return framework.Eventually(ctx, ending, "the load to end", func(ctx context.Context) error {
		if err := l.look(ctx); err != nil {
			return err
		}
		if open := l.open(); open > 0 {
			return fmt.Errorf("%d objects haven't ended", open)
		}
		return nil
	})
}

// stage prepares the cluster for faults, and returns how to undo that.
func (e *environment) stage(ctx context.Context, faults []fault) (undo func() error, err error) {
	var heals []healer
	undo = func() error { return e.heal(ctx, heals) }
	for _, f := range faults {
		if f.stage == nil {
			continue
		}
		heal, err := f.stage(ctx, e)
		if heal != nil {
			heals = append(heals, heal)
		}
		if err != nil {
			return undo, fmt.Errorf("preparing fault %s: %w", f.name, err)
		}
	}
	return undo, nil
}

// heal calls healers, the last one first. Interrupted or not, no fault stays.
func (e *environment) heal(ctx context.Context, heals []healer) error {
	mend, cancel := context.WithTimeout(context.WithoutCancel(ctx), mending)
	defer cancel()
	var errs []error
	for _, heal := range slices.Backward(heals) {
		errs = append(errs, heal(mend))
	}
	return errors.Join(errs...)
}

// strike injects faults, ends those that last, and returns from when on all has to heal.
func (e *environment) strike(ctx context.Context, faults []fault) (from time.Time, err error) {
	from = time.Now()
	var heals []healer
	defer func() {
		if len(heals) > 0 {
			from = time.Now()
		}
		err = errors.Join(err, e.heal(ctx, heals))
	}()
	for _, f := range faults {
		if f.inject == nil {
			continue
		}
		heal, err := f.inject(ctx, e)
		if heal != nil {
			heals = append(heals, heal)
		}
		if err != nil {
			return from, fmt.Errorf("fault %s: %w", f.name, err)
		}
	}
	// What heals by itself is watched for as long: it may do harm later.
	lasting := e.lasting
	for _, f := range faults {
		lasting = max(lasting, f.watch)
	}
	return from, wait(ctx, lasting)
}

// waitForRecovery notes how long it took from a moment on until all worked, negative if it
// never did: the load on either side, and in the namespaces that opted in also what the load
// doesn't show.
func (l *load) waitForRecovery(ctx context.Context, from time.Time, r *row) error {
	r.optedIn.healed, r.others.healed = -1, -1
	settled := time.Duration(-1)
	for end := time.Now().Add(recovery); time.Now().Before(end); {
		if settled < 0 && l.settled(ctx, r.faults) == nil {
			settled = time.Since(from)
		}
		for optedIn, s := range map[bool]*side{true: &r.optedIn, false: &r.others} {
			if since, ok := l.recovered(from, optedIn); ok && s.healed < 0 && (!optedIn || settled >= 0) {
				s.healed = since.Sub(from)
				if optedIn && r.any(func(f fault) bool { return f.settled != nil }) {
					s.healed = max(s.healed, settled)
				}
			}
		}
		if r.optedIn.healed >= 0 && r.others.healed >= 0 {
			return nil
		}
		if err := wait(ctx, lookEvery); err != nil {
			return err
		}
	}
	return nil
}

func (l *load) settled(ctx context.Context, faults []fault) error {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	var errs []error
	for _, f := range faults {
		if f.settled != nil {
			errs = append(errs, f.settled(ctx, l.environment))
		}
	}
	return errors.Join(errs...)
}

// wait returns an error if ctx is done first.
func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// names joins those of faults.
func names(faults []fault) string {
	var all []string
	for _, f := range faults {
		all = append(all, f.name)
	}
	return strings.Join(all, " + ")
}
