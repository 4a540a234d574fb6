// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"context"
	"sync/atomic"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	corev1 "k8s.io/api/core/v1"
	"knative.dev/pkg/configmap"
)

// Store holds the configuration in force, for all parts of the injector.
//
// knative.dev/pkg's own store ends the process if the first ConfigMap that it
// sees can't be parsed. Every namespace that opted in would then be blocked,
// after a downgrade for instance, by a key that only the newer release knows.
type Store struct {
	logger  configmap.Logger
	current atomic.Pointer[Config]
	faulty  metric.Int64Gauge
	follows []func(*Config)
}

// Follow registers a function, which is called with each configuration after it has come
// into force. Call Follow before Watch.
func (s *Store) Follow(follow func(*Config)) { s.follows = append(s.follows, follow) }

// Watch makes watcher fill the Store before the injector serves. At the start, the
// injector takes all valid keys of an invalid ConfigMap, and safe values for the rest.
// Later, the last valid ConfigMap stays in force. Both cases are logged as errors, and
// counted.
func (s *Store) Watch(logger configmap.Logger, watcher configmap.Watcher) {
	// docs/metrics.md lists the metrics.
	faulty, err := otel.GetMeterProvider().Meter("github.com/entrypointer/entrypointer").Int64Gauge(
		"entrypointer.config.faulty_keys", metric.WithDescription("Keys of "+Name+" that aren't in force as they are written."))
	if err != nil {
		logger.Errorf("Creating the metric of faulty keys of %s: %v", Name, err)
	}
	s.logger, s.faulty = logger, faulty
	watcher.Watch(Name, s.learn)
}

func (s *Store) learn(cm *corev1.ConfigMap) {
	config, faults := read(cm)
	s.faulty.Record(context.Background(), int64(len(faults)))
	first := s.current.Load() == nil
	for _, f := range faults {
		if !first {
			f.instead = "the former configuration stays in force"
		}
		s.logger.Errorf("%v; %s until it is corrected", f.err, f.instead)
	}
	if !first && len(faults) > 0 {
		return
	}
	s.current.Store(config)
	for _, follow := range s.follows {
		follow(config)
	}
}

// Load returns the configuration in force, nil before the first. The configuration must
// not be changed.
func (s *Store) Load() *Config { return s.current.Load() }
