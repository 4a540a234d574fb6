// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/entrypointer/entrypointer/internal/logs/times"
	"github.com/entrypointer/entrypointer/pkg/tenants"
)

// A body is the body of a request that writes to a stream.
type body struct {
	data []byte
	// extra is the extra field of the first gzip member's header. It may have the times of
	// the bytes.
	extra []byte
	// member is the compressed body, if it is exactly one gzip member.
	member []byte
}

// receiveBody reads a body of up to most bytes, before compression. It takes memory as
// bytes come, and keeps it until release is called. A larger body is refused before the
// rest is read.
func (s *Server) receiveBody(w http.ResponseWriter, r *http.Request, to target, most int64) (sent body, release func(), err error) {
	if kind := r.Header.Get("Content-Type"); kind != "" && kind != "application/octet-stream" {
		return sent, nil, newProblem(http.StatusUnsupportedMediaType, fmt.Sprintf("the Content-Type is %.100q: use application/octet-stream", kind))
	}
	if most > 0 { // the end of a stream is accepted even beyond the quota
		if err := s.checkData(r, to.source); err != nil {
			return sent, nil, err
		}
	}
	memory := &bodyMemory{shares: s.memory, pod: to.pod}
	if sent, err = readBody(w, r, most, memory); err != nil {
		memory.release()
		return sent, nil, err
	}
	return sent, memory.release, nil
}

// freeBytes of a body are read before memory is taken. Their sum is bounded by the number
// of connections.
const freeBytes = 4 << 10

// bodyMemory is the memory that a body has taken.
type bodyMemory struct {
	shares *tenants.Shares
	pod    Pod
	bytes  int64
}

// grow takes memory until it has some bytes.
func (m *bodyMemory) grow(bytes int64) error {
	more := bytes - m.bytes
	if more <= 0 {
		return nil
	}
	if !m.shares.TryAcquire(more, m.pod.Namespace, m.pod.UID) {
		return busyProblem()
	}
	m.bytes = bytes
	return nil
}

func (m *bodyMemory) release() { m.shares.Release(m.bytes, m.pod.Namespace, m.pod.UID) }

// receive reads a body of up to limit bytes into a buffer that grows with what arrives,
// whatever Content-Length says.
func (m *bodyMemory) receive(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	var received bytes.Buffer
	from := http.MaxBytesReader(w, r.Body, limit)
	if _, err := received.ReadFrom(io.LimitReader(from, freeBytes)); err != nil {
		return nil, err
	}
	for size := int64(minBodyMemory); ; size *= 2 {
		if err := m.grow(max(min(size, limit), minBodyMemory)); err != nil {
			return nil, err
		}
		if size >= limit { // what comes beyond it is an error
			_, err := received.ReadFrom(from)
			return received.Bytes(), err
		}
		if _, err := received.ReadFrom(io.LimitReader(from, size-int64(received.Len()))); err != nil || int64(received.Len()) < size {
			return received.Bytes(), err
		}
	}
}

// readBody reads a body of up to most bytes, before compression.
func readBody(w http.ResponseWriter, r *http.Request, most int64, memory *bodyMemory) (sent body, err error) {
	switch encoding := r.Header.Get("Content-Encoding"); strings.ToLower(encoding) {
	case "", "identity":
		sent.data, err = memory.receive(w, r, most)
	case "gzip":
		// Compression makes no body longer, except for the overhead of gzip.
		var packed []byte
		if packed, err = memory.receive(w, r, most+most/100+1024+times.MaxExtra); err == nil {
			err = memory.grow(most)
		}
		if err == nil {
			sent, err = unpack(packed, most)
		}
	default:
		return sent, newProblem(http.StatusUnsupportedMediaType, fmt.Sprintf("the Content-Encoding is %.100q: use gzip or identity", encoding))
	}
	if err != nil {
		return sent, badBody(err)
	}
	return sent, nil
}

// unpackers take some 50 KiB each.
var unpackers = sync.Pool{New: func() any { return new(gzip.Reader) }}

// unpack decompresses one or more gzip members to up to most bytes.
func unpack(packed []byte, most int64) (sent body, err error) {
	rest := bytes.NewReader(packed) // an io.ByteReader, so gzip reads no more than the member
	unpacker := unpackers.Get().(*gzip.Reader)
	defer unpackers.Put(unpacker)
	var data bytes.Buffer
	data.Grow(int(min(most, usualRatio*int64(len(packed)))) + bytes.MinRead)
	members := 0
	for ; members == 0 || rest.Len() > 0; members++ {
		if err := unpacker.Reset(rest); err != nil {
			return sent, err
		}
		unpacker.Multistream(false)
		if members == 0 {
			sent.extra = unpacker.Extra
		}
		if _, err := data.ReadFrom(io.LimitReader(unpacker, most-int64(data.Len())+1)); err != nil {
			return sent, err
		}
		if int64(data.Len()) > most {
			return sent, &http.MaxBytesError{Limit: most}
		}
	}
	if sent.data = data.Bytes(); members == 1 {
		sent.member = packed
	}
	return sent, nil
}

// usualRatio is the usual compression ratio of logs, or more.
const usualRatio = 8

func badBody(err error) error {
	if _, is := errors.AsType[*problem](err); is || isBodyTooLong(err) {
		return err
	}
	return newProblem(http.StatusBadRequest, fmt.Sprintf("reading the body: %v", err))
}
