// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"gocloud.dev/gcerrors"
	"google.golang.org/api/googleapi"
)

const (
	// attempts are made of each request: by 16 s, a client has given up (internal/ship).
	attempts = 3
	// attemptLimit is what each may take. The store's client repeats within it what
	// the store asks to have repeated.
	attemptLimit = 5 * time.Second
	// attemptPause lies between two, with as much again by chance.
	attemptPause = 100 * time.Millisecond
)

// attempt makes a request that can be repeated, some times if it fails.
func attempt(ctx context.Context, request func(context.Context) error) error {
	for made := 1; ; made++ {
		limited, cancel := context.WithTimeoutCause(ctx, attemptLimit, fmt.Errorf("no answer within %v", attemptLimit))
		err := request(limited)
		if err != nil && limited.Err() != nil {
			err = fmt.Errorf("%w: %w", context.Cause(limited), err)
		}
		cancel()
		if err == nil || ctx.Err() != nil || made == attempts || isFinal(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(attemptPause + rand.N(attemptPause)): //nolint:gosec // no secret
		}
	}
}

// isFinal says whether a request that fails so will fail again.
func isFinal(err error) bool {
	if errors.Is(err, ErrExists) || errors.Is(err, ErrNotFound) {
		return true
	}
	switch gcerrors.Code(err) {
	case gcerrors.NotFound, gcerrors.PermissionDenied, gcerrors.InvalidArgument, gcerrors.Unimplemented:
		return !isUnreachable(err)
	default:
		return false
	}
}

func isUnreachable(err error) bool {
	var name *net.DNSError
	return errors.As(err, &name)
}

// isAbsent says whether the store knows that there is no such object. The library
// also says NotFound where Google forbids something, where Azure's name can't be looked
// up, and where there is no bucket: taken for that, a stream would begin anew.
func isAbsent(err error) bool {
	if gcerrors.Code(err) != gcerrors.NotFound || isUnreachable(err) {
		return false
	}
	var google *googleapi.Error
	if errors.As(err, &google) {
		return google.Code == http.StatusNotFound
	}
	var azure *azcore.ResponseError
	if errors.As(err, &azure) {
		return bloberror.HasCode(err, bloberror.BlobNotFound)
	}
	var bucket *types.NoSuchBucket
	return !errors.As(err, &bucket)
}
