// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Reason says why a lookup failed. It is what logs, metrics and tests use.
type Reason string

// The reasons of an Error.
const (
	InvalidReference Reason = "InvalidReference" // the reference doesn't parse
	NotAllowed       Reason = "NotAllowed"       // the operator doesn't let us ask there
	CredentialsError Reason = "CredentialsError" // refused, and some of the pod's pull secrets can't be read
	Unauthorized     Reason = "Unauthorized"     // the registry refused these credentials (401, 403)
	NotFound         Reason = "NotFound"         // the registry has no such image (404)
	TooManyRequests  Reason = "TooManyRequests"  // the registry wants fewer (429)
	RegistryError    Reason = "RegistryError"    // any other answer of the registry
	Untrusted        Reason = "Untrusted"        // the registry's certificate isn't signed by a CA that we know
	Unreachable      Reason = "Unreachable"      // no answer: name or network
	Timeout          Reason = "Timeout"          // no answer in time
	NotAnImage       Reason = "NotAnImage"       // there is something, but nothing that a container could run
)

// Error is a failed lookup.
type Error struct {
	Query  Query
	Reason Reason
	Err    error
	// RetryAfter is how long not to ask again, if the registry said so.
	RetryAfter time.Duration
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
	case NotAllowed:
		return "use an image from elsewhere, have the operator of entrypointer allow it, or " + setCommand
	case Untrusted:
		return "have the operator of entrypointer add the registry's CA, or " + setCommand
	case Unreachable:
		return "correct the registry's name or try again, or " + setCommand
	default:
		return "try again, or " + setCommand
	}
}

// newError classifies err, the outcome of asking query. Failures of mirrors go along.
func newError(query Query, err error, mirrors ...error) *Error {
	if already, ok := errors.AsType[*Error](err); ok {
		return already
	}
	failure := &Error{Query: query, Reason: reasonOf(err), Err: presentable(err)}
	if limited, ok := errors.AsType[*tooManyRequestsError](err); ok {
		failure.RetryAfter = limited.after
	}
	for _, mirror := range mirrors {
		failure.Err = fmt.Errorf("%w (a mirror: %w)", failure.Err, presentable(mirror))
	}
	return failure
}

// shownProblems is how many of them an error message spells out.
const shownProblems = 3

// attempts is the error of a query for which no credential opened the manifest.
type attempts struct {
	refusals []error // what the registry said to each
	problems []error // why there may have been more
}

// Error says what the registry said to the first, which were meant for it more
// than those that followed.
func (a *attempts) Error() string {
	var words []string
	if len(a.refusals) > 0 {
		words = append(words, presentable(a.refusals[0]).Error())
	}
	if more := len(a.refusals) - 1; more > 0 {
		words = append(words, fmt.Sprintf("so it did to %d more attempts with other credentials", more))
	}
	for i, problem := range a.problems {
		if i == shownProblems {
			words = append(words, fmt.Sprintf("and %d more", len(a.problems)-i))
			break
		}
		words = append(words, problem.Error())
	}
	return strings.Join(words, "; ")
}

func (a *attempts) reason() Reason {
	for _, problem := range a.problems {
		if reason := reasonOfProblem(problem); reason != CredentialsError {
			return reason
		}
	}
	if len(a.problems) > 0 || len(a.refusals) == 0 {
		return CredentialsError
	}
	return reasonOf(a.refusals[0])
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

// notAllowedError is for what the operator's configuration rules out.
type notAllowedError struct{ what string }

func (e *notAllowedError) Error() string { return e.what + " is not allowed" }

// notAnImageError is for what a registry has under the name, but can't be run.
type notAnImageError struct{ what string }

func (e *notAnImageError) Error() string { return "found " + e.what }

func reasonOf(err error) Reason {
	var (
		answer     *transport.Error
		network    net.Error
		notImage   *notAnImageError
		notAllowed *notAllowedError
		tooMany    *tooManyRequestsError
		untrusted  *tls.CertificateVerificationError
		tried      *attempts
	)
	switch {
	case errors.As(err, &tried):
		return tried.reason()
	case errors.As(err, &notImage):
		return NotAnImage
	case errors.As(err, &notAllowed):
		return NotAllowed
	case errors.As(err, &tooMany):
		return TooManyRequests
	case errors.As(err, &untrusted):
		return Untrusted
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

// reasonOfProblem tells what is wrong with the pod's credentials from what is
// wrong with asking the API server for them.
func reasonOfProblem(err error) Reason {
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
