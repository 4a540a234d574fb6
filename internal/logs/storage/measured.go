// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Measured returns a bucket that records the duration and the failures of its calls.
func Measured(bucket Bucket, registry prometheus.Registerer) Bucket {
	m := &measured{
		Bucket: bucket,
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "entrypointer_logs_storage_duration_seconds", Help: "How long calls of the storage took.", Buckets: prometheus.ExponentialBuckets(0.001, 4, 8),
		}, []string{"call"}),
		failed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "entrypointer_logs_storage_errors_total", Help: "Calls of the storage that failed.",
		}, []string{"call"}),
	}
	registry.MustRegister(m.duration, m.failed)
	return m
}

// MeasureSpace registers metrics of the space that is left for files.
func MeasureSpace(files *Files, registry prometheus.Registerer) {
	for name, gauge := range map[string]struct {
		help  string
		value func() (float64, error)
	}{
		"bytes": {"Space that is left on the volume.", func() (float64, error) {
			bytes, _, err := files.Space()
			return bytes, err
		}},
		"inodes": {"Inodes that are left on the volume.", func() (float64, error) {
			_, inodes, err := files.Space()
			return inodes, err
		}},
	} {
		registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "entrypointer_logs_storage_free_" + name, Help: gauge.help}, func() float64 {
			value, err := gauge.value()
			if err != nil {
				return math.NaN()
			}
			return value
		}))
	}
}

type measured struct {
	Bucket
	duration *prometheus.HistogramVec
	failed   *prometheus.CounterVec
}

func (m *measured) call(name string, call func() error) error {
	began := time.Now()
	err := call()
	m.duration.WithLabelValues(name).Observe(time.Since(began).Seconds())
	if err != nil && !errors.Is(err, ErrExists) && !errors.Is(err, ErrNotFound) && !errors.Is(err, context.Canceled) {
		m.failed.WithLabelValues(name).Inc()
	}
	return err
}

// Create implements Bucket.
func (m *measured) Create(ctx context.Context, key string, content []byte) error {
	return m.call("Create", func() error { return m.Bucket.Create(ctx, key, content) })
}

// Read implements Bucket.
func (m *measured) Read(ctx context.Context, key string) (content []byte, err error) {
	err = m.call("Read", func() error { content, err = m.Bucket.Read(ctx, key); return err })
	return content, err
}

// List implements Bucket.
func (m *measured) List(ctx context.Context, directory string) (objects []Object, err error) {
	err = m.call("List", func() error { objects, err = m.Bucket.List(ctx, directory); return err })
	return objects, err
}

// Walk implements Bucket.
func (m *measured) Walk(ctx context.Context, directory, after string, each func(Object) bool) error {
	return m.call("List", func() error { return m.Bucket.Walk(ctx, directory, after, each) })
}

// Scan implements Bucket.
func (m *measured) Scan(ctx context.Context, prefix string, each func(Object) bool) error {
	return m.call("Scan", func() error { return m.Bucket.Scan(ctx, prefix, each) })
}

// DeleteAll implements Bucket.
func (m *measured) DeleteAll(ctx context.Context, keys []string) error {
	return m.call("DeleteAll", func() error { return m.Bucket.DeleteAll(ctx, keys) })
}

// Delete implements Bucket.
func (m *measured) Delete(ctx context.Context, key string) error {
	return m.call("Delete", func() error { return m.Bucket.Delete(ctx, key) })
}
