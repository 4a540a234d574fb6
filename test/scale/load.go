// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/test/framework"
)

const (
	// atOnce bounds the requests under way.
	atOnce = 400
	// requestLimit is the time that an API server gives the injector.
	requestLimit = 10 * time.Second

	optedInNamespace, plainNamespace = "load-opted-in", "load-plain"
)

// tenants is the number of namespaces whose pods have their images looked up: one alone
// gets a quarter of what all lookups share.
const tenants = 20

// tenant returns the namespace of a pod whose image is looked up.
func tenant(i int) string { return fmt.Sprint("tenant-", i%tenants) }

// A load is a number of requests at a rate.
type load struct {
	rate, requests int // a second, and in all
	// patient sends all requests, however long they take. Without, the rest is given up
	// after twice the time that they should take.
	patient bool
}

// duration is the time that the requests should take.
func (l load) duration() time.Duration {
	return time.Duration(l.requests) * time.Second / time.Duration(l.rate)
}

// latencies are the times of requests, each from the moment at which it was due, sorted.
type latencies struct {
	times  []time.Duration
	failed int
	why    error // of the first failure
	unsent int   // requests that were given up
	took   time.Duration
}

// answered is the number of requests that were answered in a second. A load that ends in
// time has its rate: the last answer comes after the last request.
func (l latencies) answered(of load) float64 {
	return float64(len(l.times)) / max(l.took, of.duration()).Seconds()
}

// drive sends requests at a rate, whether the former have been answered or not.
func drive(ctx context.Context, of load, do func(context.Context, int) error) (l latencies) {
	var mu sync.Mutex
	var flight sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	began := time.Now()
	end := began.Add(2 * of.duration())
	sent := 0
	for ; sent < of.requests && ctx.Err() == nil && (sent == 0 || of.patient || time.Now().Before(end)); sent++ {
		i, due := sent, began.Add(time.Duration(sent)*time.Second/time.Duration(of.rate))
		time.Sleep(time.Until(due))
		slots <- struct{}{}
		flight.Go(func() {
			defer func() { <-slots }()
			err := do(ctx, i)
			took := time.Since(due)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				if l.failed++; l.failed == 1 {
					l.why = err
				}
				return
			}
			l.times = append(l.times, took)
		})
	}
	flight.Wait()
	l.took, l.unsent = time.Since(began), of.requests-sent
	slices.Sort(l.times)
	return l
}

// prepareLoad creates the namespaces of the loads, and waits until a pod of the one that
// opted in is wrapped.
func (w *world) prepareLoad(ctx context.Context) error {
	if err := w.beginWithInjector(ctx); err != nil {
		return err
	}
	optsIn := map[string]bool{optedInNamespace: true, plainNamespace: false}
	for i := range tenants {
		optsIn[tenant(i)] = true
	}
	for name, optedIn := range optsIn {
		_, err := w.cluster.Kube.CoreV1().Namespaces().Create(ctx, namespace(name, optedIn), metav1.CreateOptions{})
		if err := ignoreExisting(err); err != nil {
			return err
		}
		if err := w.ensureAccount(ctx, name); err != nil {
			return err
		}
	}
	return framework.Eventually(ctx, settleLimit, "a pod to be wrapped", func(ctx context.Context) error {
		p, err := w.dryRun(ctx, optedInNamespace, taskRunPod("run", ""))
		if err != nil {
			return err
		}
		return framework.CheckStepsWrapped(p)
	})
}

func (w *world) dryRun(ctx context.Context, namespace string, p *corev1.Pod) (*corev1.Pod, error) {
	return w.cluster.Kube.CoreV1().Pods(namespace).Create(ctx, p, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
}
