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
	"github.com/aws/smithy-go"
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
	switch code(err) {
	case gcerrors.NotFound, gcerrors.PermissionDenied, gcerrors.InvalidArgument, gcerrors.Unimplemented:
		return true
	default:
		return false
	}
}

// code says what kind of error it is. The library also says NotFound where Google
// forbids something, where Azure's name can't be looked up, where there is no bucket,
// and where S3 says anything with a 301 in it, such as in the ID of the request. Taken
// for an object that isn't there, a stream would begin anew.
func code(err error) gcerrors.ErrorCode {
	var s3 smithy.APIError
	var google *googleapi.Error
	var azure *azcore.ResponseError
	var name *net.DNSError
	said := gcerrors.Code(err)
	switch {
	case errors.As(err, &s3):
		return codeOfS3(s3.ErrorCode())
	case errors.As(err, &google) && google.Code == http.StatusForbidden:
		return gcerrors.PermissionDenied
	case errors.As(err, &azure) && said == gcerrors.NotFound && !bloberror.HasCode(err, bloberror.BlobNotFound):
		return gcerrors.Unknown
	case errors.As(err, &name):
		return gcerrors.Unknown
	default:
		return said
	}
}

func codeOfS3(said string) gcerrors.ErrorCode {
	switch said {
	case "NoSuchKey", "NotFound":
		return gcerrors.NotFound
	case "PreconditionFailed":
		return gcerrors.FailedPrecondition
	case "AccessDenied", "Forbidden", "InvalidAccessKeyId", "SignatureDoesNotMatch":
		return gcerrors.PermissionDenied
	default:
		return gcerrors.Unknown
	}
}
