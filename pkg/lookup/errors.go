// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Reason says why a lookup failed. It is what logs, metrics and tests use.
type Reason string

// The reasons of an Error.
const (
	InvalidReference Reason = "InvalidReference" // the reference doesn't parse
	CredentialsError Reason = "CredentialsError" // the pod's pull secrets or service account can't be read
	Unauthorized     Reason = "Unauthorized"     // the registry refused these credentials (401, 403)
	NotFound         Reason = "NotFound"         // the registry has no such image (404)
	RegistryError    Reason = "RegistryError"    // any other answer of the registry
	Unreachable      Reason = "Unreachable"      // no answer: name, network or TLS
	Timeout          Reason = "Timeout"          // no answer in time
	NotAnImage       Reason = "NotAnImage"       // there is something, but nothing that a container could run
)

// Error is a failed lookup.
type Error struct {
	Query  Query
	Reason Reason
	Err    error
}

// Error names the image, who asked, what the registry said, and the way out.
func (e *Error) Error() string {
	return fmt.Sprintf("looking up image %q for namespace %q: %s: %v; %s",
		e.Query.Image, e.Query.Namespace, e.Reason, e.Err, e.wayOut())
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

func (e *Error) wayOut() string {
	const setCommand = "set command: in the container, which makes the lookup unnecessary"
	switch e.Reason {
	case InvalidReference, NotFound, NotAnImage:
		return "correct the image, or " + setCommand
	case Unauthorized, CredentialsError:
		return "give the pod or its service account imagePullSecrets that may pull it, or " + setCommand
	default:
		return "try again, or " + setCommand
	}
}

// newError classifies err, the outcome of asking query.
func newError(query Query, err error) *Error {
	if already, ok := errors.AsType[*Error](err); ok {
		return already
	}
	return &Error{Query: query, Reason: reasonOf(err), Err: presentable(err)}
}

// presentable leaves out the body of an answer that isn't a registry's error.
// The text goes to whoever created the pod, who may have named any service
// that we can reach as a registry, and must not read it through us.
func presentable(err error) error {
	answer, ok := errors.AsType[*transport.Error](err)
	if !ok || len(answer.Errors) > 0 {
		return err
	}
	return fmt.Errorf("the registry answered %d %s", answer.StatusCode, http.StatusText(answer.StatusCode))
}

// notAnImageError is for what a registry has under the name, but can't be run.
type notAnImageError struct{ what string }

func (e *notAnImageError) Error() string { return "found " + e.what }

func reasonOf(err error) Reason {
	var (
		answer   *transport.Error
		network  net.Error
		notImage *notAnImageError
	)
	switch {
	case errors.As(err, &notImage):
		return NotAnImage
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return Timeout
	case errors.As(err, &answer):
		return reasonOfStatus(answer.StatusCode)
	case errors.As(err, &network) && network.Timeout():
		return Timeout
	case errors.As(err, &network):
		return Unreachable
	default:
		return RegistryError
	}
}

// statusOf is the HTTP status of the registry's answer, 0 if err is none.
func statusOf(err error) int {
	if answer, ok := errors.AsType[*transport.Error](err); ok {
		return answer.StatusCode
	}
	return 0
}

// reasonOfKeychain tells what is wrong with the pod's credentials from what is
// wrong with asking the API server for them.
func reasonOfKeychain(err error) Reason {
	switch {
	case reasonOf(err) == Timeout, apierrors.IsTimeout(err), apierrors.IsServerTimeout(err), apierrors.IsTooManyRequests(err):
		return Timeout
	case apierrors.IsInternalError(err), apierrors.IsServiceUnavailable(err), reasonOf(err) == Unreachable:
		return Unreachable
	default:
		return CredentialsError
	}
}

func reasonOfStatus(status int) Reason {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return Unauthorized
	case http.StatusNotFound:
		return NotFound
	case http.StatusRequestTimeout, http.StatusGatewayTimeout:
		return Timeout
	default:
		return RegistryError
	}
}
