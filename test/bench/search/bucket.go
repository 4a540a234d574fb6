// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"sync/atomic"

	"github.com/entrypointer/entrypointer/internal/logs/storage"
)

// A counted bucket counts what S3 bills of a search.
type counted struct {
	storage.Bucket
	gets, lists atomic.Int64
}

// Read implements storage.Bucket.
func (c *counted) Read(ctx context.Context, key string) ([]byte, error) {
	c.gets.Add(1)
	return c.Bucket.Read(ctx, key)
}

// Each implements storage.Bucket.
func (c *counted) Each(ctx context.Context, directory string, each func(storage.Object) bool) error {
	entries := int64(0)
	err := c.Bucket.Each(ctx, directory, func(o storage.Object) bool { entries++; return each(o) })
	c.lists.Add(1 + entries/page)
	return err
}

// Walk implements storage.Bucket.
func (c *counted) Walk(ctx context.Context, directory, after string, each func(storage.Object) bool) error {
	entries := int64(0)
	err := c.Bucket.Walk(ctx, directory, after, func(o storage.Object) bool { entries++; return each(o) })
	c.lists.Add(1 + entries/page)
	return err
}

const (
	// page is how many entries a response to LIST has at most.
	page = 1000
	// The list prices of S3 (Standard, us-east-1), in dollars for a request.
	priceOfGet, priceOfList = 0.4e-6, 5e-6
)

// dollars returns what the calls cost.
func (c *counted) dollars() float64 {
	return float64(c.gets.Load())*priceOfGet + float64(c.lists.Load())*priceOfList
}
