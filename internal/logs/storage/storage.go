// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package storage stores immutable objects.
//
// Immutable objects are enough for several replicas to share a store without a database
// or locks. The first replica that creates an object has created it for all, a listing is
// the index, and a crash leaves an object complete or absent.
package storage

import (
	"context"
	"errors"
	"time"
)

// The errors that callers handle.
var (
	ErrExists   = errors.New("the object exists")
	ErrNotFound = errors.New("there is no such object")
	ErrFull     = errors.New("the storage is full")
)

// An Object is an entry of a listing.
type Object struct {
	Name    string // the last element of its key, except in a Walk or a Scan
	Size    int64  // in bytes
	Written time.Time
}

// A Bucket stores objects under keys. A key is a path: names separated by slashes. A name
// consists of letters, digits and -_.~, and is neither "." nor "..".
type Bucket interface {
	// Create stores an object durably. If the key is in use, it returns ErrExists, and
	// changes nothing. It returns ErrFull if there is no space.
	Create(ctx context.Context, key string, content []byte) error
	// Read returns the content of an object, or ErrNotFound.
	Read(ctx context.Context, key string) ([]byte, error)
	// List returns the objects directly in a directory, sorted by name. A missing directory
	// counts as empty.
	List(ctx context.Context, directory string) ([]Object, error)
	// Each calls each for the objects of List, in any order, until each returns false. It
	// holds only some of them in memory at a time.
	Each(ctx context.Context, directory string, each func(Object) bool) error
	// Walk calls each for the objects in a directory and in those below it that come after a
	// name, in the order of their names, until each returns false. A name is the part of the
	// key behind the directory here.
	Walk(ctx context.Context, directory, after string, each func(Object) bool) error
	// Scan is Walk for all objects whose keys begin with a prefix, such as streams/7. The names
	// are the whole keys.
	Scan(ctx context.Context, prefix string, each func(Object) bool) error
	// Directories calls each for the names of the subdirectories that aren't empty, in any
	// order, until each returns false.
	Directories(ctx context.Context, directory string, each func(name string) bool) error
	// Delete deletes an object, if it exists.
	Delete(ctx context.Context, key string) error
	// DeleteAll deletes objects, as far as they exist, in any order and some at the same time.
	// After an error, any of them may be left.
	DeleteAll(ctx context.Context, keys []string) error
}
