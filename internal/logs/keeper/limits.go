// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package keeper

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/entrypointer/entrypointer/internal/logs/streams"
)

// ConfigMap is in the namespace of the log service.
const ConfigMap = "config-logs"

// exampleKey isn't read.
const exampleKey = "_example"

// Limits are what is kept of each namespace.
type Limits struct {
	// Interval lies between two looks at all streams.
	Interval time.Duration
	// Defaults are for namespaces that have none of their own.
	Defaults   Share
	Namespaces map[string]Share
}

// A Share is a namespace's. In each, 0 is no limit.
type Share struct {
	Retention time.Duration
	Quota     int64 // in bytes, as they are stored
	Streams   int64
}

// DefaultLimits are in force where the ConfigMap says nothing.
var DefaultLimits = Limits{Interval: 5 * time.Minute, Defaults: Share{Retention: 30 * 24 * time.Hour, Quota: 1 << 30, Streams: 100_000}}

// Of is what a namespace has.
func (l *Limits) Of(namespace string) Share {
	if share, own := l.Namespaces[namespace]; own {
		return share
	}
	return l.Defaults
}

// shares are the keys that may end with a namespace.
var shares = map[string]func(*Share, string) error{
	"retention": func(s *Share, value string) (err error) { s.Retention, err = duration(value); return err },
	"quota":     func(s *Share, value string) (err error) { s.Quota, err = quantity(value); return err },
	"streams":   func(s *Share, value string) (err error) { s.Streams, err = quantity(value); return err },
}

// ReadLimits reads the data of the ConfigMap. A key that isn't known is an error:
// it is a spelling mistake of which an operator wants to hear.
func ReadLimits(data map[string]string) (*Limits, error) {
	limits := DefaultLimits
	limits.Namespaces = map[string]Share{}
	var faults []error
	// "quota" comes before "quota.NAMESPACE", which has the default of the others.
	names := slices.SortedFunc(maps.Keys(data), func(a, b string) int {
		return strings.Count(a, ".") - strings.Count(b, ".")
	})
	for _, name := range names {
		if name == exampleKey {
			continue
		}
		if err := limits.set(name, data[name]); err != nil {
			faults = append(faults, fmt.Errorf("reading ConfigMap %q: key %q: %w", ConfigMap, name, err))
		}
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return &limits, nil
}

func (l *Limits) set(name, value string) error {
	if name == "interval" {
		interval, err := duration(value)
		if err == nil && interval < time.Second {
			err = fmt.Errorf("%q is less than a second", value)
		}
		l.Interval = interval
		return err
	}
	kind, namespace, own := strings.Cut(name, ".")
	set, known := shares[kind]
	if !known {
		return fmt.Errorf("it is unknown; the keys are interval, %s, and the last three with .NAMESPACE", strings.Join(slices.Sorted(maps.Keys(shares)), ", "))
	}
	if !own {
		return set(&l.Defaults, value)
	}
	if err := streams.CheckNamespace(namespace); err != nil {
		return err
	}
	share := l.Of(namespace)
	err := set(&share, value)
	l.Namespaces[namespace] = share
	return err
}

// duration reads one that may be in days.
func duration(value string) (time.Duration, error) {
	if days, is := strings.CutSuffix(value, "d"); is {
		if n, err := strconv.Atoi(days); err == nil && n >= 0 && n <= 36500 {
			return time.Duration(n) * 24 * time.Hour, nil
		}
	} else if d, err := time.ParseDuration(value); err == nil && d >= 0 || value == "0" {
		return d, nil
	}
	return 0, fmt.Errorf("%q is no duration, such as \"30d\" or \"12h\"", value)
}

func quantity(value string) (int64, error) {
	q, err := resource.ParseQuantity(value)
	if err != nil || q.Sign() < 0 {
		return 0, fmt.Errorf("%q is no quantity, such as \"1Gi\" or \"100k\"", value)
	}
	return q.Value(), nil
}

const (
	// followed is how often the ConfigMap is read.
	followed = 5 * time.Second
	// readLimit is what the API server may take for it.
	readLimit = 10 * time.Second
)

// Follow takes up what the ConfigMap says, until ctx is done. What can't be read
// leaves what was in force.
func (k *Keeper) Follow(ctx context.Context, configMaps corev1client.ConfigMapInterface) error {
	said := ""
	for {
		err := k.readLimits(ctx, configMaps)
		if k.metrics.faulty.Set(0); err != nil {
			k.metrics.faulty.Set(1)
		}
		if err != nil && err.Error() != said && ctx.Err() == nil {
			k.logger.Error("The settings can't be read, those of before stay in force", "error", err)
		}
		if said = ""; err != nil {
			said = err.Error()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(followed):
		}
	}
}

func (k *Keeper) readLimits(ctx context.Context, configMaps corev1client.ConfigMapInterface) error {
	ctx, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	var data map[string]string
	configMap, err := configMaps.Get(ctx, ConfigMap, metav1.GetOptions{})
	switch {
	case err == nil:
		data = configMap.Data
	case !apierrors.IsNotFound(err): // without one, there are the defaults
		return fmt.Errorf("reading ConfigMap %q: %w", ConfigMap, err)
	}
	limits, err := ReadLimits(data)
	if err != nil {
		return err
	}
	k.Use(limits)
	return nil
}

// Use puts limits in force.
func (k *Keeper) Use(limits *Limits) {
	if before := k.limits.Swap(limits); before == nil || fmt.Sprint(*before) != fmt.Sprint(*limits) {
		k.logger.Info("The limits are in force", slog.Any("default", limits.Defaults), slog.Int("namespaces", len(limits.Namespaces)))
		select {
		case k.changed <- struct{}{}: // it looks at all streams now
		default:
		}
	}
}
