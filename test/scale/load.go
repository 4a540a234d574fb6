// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"slices"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

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

// latencies are the times of requests, each from the moment at which it was due, sorted.
type latencies struct {
	times  []time.Duration
	failed int
	why    error // of the first failure
}

// drive sends requests at a rate, whether the former have been answered or not. It gives
// the rest up after twice the time that they should take.
func drive(ctx context.Context, rate, requests int, do func(context.Context, int) error) (l latencies) {
	var mu sync.Mutex
	var flight sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	began := time.Now()
	end := began.Add(2 * time.Duration(requests) * time.Second / time.Duration(rate))
	for i := 0; i < requests && ctx.Err() == nil && (i == 0 || time.Now().Before(end)); i++ {
		due := began.Add(time.Duration(i) * time.Second / time.Duration(rate))
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
	slices.Sort(l.times)
	return l
}

// prepareLoad creates the two namespaces of the load, and waits until a pod of the one
// that opted in is wrapped.
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

// A reviewer sends the injector reviews as an API server does.
type reviewer struct{ client *http.Client }

func (w *world) newReviewer(ctx context.Context) (*reviewer, error) {
	pool, err := w.webhookCA(ctx)
	if err != nil {
		return nil, err
	}
	return &reviewer{&http.Client{Timeout: requestLimit, Transport: &http.Transport{
		MaxIdleConnsPerHost: atOnce, ForceAttemptHTTP2: true,
		TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: "entrypointer-webhook." + framework.SystemNamespace + ".svc", MinVersion: tls.VersionTLS13},
	}}}, nil
}

// reviewOf encodes the review of a pod of a namespace.
func reviewOf(namespace string, p *corev1.Pod) ([]byte, error) {
	object, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	dryRun := true
	return json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: types.UID(p.Name), Namespace: namespace, Operation: admissionv1.Create, DryRun: &dryRun,
			Kind:     metav1.GroupVersionKind{Version: "v1", Kind: "Pod"},
			Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
			Object:   runtime.RawExtension{Raw: object},
		},
	})
}

