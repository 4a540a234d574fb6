// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package config reads the ConfigMap in which an operator configures the injector.
package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"knative.dev/pkg/configmap"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

// Name is the name of the ConfigMap, in the namespace of the injector.
const Name = "config-entrypointer"

// The keys of the ConfigMap.
const (
	lookupTimeoutKey = "lookup-timeout"
	failedLookupKey  = "failed-lookup"
	podOptOutKey     = "pod-opt-out"
)

const (
	minLookupTimeout = 100 * time.Millisecond
	// MaxLookupTimeout is the most that a lookup may take, whatever is configured.
	MaxLookupTimeout = 3 * time.Second
)

// Config is what the ConfigMap says, defaults filled in.
type Config struct {
	// LookupTimeout is how long one admission may wait for a registry.
	LookupTimeout time.Duration
	Policy        pod.Policy
}

// FromConfigMap parses the ConfigMap. Keys that it doesn't know are errors:
// they are spelling mistakes of which an operator wants to hear.
func FromConfigMap(cm *corev1.ConfigMap) (*Config, error) {
	config := &Config{LookupTimeout: MaxLookupTimeout}
	for _, key := range slices.Sorted(maps.Keys(cm.Data)) {
		if err := config.set(key, cm.Data[key]); err != nil {
			return nil, fmt.Errorf("reading ConfigMap %q: %w", Name, err)
		}
	}
	return config, nil
}

func (c *Config) set(key, value string) (err error) {
	switch key {
	case configmap.ExampleKey:
	case lookupTimeoutKey:
		c.LookupTimeout, err = parseTimeout(value)
	case failedLookupKey:
		c.Policy.WaiveFailedLookups, err = parseChoice(key, value, "refuse", "admit")
	case podOptOutKey:
		c.Policy.ForbidOptOut, err = parseChoice(key, value, "allowed", "forbidden")
	default:
		err = fmt.Errorf("key %q is unknown; the keys are %s", key,
			strings.Join([]string{failedLookupKey, lookupTimeoutKey, podOptOutKey}, ", "))
	}
	return err
}

func parseTimeout(value string) (time.Duration, error) {
	timeout, err := time.ParseDuration(value)
	if err != nil || timeout < minLookupTimeout || timeout > MaxLookupTimeout {
		return 0, fmt.Errorf("key %q: %q is not a duration from %v to %v, such as \"2s\"",
			lookupTimeoutKey, value, minLookupTimeout, MaxLookupTimeout)
	}
	return timeout, nil
}

// parseChoice says whether value is the second of two choices.
func parseChoice(key, value, first, second string) (bool, error) {
	if value != first && value != second {
		return false, fmt.Errorf("key %q: %q is neither %q nor %q", key, value, first, second)
	}
	return value == second, nil
}

// Store holds the newest ConfigMap that could be parsed.
type Store struct{ untyped *configmap.UntypedStore }

// NewStore returns a Store that is filled by watcher before the injector
// serves. A ConfigMap that can't be parsed is logged and leaves the last good
// one in force.
func NewStore(logger configmap.Logger, watcher configmap.Watcher) *Store {
	store := &Store{configmap.NewUntypedStore("injector", logger, configmap.Constructors{Name: FromConfigMap})}
	store.untyped.WatchConfigs(watcher)
	return store
}

// Load returns the configuration in force. It must not be changed.
func (s *Store) Load() *Config { return s.untyped.UntypedLoad(Name).(*Config) }
