// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Reason names the cause of a failed lookup. Logs, metrics and tests use the same words.
type Reason string

// The reasons of an Error.
const (
	InvalidReference Reason = "InvalidReference" // the reference doesn't parse
	NotAllowed       Reason = "NotAllowed"       // the operator doesn't allow lookups there
	CredentialsError Reason = "CredentialsError" // refused, and some of the pod's pull secrets can't be read
	Unauthorized     Reason = "Unauthorized"     // the registry refused these credentials (401, 403)
	NotFound         Reason = "NotFound"         // the registry has no such image (404)
	TooManyRequests  Reason = "TooManyRequests"  // the registry wants fewer (429)
	RegistryError    Reason = "RegistryError"    // any other answer of the registry
	Untrusted        Reason = "Untrusted"        // the registry's certificate isn't signed by a known CA
	Unreachable      Reason = "Unreachable"      // no answer: name or network
	Timeout          Reason = "Timeout"          // no answer in time
	Busy             Reason = "Busy"             // no request in time, because too many lookups are under way
	NotAnImage       Reason = "NotAnImage"       // the reference leads to something that isn't a runnable image
)

// isOutage reports whether the registry, or the way to it, may well be down.
func (r Reason) isOutage() bool {
	return slices.Contains([]Reason{TooManyRequests, RegistryError, Unreachable, Timeout, Busy}, r)
}

// mayBeOfAnOldPing reports whether the registry may want another way of authentication than
// the one that it answered to a ping a while ago.
func (r Reason) mayBeOfAnOldPing() bool {
	return slices.Contains([]Reason{Unauthorized, NotFound, RegistryError, Unreachable}, r)
}

// Error is a failed lookup.
type Error struct {
	Query  Query
	Reason Reason
	Err    error
	// RetryAfter is the time that the registry asks to wait before the next request, 0 if
	// it names none.
	RetryAfter time.Duration
}

