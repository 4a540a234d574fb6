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
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/pkg/pod"
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

// environment is what all drills have in common.
type environment struct {
	options
	cluster      *framework.Cluster
	image        string
	optedInSpace string
	plainSpace   string
	directory    string
	plugin       framework.Plugin
}

func (e *environment) namespace(optedIn bool) string {
	if optedIn {
		return e.optedInSpace
	}
	return e.plainSpace
}

// prepare makes the namespaces and what else the drills need.
func prepare(ctx context.Context, cluster *framework.Cluster, o options) (e *environment, err error) {
	e = &environment{options: o, cluster: cluster}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.tidy(context.WithoutCancel(ctx)))
		}
	}()
	if e.image, err = framework.Image(ctx, "busybox:1.37"); err != nil {
		return e, err
	}
	if e.directory, err = os.MkdirTemp("", "chaos-"); err != nil {
		return e, err
	}
	if e.plugin, err = framework.BuildPlugin(ctx, e.directory); err != nil {
		return e, err
	}
	if e.plainSpace, err = cluster.NewNamespace(ctx, "chaos-plain-", nil); err != nil {
		return e, err
	}
	e.optedInSpace, err = cluster.NewNamespace(ctx, "chaos-", map[string]string{
		pod.InjectAnnotation: "true", "entrypointer.dev/logs": "stream",
	})
	return e, err
}

// tidy deletes what prepare has made.
func (e *environment) tidy(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var errs []error
	for _, name := range []string{e.optedInSpace, e.plainSpace} {
		if name != "" {
			errs = append(errs, e.cluster.Kube.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{}))
		}
	}
	if e.directory != "" {
		errs = append(errs, os.RemoveAll(e.directory))
	}
	return errors.Join(errs...)
}

// drill has some faults happen at the same time, and returns what users saw.
func (e *environment) drill(ctx context.Context, faults []fault) (r row, err error) {
	l := &load{environment: e, prefix: fmt.Sprintf("c%d", time.Now().Unix())}
	loading, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() { defer close(ended); l.run(loading) }()
	defer func() { stop(); <-ended }()
	looking := make(chan struct{})
	go func() { defer close(looking); l.keepLooking(loading) }()

	if err := wait(ctx, before); err != nil {
		return r, err
	}
	r = row{faults: faults, began: time.Now()}
	from, err := e.strike(ctx, faults)
	if err != nil {
		return r, err
	}
	if r.healed, err = l.waitForRecovery(ctx, from); err != nil {
		return r, err
	}
	stop()
	<-ended
	<-looking
	unsettled := framework.Eventually(ctx, ending, "the load to end", func(ctx context.Context) error {
		if err := l.look(ctx); err != nil {
			return err
		}
		if open := l.open(); open > 0 {
			return fmt.Errorf("%d objects haven't ended", open)
		}
		return nil
	})
	if ctx.Err() != nil {
		return r, ctx.Err()
	}
	if unsettled != nil {
		fmt.Fprintln(os.Stderr, unsettled)
	}
	if err := e.account(ctx, l, &r); err != nil {
		return r, err
	}
	return r, l.remove(ctx)
}

// strike injects faults, ends those that last, and returns from when on all has to heal.
func (e *environment) strike(ctx context.Context, faults []fault) (from time.Time, err error) {
	from = time.Now()
	var heals []func(context.Context) error
	defer func() {
		// Interrupted or not, no fault stays.
		mend, cancel := context.WithTimeout(context.WithoutCancel(ctx), mending)
		defer cancel()
		if len(heals) > 0 {
			from = time.Now()
		}
		for _, heal := range slices.Backward(heals) {
			err = errors.Join(err, heal(mend))
		}
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

// keepLooking looks at the load until ctx is done. API servers may be gone meanwhile.
func (l *load) keepLooking(ctx context.Context) {
	for wait(ctx, lookEvery) == nil {
		_ = l.look(ctx)
	}
}

// waitForRecovery returns how long it took from a moment on until all worked, negative if
// it never did.
func (l *load) waitForRecovery(ctx context.Context, from time.Time) (time.Duration, error) {
	for end := time.Now().Add(recovery); time.Now().Before(end); {
		if since, ok := l.recovered(from); ok {
			return since.Sub(from), nil
		}
		if err := wait(ctx, lookEvery); err != nil {
			return 0, err
		}
	}
	return -1, nil
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
