// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package autodelivery

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// metrics are the metrics of canaries. docs/metrics.md lists them.
type metrics struct{ canaries metric.Int64Counter }

// newMetrics registers the metric of the verdict, and returns the counter of canaries.
func newMetrics(provider metric.MeterProvider, verdict func() Verdict) (*metrics, error) {
	meter := provider.Meter("github.com/entrypointer/entrypointer")
	canaries, err1 := meter.Int64Counter("entrypointer.delivery.canaries",
		metric.WithDescription("Canaries by what became of them so far."))
	_, err2 := meter.Int64ObservableGauge("entrypointer.delivery.image_volumes",
		metric.WithDescription("Whether pods get image volumes under delivery auto, and why or why not."),
		metric.WithInt64Callback(func(_ context.Context, observer metric.Int64Observer) error {
			v, value := verdict(), int64(0)
			if v.ImageVolumes() {
				value = 1
			}
			observer.Observe(value, metric.WithAttributes(attribute.String("reason", string(v.Reason))))
			return nil
		}))
	return &metrics{canaries}, errors.Join(err1, err2)
}

func (m *metrics) started(ctx context.Context) { m.count(ctx, started) }

func (m *metrics) ended(ctx context.Context, got result) { m.count(ctx, got) }

func (m *metrics) count(ctx context.Context, what result) {
	m.canaries.Add(ctx, 1, metric.WithAttributes(attribute.String("result", string(what))))
}
