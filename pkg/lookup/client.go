// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/opencontainers/go-digest"

	"github.com/entrypointer/entrypointer/pkg/tenants"
)

// A client reads from one repository, on behalf of one namespace, with one credential. It
// works like go-containerregistry's pkg/v1/remote, with that library's authentication,
// but bounds the memory for responses, and leaves parsing to its callers.
type client struct {
	http       *http.Client
	repository name.Repository
	namespace  string
	memory     *tenants.Shares // of what answers are read into, in bytes
}

// keyOf returns the key of a digest in the client's repository.
func (c *client) keyOf(digest string) string {
	return reference{Repository: c.repository, digest: digest}.String()
}

// maxRedirects is the number of redirects that a request follows. A registry redirects to
// its storage once, a mirror of it twice.
const maxRedirects = 5

// connect determines how the registry authenticates clients, and authenticates.
func (r *Registry) connect(ctx context.Context, namespace string, to name.Repository, credential authn.Authenticator) (*client, error) {
	patient := transport.NewRetry(r.gate.roundTripperFor(namespace, to),
		transport.WithRetryBackoff(transport.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.1, Steps: 3}),
		transport.WithRetryPredicate(func(err error) bool { return ctx.Err() == nil && isTransient(err) }),
		transport.WithRetryStatusCodes(http.StatusRequestTimeout, http.StatusInternalServerError, http.StatusBadGateway,
			http.StatusServiceUnavailable, http.StatusGatewayTimeout),
	)
	scopes := []string{to.Scope(transport.PullScope)}
	authorized, err := transport.NewWithContext(ctx, to.Registry, credential, transport.NewUserAgent(r.pings.of(to.Registry, patient), "entrypointer"), scopes)
	if err != nil {
		return nil, err
	}
	return &client{
		http:       &http.Client{Transport: authorized, CheckRedirect: fewRedirects},
		repository: to, namespace: namespace, memory: r.memory,
	}, nil
}

// isTransient reports whether a retry of a request that failed with this error may
// succeed. The end of a context calls itself temporary, too.
func isTransient(err error) bool {
	if temporary, ok := errors.AsType[interface {
		error
		Temporary() bool
	}](err); ok && temporary.Temporary() {
		return true
	}
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

func fewRedirects(_ *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return &protocolError{what: fmt.Sprintf("the registry redirects more than %d times", maxRedirects)}
	}
	return nil
}

// accepted are the media types of manifests and indexes that can lead to an image.
var accepted = strings.Join([]string{
	string(types.OCIImageIndex), string(types.OCIManifestSchema1),
	string(types.DockerManifestList), string(types.DockerManifestSchema2),
}, ", ")

func (c *client) do(ctx context.Context, method, kind, identifier string) (*http.Response, error) {
	u := url.URL{Scheme: c.repository.Scheme(), Host: c.repository.RegistryStr(), Path: "/v2/" + c.repository.RepositoryStr() + "/" + kind + "/" + identifier}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), http.NoBody)
	if err != nil {
		return nil, err
	}
	if kind == manifests {
		req.Header.Set("Accept", accepted)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	if err := transport.CheckError(resp, http.StatusOK); err != nil {
		_ = resp.Body.Close()
		return nil, err
	}
	return resp, nil
}

// digestOf opens a manifest, and returns its digest from the registry's response. Some
// registries don't answer HEAD, or omit the digest: then digestOf requests the whole
// manifest.
func (c *client) digestOf(ctx context.Context, ref reference) (string, error) {
	resp, err := c.do(ctx, http.MethodHead, manifests, ref.identifier())
	if err != nil {
		if reasonOf(err) != RegistryError {
			return "", err
		}
		return c.digestOfWhole(ctx, ref)
	}
	_ = resp.Body.Close()
	told, err := digest.Parse(resp.Header.Get("Docker-Content-Digest"))
	switch {
	case err != nil && ref.digest != "":
		return ref.digest, nil
	case err != nil:
		return c.digestOfWhole(ctx, ref)
	case ref.digest != "" && told.String() != ref.digest:
		return "", &protocolError{what: "the registry has another manifest under this digest"}
	}
	return told.String(), nil
}

func (c *client) digestOfWhole(ctx context.Context, ref reference) (string, error) {
	answer, err := c.get(ctx, manifests, ref.identifier())
	if err != nil {
		return "", err
	}
	defer answer.release()
	if ref.digest != "" {
		return ref.digest, answer.verify(ref.digest)
	}
	return digest.FromBytes(answer.body).String(), nil
}

// An answer is a registry's response. It counts as used memory until it is released.
type answer struct {
	body      []byte
	mediaType string
	release   func()
}

// parsedFactor is the ratio of the memory for reading and parsing a response to its
// length, for the worst response within the bounds of the parsers.
const parsedFactor = 3

// get reads a manifest or a blob.
func (c *client) get(ctx context.Context, kind, identifier string) (*answer, error) {
	resp, err := c.do(ctx, http.MethodGet, kind, identifier)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	limit := limitOf(kind)
	length := resp.ContentLength
	if length > limit {
		return nil, &tooLongError{limit: limit}
	}
	room := length
	if room < 0 {
		room = limit
	}
	release, err := c.memory.Acquire(ctx, parsedFactor*max(room, 1), c.namespace)
	if err != nil {
		return nil, &busyError{cause: err}
	}
	body, err := readAll(resp.Body, length)
	if err != nil {
		release()
		return nil, err
	}
	mediaType, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	return &answer{body: body, mediaType: strings.TrimSpace(mediaType), release: release}, nil
}

// readAll reads a body of the given length, or of an unknown length if it is negative.
func readAll(body io.Reader, length int64) ([]byte, error) {
	if length < 0 {
		return io.ReadAll(body)
	}
	whole := make([]byte, length)
	_, err := io.ReadFull(body, whole)
	return whole, err
}

// verify returns an error unless the answer has this digest, which must be valid.
func (a *answer) verify(wanted string) error {
	if parsed := digest.Digest(wanted); parsed.Algorithm().FromBytes(a.body) != parsed {
		return &protocolError{what: "the registry's response doesn't have the requested digest"}
	}
	return nil
}
