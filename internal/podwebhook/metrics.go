// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package podwebhook

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

// meterName is the instrumentation scope of the injector's metrics. docs/metrics.md lists
// them. Tenants can't choose the values of any label.
const meterName = "github.com/entrypointer/entrypointer"

type metrics struct {
	decisions metric.Int64Counter
	decision  metric.Float64Histogram
	lookup    metric.Float64Histogram
	dropped   metric.Int64Counter
}

// seconds are the bounds of the histograms: from a decision without a lookup, to a nearby
// registry, to the longest lookup.
var seconds = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2, 3}

func newMetrics(provider metric.MeterProvider) (*metrics, error) {
	meter := provider.Meter(meterName)
	decisions, err1 := meter.Int64Counter("entrypointer.pod.decisions",
		metric.WithDescription("Pods that were decided on."))
	decision, err2 := meter.Float64Histogram("entrypointer.pod.decision.duration", metric.WithUnit("s"),
		metric.WithDescription("How long a decision on a pod took, lookups included."),
		metric.WithExplicitBucketBoundaries(seconds...))
	lookup, err3 := meter.Float64Histogram("entrypointer.lookup.duration", metric.WithUnit("s"),
		metric.WithDescription("How long an answer about an image took."),
		metric.WithExplicitBucketBoundaries(seconds...))
	dropped, err4 := meter.Int64Counter("entrypointer.events.dropped",
		metric.WithDescription("Kubernetes Events that weren't written."))
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return nil, err
	}
	// An alert fires on the first defect: it is an increase, because of the zero before it.
	decisions.Add(context.Background(), 0, attributesOf(pod.InternalError, "", ""))
	return &metrics{decisions: decisions, decision: decision, lookup: lookup, dropped: dropped}, nil
}

func attributesOf(outcome pod.Outcome, owner pod.Owner, delivery pod.Delivery) metric.MeasurementOption {
	return metric.WithAttributes(attribute.String("outcome", string(outcome)),
		attribute.String("owner", string(owner)), attribute.String("delivery", string(delivery)))
}

func (m *metrics) decided(ctx context.Context, outcome pod.Outcome, owner pod.Owner, delivery pod.Delivery, took time.Duration) {
	m.decisions.Add(ctx, 1, attributesOf(outcome, owner, delivery))
	m.decision.Record(ctx, took.Seconds(), metric.WithAttributes(attribute.String("outcome", string(outcome))))
}

func (m *metrics) lookedUp(ctx context.Context, result string, took time.Duration) {
	m.lookup.Record(ctx, took.Seconds(), metric.WithAttributes(attribute.String("result", result)))
}

func (m *metrics) eventDropped(reason dropReason) {
	m.dropped.Add(context.Background(), 1, metric.WithAttributes(attribute.String("reason", string(reason))))
}
