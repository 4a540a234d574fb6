// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package storage keeps objects that never change once they are written.
//
// That is all that several replicas need to share one store without a database
// or locks: whoever writes an object first has written it for all, a listing is
// the index, and a crash leaves an object whole or absent.
package storage

import (
	"context"
	"errors"
	"time"
)

// What can be expected to go wrong.
var (
	ErrExists   = errors.New("the object exists")
	ErrNotFound = errors.New("there is no such object")
)

// An Object is an entry of a listing.
type Object struct {
	Name    string // the last element of its key
	Size    int64  // in bytes
	Written time.Time
}

// A Bucket has objects under keys: names that are separated by slashes, each of
// letters, digits and -_.~, and neither "." nor "..".
type Bucket interface {
	// Create writes an object, which is durable when it returns. It returns
	// ErrExists, and changes nothing, if the key has one.
	Create(ctx context.Context, key string, content []byte) error
	// Read returns an object's content, or ErrNotFound.
	Read(ctx context.Context, key string) ([]byte, error)
	// List returns the objects whose keys are the directory's and one name more,
	// in the order of their names. A directory without objects is empty.
	List(ctx context.Context, directory string) ([]Object, error)
	// Each passes on the same objects, in no order, until each returns false. It
	// holds no more than some of them at a time.
	Each(ctx context.Context, directory string, each func(Object) bool) error
	// Directories passes on the names of the directories below one that have
	// something, in no order, until each returns false.
	Directories(ctx context.Context, directory string, each func(name string) bool) error
	// Delete removes an object. One that isn't there is no error.
	Delete(ctx context.Context, key string) error
}
