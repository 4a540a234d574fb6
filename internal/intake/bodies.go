// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package intake

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/entrypointer/entrypointer/pkg/tenants"
)

const (
	// bodyTimeout limits the time in which a client sends a body.
	bodyTimeout = 10 * time.Second
	// maxBody is the longest body that knative.dev/pkg's webhooks read, in bytes, and the
	// longest object that API servers accept.
	maxBody = 3 << 20
	// maxIgnored is how much is read of a longer body, and dropped, so that the client has
	// sent it before the answer comes.
	maxIgnored = 16 << 20
	// firstBytes are read before memory is taken. They tell the namespace: in the requests
	// of API servers, little comes before it. Their sum is bounded by the number of
	// connections.
	firstBytes = 4 << 10
	// usualBody is more than the length of usual bodies: those of Tekton's pods have some
	// 20 KiB. Memory for that much is taken at once.
	usualBody = 64 << 10

	// The sum of the buffers in which bodies are read, in bytes. A body of maxBody needs
	// twice its length, because its buffer is copied whenever it is full.
	bufferBytes            = 32 << 20
	bufferBytesOfAddress   = bufferBytes / 2
	bufferBytesOfNamespace = bufferBytes / 4
)

// bodies reads bodies of requests into memory that it takes as bytes come.
type bodies struct {
	buffers *tenants.Shares
	// last is the memory for a body that is partly read while there is no more memory in
	// buffers: requests that wait for each other's memory would wait for ever. There is
	// room for one body of each address, and for two in total.
	last *tenants.Shares
	// timeout limits the time in which a client sends a body.
	timeout time.Duration
}

func newBodies() bodies {
	return bodies{
		buffers: tenants.NewShares(bufferBytes, bufferBytesOfAddress, bufferBytesOfNamespace),
		last:    tenants.NewShares(2, 1, 1),
		timeout: bodyTimeout,
	}
}

// read returns the body of a request, and what its beginning says. The error is a
// refusal; the deadline of the body stays then, because net/http reads what is left of a
// short body before it answers. release gives the memory of the body back, and is never
// nil.
func (b bodies) read(ctx context.Context, w http.ResponseWriter, r *http.Request) (body []byte, h head, release func(), err error) {
	reader := &bodyReader{bodies: b, request: r, control: http.NewResponseController(w), deadline: time.Now().Add(b.timeout)}
	if err = reader.read(ctx); err == nil {
		_ = reader.control.SetReadDeadline(time.Time{})
	}
	return reader.body, reader.head, reader.release, err
}

// A bodyReader reads one body.
type bodyReader struct {
	bodies   bodies
	request  *http.Request
	control  *http.ResponseController
	deadline time.Time

	head head
	body []byte
	held []func()
	last bool // the memory of bodies.last is held
}

func (b *bodyReader) release() {
	for _, release := range b.held {
		release()
	}
}

func (b *bodyReader) read(ctx context.Context) error {
	b.body = make([]byte, 0, firstBytes)
	ended, err := b.fill()
	b.head = readHead(b.body)
	for size := b.firstSize(); err == nil && !ended; size = b.nextSize() {
		if len(b.body) > maxBody || b.request.ContentLength > maxBody {
			b.body = nil
			b.ignoreRest()
			return refusal{tooLong, http.StatusRequestEntityTooLarge, fmt.Errorf("reading the request: it is longer than %d bytes; make the object smaller", maxBody)}
		}
		if err = b.grow(ctx, size); err == nil {
			ended, err = b.fill()
		}
	}
	if err == nil && b.head.namespace == "" { // a long name comes before it
		b.head = readHead(b.body)
	}
	return err
}

// firstSize is the size of the first buffer for which memory is taken.
func (b *bodyReader) firstSize() int {
	if length := b.request.ContentLength; 0 <= length && length < usualBody {
		return int(length)
	}
	return usualBody
}

// nextSize is the size of the next buffer: twice as large, or as large as is needed. One
// byte more than maxBody shows that a body is too long.
func (b *bodyReader) nextSize() int {
	longest := int64(maxBody + 1)
	if length := b.request.ContentLength; length >= 0 {
		longest = min(longest, length)
	}
	return int(min(2*int64(cap(b.body)), longest))
}

// grow takes memory for a buffer of a size, and copies the body into it. The former
// buffer isn't given back: it is garbage, but still memory.
func (b *bodyReader) grow(ctx context.Context, size int) error {
	start := time.Now()
	if err := b.acquire(ctx, int64(size)); err != nil {
		return refusal{busy, http.StatusServiceUnavailable, fmt.Errorf("waiting for memory: %w; try again", err)}
	}
	b.deadline = b.deadline.Add(time.Since(start))
	b.body = append(make([]byte, 0, size), b.body...)
	return nil
}

func (b *bodyReader) acquire(ctx context.Context, n int64) error {
	if b.last {
		return nil
	}
	holders := holders(b.request, b.head)
	if len(b.held) > 0 {
		if b.bodies.buffers.TryAcquire(n, holders...) {
			b.held = append(b.held, func() { b.bodies.buffers.Release(n, holders...) })
			return nil
		}
		b.last = true
	}
	from := b.bodies.buffers
	if b.last {
		from, n = b.bodies.last, 1
	}
	release, err := from.Acquire(ctx, n, holders...)
	if err == nil {
		b.held = append(b.held, release)
	}
	return err
}

// fill reads until the buffer is full or the body has ended.
func (b *bodyReader) fill() (ended bool, err error) {
	_ = b.control.SetReadDeadline(b.deadline)
	for len(b.body) < cap(b.body) {
		n, err := b.request.Body.Read(b.body[len(b.body):cap(b.body)])
		b.body = b.body[:len(b.body)+n]
		switch {
		case errors.Is(err, io.EOF):
			return true, nil
		case errors.Is(err, os.ErrDeadlineExceeded):
			return false, refusal{slow, http.StatusRequestTimeout, fmt.Errorf("reading the request: %d bytes came in %v, and no end; send it faster", len(b.body), b.bodies.timeout)}
		case err != nil:
			return false, refusal{malformed, http.StatusBadRequest, fmt.Errorf("reading the request: %w", err)}
		}
	}
	return int64(len(b.body)) == b.request.ContentLength, nil
}

// ignoreRest reads and drops the rest of a body. A client that still sends might miss the
// answer.
func (b *bodyReader) ignoreRest() {
	_, _ = io.CopyN(io.Discard, b.request.Body, maxIgnored)
}
