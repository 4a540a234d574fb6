// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package objects

import "context"

// Bounds are in bytes, for where there is less memory than on a user's machine.
type Bounds struct {
	// Page bounds a page of a list, 64 MiB by default. An object that is larger can't be listed.
	Page int64
	// Pods bounds the pods of an object together. By default, their number alone is bounded.
	Pods int64
}

// A boundsKey is the key of the bounds in a context.
type boundsKey struct{}

// WithBounds returns a context in which lists are bounded.
func WithBounds(ctx context.Context, b Bounds) context.Context {
	return context.WithValue(ctx, boundsKey{}, b)
}

func boundsOf(ctx context.Context) Bounds {
	if b, is := ctx.Value(boundsKey{}).(Bounds); is {
		return b
	}
	return Bounds{Page: maxPage}
}
