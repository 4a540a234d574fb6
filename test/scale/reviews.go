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
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/entrypointer/entrypointer/test/framework"
)

// A reviewer sends the injector reviews as an API server does.
type reviewer struct{ client *http.Client }

func (w *world) newReviewer(ctx context.Context) (*reviewer, error) {
	pool, err := w.webhookCA(ctx)
	if err != nil {
		return nil, err
	}
	return &reviewer{&http.Client{Timeout: requestLimit, Transport: &http.Transport{
		MaxIdleConnsPerHost: atOnce, ForceAttemptHTTP2: true,
		TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: framework.WebhookService + "." + framework.SystemNamespace + ".svc", MinVersion: tls.VersionTLS13},
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
	Unsent   int     `json:",omitempty"` // given up, because the injector was too slow
	Reached  float64 // answered a second
	P50, P99 time.Duration
	// CPU is the time of a processor that a review took the injector.
	CPU      time.Duration
	Injector memory // afterwards
}

// bear measures the injector while it answers requests.
func (w *world) bear(ctx context.Context, of load, kind string, do func(context.Context, int) error) (l loaded, err error) {
	before, err := w.injector.Usage()
	if err != nil {
		return l, err
	}
	profiled := w.keepCPU(ctx, fmt.Sprintf("%s-%d", strings.ReplaceAll(kind, " ", "-"), of.rate), time.Duration(of.requests)*time.Second/time.Duration(of.rate))
	got := drive(ctx, of, do)
	profiled()
	after, err := w.injector.Usage()
	if err != nil {
		return l, err
	}
	if len(got.times) == 0 {
		return l, fmt.Errorf("sending %d requests: none was answered: %w", of.requests, got.why)
	}
	if got.failed > 0 {
		log.Printf("%d of %d reviews failed, for instance: %v", got.failed, of.requests, got.why)
	}
	l = loaded{
		Rate: of.rate, Kind: kind, Answered: len(got.times), Failed: got.failed, Unsent: got.unsent, Reached: got.answered(of),
		CPU: (after.CPU - before.CPU) / time.Duration(len(got.times)+got.failed),
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
	lookups, err := reviewsOfImages(0, rememberedImages, tagged)
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
			requests := max(w.plan.least, int(w.plan.loadLasts.Seconds()*float64(rate)))
			row, err := w.bear(ctx, load{rate: rate, requests: requests}, kind, sends[kind])
			if err != nil {
				return err
			}
			f.Reviews = append(f.Reviews, row)
		}
	}
	return nil
}

// reviewsOfImages returns reviews of pods, each of another image.
func reviewsOfImages(from, to int, image func(int) (string, error)) (reviews [][]byte, _ error) {
	for i := from; i < to; i++ {
		reference, err := image(i)
		if err != nil {
			return nil, err
		}
		review, err := reviewOf(tenant(i), taskRunPod(fmt.Sprint("run-", i), reference))
		if err != nil {
			return nil, err
		}
		reviews = append(reviews, review)
	}
	return reviews, nil
}

// imagesRow is how the injector bore so many images in all. Without images, it has only the
// memory.
type imagesRow struct {
	Images int
	loaded
}

func measureImages(ctx context.Context, w *world, f *figures) error {
	f.Images = nil
	reviewer, stop, err := w.beginReviews(ctx)
	if err != nil {
		return err
	}
	defer stop()
	// What former reviews left isn't of this part.
	if _, err := w.startInjector(ctx); err != nil {
		return err
	}
	if _, err := w.settle(ctx); err != nil {
		return err
	}
	none := imagesRow{}
	if none.Injector, err = w.injectorMemory(ctx); err != nil {
		return err
	}
	f.Images = append(f.Images, none)
	before := 0
	for _, n := range w.plan.images {
		reviews, err := reviewsOfImages(before, n, pinnedOrTagged)
		if err != nil {
			return err
		}
		row, err := w.bear(ctx, load{rate: w.plan.rates[len(w.plan.rates)-1], requests: len(reviews), patient: true}, lookedUp,
			func(ctx context.Context, i int) error { return reviewer.post(ctx, reviews[i]) })
		if err != nil {
			return err
		}
		f.Images = append(f.Images, imagesRow{Images: n, loaded: row})
		before = n
	}
	return nil
}