// Error names the image, the namespace, the cause, and the way out.
func (e *Error) Error() string {
	return fmt.Sprintf("looking up image %.1024q for namespace %q: %s: %v; %s",
		e.Query.Image, e.Query.Namespace, e.Reason, e.Err, e.remedy())
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

func (e *Error) remedy() string {
	const setCommand = "set command: in the container, which makes the lookup unnecessary"
	switch e.Reason {
	case InvalidReference, NotFound, NotAnImage:
		return "correct the image, or " + setCommand
	case Unauthorized, CredentialsError:
		return "give the pod or its service account imagePullSecrets that may pull it, or " + setCommand
	case NotAllowed:
		return "use an image of a registry that is allowed, have the operator of entrypointer allow it, or " + setCommand
	case Untrusted:
		return "have the operator of entrypointer add the registry's CA, or " + setCommand
	case Unreachable:
		return "correct the registry's name or try again, or " + setCommand
	default:
		return "try again, or " + setCommand
	}
}

// newError classifies err, the outcome of a query, and adds the failures of mirrors.
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

// shownProblems is the number of problems that an error message spells out.
const shownProblems = 3

// attempts is the error of a query for which no credential opened the manifest.
type attempts struct {
	refusals []error // the registry's answer to each credential
	problems []error // why credentials may be missing
}

// Error quotes the registry's answer to the first credential, which matches the image
// best.
func (a *attempts) Error() string {
	var texts []string
	if len(a.refusals) > 0 {
		texts = append(texts, presentable(a.refusals[0]).Error())
	}
	switch more := len(a.refusals) - 1; {
	case more == 1:
		texts = append(texts, "and the same to another credential")
	case more > 1:
		texts = append(texts, fmt.Sprintf("and the same to %d other credentials", more))
	}
	for i, problem := range a.problems {
		if i == shownProblems {
			texts = append(texts, fmt.Sprintf("and %d more", len(a.problems)-i))
			break
		}
		texts = append(texts, shorten(problem.Error()))
	}
	return strings.Join(texts, "; ")
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

// presentable returns an error in this package's words, except for the text in a
// registry's error document. The text is shown to the creator of the pod, who may have
// named any reachable service as a registry, and must not read from that service through
// lookups: neither its answers nor its banner, not even their hash.
func presentable(err error) error {
	var (
		said    *transport.Error
		network *net.OpError
		name    *net.DNSError
		header  tls.RecordHeaderError
	)
	switch {
	case isOurs(err):
		return innermost(err)
	case errors.As(err, &said):
		return errors.New(quote(said))
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return errors.New("there was no answer in time from the registry, or from the API server, which has the pull secrets")
	case reasonOf(err) == Untrusted:
		return errors.New(untrusted(err))
	case errors.As(err, &header):
		return errors.New("the registry doesn't speak TLS")
	case errors.As(err, &name):
		return fmt.Errorf("resolving the name %q: %s", shorten(name.Name), name.Err)
	case errors.As(err, &network) && network.Op == "dial":
		return fmt.Errorf("connecting to the registry: %w", deepest(network))
	case errors.As(err, &network), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the connection to the registry broke")
	default:
		return errors.New("the answer isn't a registry's")
	}
}

// isOurs reports whether this package worded an error.
func isOurs(err error) bool { return innermost(err) != nil }

// innermost returns the error of this package that err wraps, without the text of
// libraries around it.
func innermost(err error) error {
	var (
		tried      *attempts
		notImage   *notAnImageError
		notAllowed *notAllowedError
		tooMany    *tooManyRequestsError
		tooLong    *tooLongError
		strange    *protocolError
		busy       *busyError
	)
	switch {
	case errors.As(err, &tried):
		return tried
	case errors.As(err, &notImage):
		return notImage
	case errors.As(err, &notAllowed):
		return notAllowed
	case errors.As(err, &tooMany):
		return tooMany
	case errors.As(err, &tooLong):
		return tooLong
	case errors.As(err, &strange):
		return strange
	case errors.As(err, &busy):
		return busy
	}
	return nil
}

// deepest returns the operating system's error.
func deepest(err error) error {
	if number, ok := errors.AsType[syscall.Errno](err); ok {
		return number
	}
	return errors.New("it failed")
}

// untrusted describes the problem of a certificate, without its content.
func untrusted(err error) string {
	var (
		hostname x509.HostnameError
		invalid  x509.CertificateInvalidError
	)
	switch {
	case errors.As(err, &hostname):
		return "the registry's certificate is for other names"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "the registry's certificate has expired, or isn't valid yet"
	default:
		return "the registry's certificate isn't signed by a CA that is known"
	}
}

// registryErrors are the codes of a registry's error document
// (https://github.com/opencontainers/distribution-spec/blob/main/spec.md#error-codes, and
// additional codes of distribution).
var registryErrors = []transport.ErrorCode{
	transport.BlobUnknownErrorCode, transport.DigestInvalidErrorCode, transport.ManifestBlobUnknownErrorCode,
	transport.ManifestInvalidErrorCode, transport.ManifestUnknownErrorCode, transport.NameInvalidErrorCode,
	transport.NameUnknownErrorCode, transport.SizeInvalidErrorCode, transport.TagInvalidErrorCode,
	transport.UnauthorizedErrorCode, transport.DeniedErrorCode, transport.UnsupportedErrorCode,
	transport.TooManyRequestsErrorCode, transport.UnavailableErrorCode, transport.UnknownErrorCode,
}

// quote returns a registry's status, and the first error of its document.
func quote(said *transport.Error) string {
	status := fmt.Sprintf("the registry answered %d %s", said.StatusCode, http.StatusText(said.StatusCode))
	for _, one := range said.Errors {
		if slices.Contains(registryErrors, one.Code) {
			return fmt.Sprintf("%s: %s: %s", status, one.Code, shorten(one.Message))
		}
	}
	return status
}

// maxQuoted is the length, in bytes, to which foreign text is quoted.
const maxQuoted = 200

// shorten cuts foreign text, and removes unprintable characters.
func shorten(text string) string {
	cut := text[:min(len(text), maxQuoted)]
	cut = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, cut)
	if len(text) > maxQuoted {
		cut += "..."
	}
	return cut
}

// busyError is the error of a lookup that waited for other lookups until its time was
// over.
type busyError struct{ cause error }

func (e *busyError) Error() string {
	return "too many lookups are under way, of this namespace or of all; this one waited until its time was over"
}

func (e *busyError) Unwrap() error { return e.cause }

// protocolError is the error of a response that violates the registry protocol.
type protocolError struct{ what string }

func (e *protocolError) Error() string { return e.what }

// notAllowedError is the error of a request that the operator's configuration forbids.
type notAllowedError struct {
	what    string
	instead string // what is allowed, "" if that isn't known
}

func (e *notAllowedError) Error() string {
	if e.instead != "" {
		return e.what + " is not allowed (" + e.instead + ")"
	}
	return e.what + " is not allowed"
}

// notAnImageError is the error of content that isn't a runnable image.
type notAnImageError struct{ what string }

func (e *notAnImageError) Error() string { return "found " + e.what }

func reasonOf(err error) Reason {
	var (
		tried      *attempts
		busy       *busyError
		notImage   *notAnImageError
		notAllowed *notAllowedError
		tooMany    *tooManyRequestsError
		strange    *protocolError
		tooLong    *tooLongError
	)
	switch {
	case errors.As(err, &tried):
		return tried.reason()
	case errors.As(err, &busy):
		return Busy
	case errors.As(err, &notImage):
		return NotAnImage
	case errors.As(err, &notAllowed):
		return NotAllowed
	case errors.As(err, &tooMany):
		return TooManyRequests
	case errors.As(err, &strange), errors.As(err, &tooLong):
		return RegistryError
	default:
		return reasonOfOthers(err)
	}
}

// reasonOfOthers classifies errors of other packages.
func reasonOfOthers(err error) Reason {
	var (
		answer     *transport.Error
		network    net.Error
		untrusted  *tls.CertificateVerificationError
		redirected *url.Error
	)
	switch {
	case errors.As(err, &untrusted):
		return Untrusted
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return Timeout
	case errors.As(err, &answer):
		return reasonOfStatus(answer.StatusCode)
	case errors.As(err, &network) && network.Timeout():
		return Timeout
	case errors.As(err, &redirected) && !isNetwork(redirected.Err):
		return RegistryError
	case errors.As(err, &network):
		return Unreachable
	default:
		return RegistryError
	}
}

// isNetwork reports whether an http.Client failed below HTTP.
func isNetwork(err error) bool {
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// reasonOfProblem classifies a problem with the pod's credentials by the API server's
// error.
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