// post has the injector decide on a review, and returns an error unless it wraps the pod.
func (r *reviewer) post(ctx context.Context, review []byte) error {
	url := fmt.Sprintf("https://%s/pods?timeout=%v", webhookAddress, requestLimit)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(review))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := r.client.Do(request)
	if err != nil {
		return fmt.Errorf("posting a review: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	var answer admissionv1.AdmissionReview
	if err := json.NewDecoder(io.LimitReader(response.Body, 1<<20)).Decode(&answer); err != nil {
		return fmt.Errorf("reading the answer to a review (%s): %w", response.Status, err)
	}
	if answer.Response == nil || !answer.Response.Allowed || len(answer.Response.Patch) == 0 {
		return fmt.Errorf("a pod wasn't wrapped: %+v", answer.Response)
	}
	return nil
}

// A loaded row is how the injector bore reviews at a rate.
type loaded struct {
	Rate     int
	Kind     string
	Answered int
	Failed   int
	P50, P99 time.Duration
	// CPU is the time of a processor that a review took the injector.
	CPU      time.Duration
	Injector memory // afterwards
}

// bear measures the injector while it answers requests.
func (w *world) bear(ctx context.Context, rate, requests int, kind string, do func(context.Context, int) error) (l loaded, err error) {
	before, err := w.injector.usage()
	if err != nil {
		return l, err
	}
	got := drive(ctx, rate, requests, do)
	after, err := w.injector.usage()
	if err != nil {
		return l, err
	}
	if len(got.times) == 0 {
		return l, fmt.Errorf("sending %d requests: none was answered: %w", requests, got.why)
	}
	if got.failed > 0 {
		log.Printf("%d of %d reviews failed, for instance: %v", got.failed, requests, got.why)
	}
	l = loaded{
		Rate: rate, Kind: kind, Answered: len(got.times), Failed: got.failed, CPU: (after.CPU - before.CPU) / time.Duration(len(got.times)+got.failed),
		P50: framework.Percentile(got.times, 50), P99: framework.Percentile(got.times, 99),
	}
	if l.Injector, err = w.injectorMemory(ctx); err != nil {
		return l, err
	}
	return l, ctx.Err()
}

// The kinds of pods in the reviews.
const (
	withCommands = "commands in the pod"
	remembered   = "images that were looked up before"
	lookedUp     = "images that are looked up for the first time"
)

// rememberedImages is the number of images of the reviews of kind remembered.
const rememberedImages = 1000

// image returns the reference of an image of the registry.
func image(i int) string { return fmt.Sprintf("%s/team/image-%d:v1", registryHost, i) }

// beginReviews prepares reviews of pods, whose images a registry serves until stop is called.
func (w *world) beginReviews(ctx context.Context) (r *reviewer, stop func(), err error) {
	if err := w.prepareLoad(ctx); err != nil {
		return nil, nil, err
	}
	if stop, err = serveImages(ctx); err != nil {
		return nil, nil, err
	}
	if r, err = w.newReviewer(ctx); err != nil {
		stop()
		return nil, nil, err
	}
	return r, stop, nil
}

func measureReviews(ctx context.Context, w *world, f *figures) error {
	f.Reviews = nil
	reviewer, stop, err := w.beginReviews(ctx)
	if err != nil {
		return err
	}
	defer stop()
	command, err := reviewOf(optedInNamespace, taskRunPod("run", ""))
	if err != nil {
		return err
	}
	lookups, err := reviewsOfImages(0, rememberedImages)
	if err != nil {
		return err
	}
	sends := map[string]func(context.Context, int) error{
		withCommands: func(ctx context.Context, _ int) error { return reviewer.post(ctx, command) },
		remembered:   func(ctx context.Context, i int) error { return reviewer.post(ctx, lookups[i%len(lookups)]) },
	}
	if err := each(ctx, 0, rememberedImages, sends[remembered]); err != nil {
		return err
	}
	for _, rate := range w.plan.rates {
		for _, kind := range []string{withCommands, remembered} {
			row, err := w.bear(ctx, rate, max(w.plan.least, int(w.plan.loadLasts.Seconds()*float64(rate))), kind, sends[kind])
			if err != nil {
				return err
			}
			f.Reviews = append(f.Reviews, row)
		}
	}
	return nil
}

func reviewsOfImages(from, to int) (reviews [][]byte, _ error) {
	for i := from; i < to; i++ {
		review, err := reviewOf(tenant(i), taskRunPod(fmt.Sprint("run-", i), image(i)))
		if err != nil {
			return nil, err
		}
		reviews = append(reviews, review)
	}
	return reviews, nil
}

func measureImages(ctx context.Context, w *world, f *figures) error {
	f.Images = nil
	reviewer, stop, err := w.beginReviews(ctx)
	if err != nil {
		return err
	}
	defer stop()
	before := 0
	for _, n := range w.plan.images {
		reviews, err := reviewsOfImages(before, n)
		if err != nil {
			return err
		}
		// An index above those of the reviews before, so that no image was looked up.
		row, err := w.bear(ctx, w.plan.rates[len(w.plan.rates)-1], len(reviews), lookedUp, func(ctx context.Context, i int) error { return reviewer.post(ctx, reviews[i]) })
		if err != nil {
			return err
		}
		f.Images = append(f.Images, imagesRow{Images: n, loaded: row})
		before = n
	}
	return nil
}

// imagesRow is how the injector bore so many images in all.
type imagesRow struct {
	Images int
	loaded
}

// created is how long the API server took to create pods at a rate, as dry runs, in
// a namespace that opted in and in one that didn't.
type created struct {
	Rate, Pairs, Failed int
	PlainP50, PlainP99  time.Duration
	OursP50, OursP99    time.Duration
	// Added is the mean of the pairs' differences of the medians, and AddedHalf half of the
	// interval around it; the same for the p99.
	Added, AddedHalf       time.Duration
	AddedP99, AddedP99Half time.Duration
	// ServerPlain and ServerOurs are the processor time of the API server for a pod.
	ServerPlain, ServerOurs time.Duration
	Injector                time.Duration
}

// measureCreations compares blocks of creations in pairs, of which the first is in either
// namespace in turn.
func measureCreations(ctx context.Context, w *world, f *figures) error {
	f.Creations = nil
	if err := w.prepareLoad(ctx); err != nil {
		return err
	}
	for _, rate := range w.plan.rates {
		row, err := w.compare(ctx, rate)
		if err != nil {
			return err
		}
		f.Creations = append(f.Creations, row)
	}
	return nil
}

func (w *world) compare(ctx context.Context, rate int) (c created, err error) {
	requests := max(w.plan.least/4, int(w.plan.block.Seconds()*float64(rate)))
	sides := map[string]*side{plainNamespace: {}, optedInNamespace: {}}
	order := []string{plainNamespace, optedInNamespace}
	for range w.plan.pairs {
		for _, namespace := range order {
			if err := sides[namespace].block(ctx, w, namespace, rate, requests); err != nil {
				return c, err
			}
		}
		slices.Reverse(order)
	}
	plain, ours := sides[plainNamespace], sides[optedInNamespace]
	count := func(s *side) time.Duration { return time.Duration(len(s.all) + s.failed) }
	c = created{
		Rate: rate, Pairs: w.plan.pairs, Failed: plain.failed + ours.failed,
		ServerPlain: plain.server / count(plain), ServerOurs: ours.server / count(ours), Injector: ours.injector / count(ours),
	}
	c.PlainP50, c.PlainP99 = plain.percentiles()
	c.OursP50, c.OursP99 = ours.percentiles()
	c.Added, c.AddedHalf = difference(ours.p50, plain.p50)
	c.AddedP99, c.AddedP99Half = difference(ours.p99, plain.p99)
	return c, nil
}

// A side is what was measured in one namespace.
type side struct {
	all              []time.Duration
	p50, p99         []float64 // of the blocks, in nanoseconds
	failed           int
	server, injector time.Duration // processor time
}

func (s *side) block(ctx context.Context, w *world, namespace string, rate, requests int) error {
	p := taskRunPod("run", "")
	server, err := w.apiServer.usage()
	if err != nil {
		return err
	}
	injector, err := w.injector.usage()
	if err != nil {
		return err
	}
	got := drive(ctx, rate, requests, func(ctx context.Context, _ int) error {
		_, err := w.dryRun(ctx, namespace, p)
		return err
	})
	if len(got.times) == 0 {
		return fmt.Errorf("creating pods in namespace %q: none was created: %w", namespace, got.why)
	}
	serverAfter, err := w.apiServer.usage()
	if err != nil {
		return err
	}
	injectorAfter, err := w.injector.usage()
	if err != nil {
		return err
	}
	s.server += serverAfter.CPU - server.CPU
	s.injector += injectorAfter.CPU - injector.CPU
	s.failed += got.failed
	s.all = append(s.all, got.times...)
	s.p50 = append(s.p50, float64(framework.Percentile(got.times, 50)))
	s.p99 = append(s.p99, float64(framework.Percentile(got.times, 99)))
	return ctx.Err()
}

func (s *side) percentiles() (p50, p99 time.Duration) {
	slices.Sort(s.all)
	return framework.Percentile(s.all, 50), framework.Percentile(s.all, 99)
}

// difference returns the mean difference of pairs, and half of the interval around it.
func difference(ours, plain []float64) (mean, half time.Duration) {
	differences := make([]float64, len(ours))
	for i := range ours {
		differences[i] = ours[i] - plain[i]
	}
	m, h := framework.Interval(differences)
	return time.Duration(m), time.Duration(h)
}
