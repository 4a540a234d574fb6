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

	"github.com/entrypointer/entrypointer/internal/logs/retries"
	"github.com/entrypointer/entrypointer/internal/logs/streams"
)

// ConfigMap is the name of the ConfigMap with the limits, in the namespace of the log
// service.
const ConfigMap = "config-logs"

// exampleKey is ignored.
const exampleKey = "_example"

// Limits are the limits of all namespaces.
type Limits struct {
	// Interval is the pause between two sweeps.
	Interval time.Duration
	// Defaults are for namespaces without limits of their own.
	Defaults   NamespaceLimits
	Namespaces map[string]NamespaceLimits
}

// NamespaceLimits are the limits of a namespace. 0 stands for no limit.
type NamespaceLimits struct {
	Retention time.Duration
	Quota     int64 // in bytes, as stored
	Streams   int64
	Linger    time.Duration // from a second on, or LingerByStorage; see api.Limits
}

// LingerByStorage stands for a time that depends on what an object costs: on a bucket,
// money; on a volume, little, so that containers which are killed lose little.
const (
	LingerByStorage = time.Duration(-1)
	LingerOnBucket  = retries.LongestLinger
	LingerOnVolume  = time.Second
)

// DefaultLimits are the limits without a ConfigMap.
var DefaultLimits = Limits{Interval: 5 * time.Minute, Defaults: NamespaceLimits{Retention: 30 * 24 * time.Hour, Quota: 1 << 30, Streams: 100_000, Linger: LingerByStorage}}

// Of returns the limits of a namespace.
func (l *Limits) Of(namespace string) NamespaceLimits {
	if limits, own := l.Namespaces[namespace]; own {
		return limits
	}
	return l.Defaults
}

// limitSetters has, by key, how to set a limit. Each key can be followed by .NAMESPACE.
var limitSetters = map[string]func(*NamespaceLimits, string) error{
	"retention": func(l *NamespaceLimits, value string) (err error) {
		l.Retention, err = parseDuration(value)
		return err
	},
	"quota": func(l *NamespaceLimits, value string) (err error) { l.Quota, err = parseQuantity(value); return err },
	"linger": func(l *NamespaceLimits, value string) (err error) {
		if value == "" {
			l.Linger = LingerByStorage
			return nil
		}
		if l.Linger, err = parseDuration(value); err == nil && l.Linger > retries.LongestLinger {
			err = fmt.Errorf("%q is longer than %v: use a shorter time, or \"0\" for none", value, retries.LongestLinger)
		}
		return err
	},
	"streams": func(l *NamespaceLimits, value string) (err error) { l.Streams, err = parseQuantity(value); return err },
}

// ReadLimits parses the data of the ConfigMap. An unknown key is an error, because it is
// probably misspelled.
func ReadLimits(data map[string]string) (*Limits, error) {
	limits := DefaultLimits
	limits.Namespaces = map[string]NamespaceLimits{}
	var faults []error
	// "quota" comes before "quota.NAMESPACE", whose other limits are the defaults.
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
		interval, err := parseDuration(value)
		if err == nil && interval < time.Second {
			err = fmt.Errorf("%q is less than a second: use a longer interval, such as \"5m\"", value)
		}
		l.Interval = interval
		return err
	}
	kind, namespace, own := strings.Cut(name, ".")
	set, known := limitSetters[kind]
	if !known {
		return fmt.Errorf("the key is unknown: use interval, %s, or one of the others with .NAMESPACE", strings.Join(slices.Sorted(maps.Keys(limitSetters)), ", "))
	}
	if !own {
		return set(&l.Defaults, value)
	}
	if err := streams.CheckNamespace(namespace); err != nil {
		return err
	}
	limits := l.Of(namespace)
	err := set(&limits, value)
	l.Namespaces[namespace] = limits
	return err
}

// parseDuration parses a duration, which can be in days.
func parseDuration(value string) (time.Duration, error) {
	if days, is := strings.CutSuffix(value, "d"); is {
		if n, err := strconv.Atoi(days); err == nil && n >= 0 && n <= 36500 {
			return time.Duration(n) * 24 * time.Hour, nil
		}
	} else if d, err := time.ParseDuration(value); err == nil && d >= 0 || value == "0" {
		return d, nil
	}
	return 0, fmt.Errorf("%q isn't a duration: use one such as \"30d\" or \"12h\"", value)
}

func parseQuantity(value string) (int64, error) {
	q, err := resource.ParseQuantity(value)
	if err != nil || q.Sign() < 0 {
		return 0, fmt.Errorf("%q isn't a quantity: use one such as \"1Gi\" or \"100k\"", value)
	}
	return q.Value(), nil
}

const (
	// configPollInterval is the pause between two reads of the ConfigMap.
	configPollInterval = 5 * time.Second
	// configTimeout bounds one read of the ConfigMap.
	configTimeout = 10 * time.Second
)

// Follow keeps the limits as the ConfigMap has them until ctx is done. While the
// ConfigMap can't be read, or is gone, the former limits stay in force: by others, logs
// might be deleted.
func (k *Keeper) Follow(ctx context.Context, configMaps corev1client.ConfigMapInterface) error {
	logged := ""
	for {
		err := k.readLimits(ctx, configMaps)
		if k.metrics.configFaulty.Set(0); err != nil {
			k.metrics.configFaulty.Set(1)
		}
		if err != nil && err.Error() != logged && ctx.Err() == nil {
			k.logger.Error("The limits can't be read, the former ones stay in force", "error", err)
		}
		if logged = ""; err != nil {
			logged = err.Error()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(configPollInterval):
		}
	}
}

func (k *Keeper) readLimits(ctx context.Context, configMaps corev1client.ConfigMapInterface) error {
	ctx, cancel := context.WithTimeout(ctx, configTimeout)
	defer cancel()
	var data map[string]string
	configMap, err := configMaps.Get(ctx, ConfigMap, metav1.GetOptions{})
	switch {
	case err == nil:
		data = configMap.Data
	case !apierrors.IsNotFound(err) || k.known.Load(): // without a ConfigMap at the start, the defaults apply
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
	known := k.known.Swap(true)
	if before := k.limits.Load(); !known || fmt.Sprint(*before) != fmt.Sprint(*limits) {
		k.limits.Store(limits)
		k.logger.Info("The limits are in force", slog.Any("default", limits.Defaults), slog.Int("namespaces", len(limits.Namespaces)))
		select {
		case k.changed <- struct{}{}: // Run begins a sweep now
		default:
		}
	}
}
