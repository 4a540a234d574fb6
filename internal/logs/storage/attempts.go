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
	// maxAttempts bounds the attempts of a request. They have to end within 16 s, when the
	// client gives up (internal/ship).
	maxAttempts = 3
	// attemptTimeout bounds one attempt, including the retries of the store's own client.
	attemptTimeout = 5 * time.Second
	// retryPause is the shortest pause between two attempts. The longest is twice as long.
	retryPause = 100 * time.Millisecond
)

// withRetries makes an idempotent request, up to maxAttempts times.
func withRetries(ctx context.Context, request func(context.Context) error) error {
	for attempt := 1; ; attempt++ {
		limited, cancel := context.WithTimeoutCause(ctx, attemptTimeout, fmt.Errorf("no response within %v", attemptTimeout))
		err := request(limited)
		if err != nil && limited.Err() != nil {
			err = fmt.Errorf("%w: %w", context.Cause(limited), err)
		}
		cancel()
		if err == nil || ctx.Err() != nil || attempt == maxAttempts || isFinal(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(retryPause + rand.N(retryPause)): //nolint:gosec // no secret
		}
	}
}

// isFinal reports whether a request will fail again with the same error.
func isFinal(err error) bool {
	if errors.Is(err, ErrExists) || errors.Is(err, ErrNotFound) {
		return true
	}
	switch errorCode(err) {
	case gcerrors.NotFound, gcerrors.PermissionDenied, gcerrors.InvalidArgument, gcerrors.Unimplemented:
		return true
	default:
		return false
	}
}

// errorCode returns the code of an error. The library also reports NotFound when Google
// forbids something, when the name of Azure can't be resolved, when there is no bucket,
// and when the text of S3's error contains 301, such as in a request ID. An existing
// stream would then be taken for a new one.
func errorCode(err error) gcerrors.ErrorCode {
	var s3 smithy.APIError
	var google *googleapi.Error
	var azure *azcore.ResponseError
	var name *net.DNSError
	said := gcerrors.Code(err)
	switch {
	case errors.As(err, &s3):
		return errorCodeOfS3(s3.ErrorCode())
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

func errorCodeOfS3(said string) gcerrors.ErrorCode {
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
