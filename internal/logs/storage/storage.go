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
	Name    string // the last element of its key, or its path below the directory of a Walk
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
	// Walk is Each for all objects below a directory, in its subdirectories too. The name of an
	// object is its path below the directory. An object store needs a request for each 1,000
	// objects, whatever the number of directories.
	Walk(ctx context.Context, directory string, each func(Object) bool) error
	// Directories calls each for the names of the subdirectories that aren't empty, in any
	// order, until each returns false.
	Directories(ctx context.Context, directory string, each func(name string) bool) error
	// Delete deletes an object, if it exists.
	Delete(ctx context.Context, key string) error
}
