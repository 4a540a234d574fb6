// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package podwebhook

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"sync"
	"time"

	"github.com/entrypointer/entrypointer/internal/config"
	"github.com/entrypointer/entrypointer/pkg/lookup"
)

// lookups holds the Lookuper for the configuration in force. A change of its keys creates
// a new Lookuper, so that no answer of the former configuration is reused.
type lookups struct {
	credentials lookup.Credentials
	services    []netip.Prefix // addresses of the cluster's services
	metrics     *metrics

	mu       sync.Mutex
	config   *config.Config
	lookuper lookup.Lookuper
}

func (l *lookups) under(current *config.Config) (lookup.Lookuper, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.config == current {
		return l.lookuper, nil
	}
	if l.config == nil || !reflect.DeepEqual(l.config.Lookup, current.Lookup) {
		options := current.Lookup
		options.Services = l.services
		lookuper, err := lookup.New(l.credentials, options, config.MaxLookupTimeout)
		if err != nil {
			return nil, fmt.Errorf("preparing lookups: %w", err)
		}
		l.lookuper = &measured{next: lookuper, metrics: l.metrics}
	}
	l.config = current
	return l.lookuper, nil
}

// measured counts lookups and measures their time.
type measured struct {
	next    lookup.Lookuper
	metrics *metrics
}

// Lookup implements lookup.Lookuper.
func (m *measured) Lookup(ctx context.Context, query lookup.Query) (*lookup.Image, error) {
	start := time.Now()
	image, err := m.next.Lookup(ctx, query)
	result := string(lookup.RegistryError)
	if failure, ok := errors.AsType[*lookup.Error](err); ok {
		result = string(failure.Reason)
	} else if err == nil {
		result = string(image.Source)
	}
	m.metrics.lookedUp(ctx, result, time.Since(start))
	return image, err
}
