// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package optionalpart_test

import (
	"context"
	"testing"
	"time"

	"github.com/entrypointer/entrypointer/internal/optionalpart"
)

func TestItLooksAfterEachIntervalUntilItIsDone(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	looked, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		optionalpart.Every(ctx, time.Millisecond, nil, func(context.Context) { looked <- struct{}{} })
	}()
	<-looked
	<-looked
	go func() {
		for range looked { // it may be about to look once more
		}
	}()
	cancel()
	<-ended
	close(looked)
}

func TestItLooksAtOnceWhenItIsAskedTo(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	looked, sooner := make(chan struct{}), make(chan struct{})
	go optionalpart.Every(ctx, time.Hour, sooner, func(context.Context) { looked <- struct{}{} })
	for range 2 {
		sooner <- struct{}{}
		<-looked
	}
}
