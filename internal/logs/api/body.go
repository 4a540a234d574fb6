// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/entrypointer/entrypointer/internal/logs/times"
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

// receiveBody reads a body of up to most bytes, before compression. It takes memory for
// the body until release is called. A larger body is refused before the rest is read.
func (s *Server) receiveBody(w http.ResponseWriter, r *http.Request, pod Pod, most int64) (sent body, release func(), err error) {
	if kind := r.Header.Get("Content-Type"); kind != "" && kind != "application/octet-stream" {
		return sent, nil, newProblem(http.StatusUnsupportedMediaType, fmt.Sprintf("the Content-Type is %.100q: use application/octet-stream", kind))
	}
	if most > 0 { // the end of a stream is accepted even beyond the quota
		if err := s.checkData(r, pod.Namespace); err != nil {
			return sent, nil, err
		}
	}
	bytes := max(most, minBodyMemory)
	if !s.memory.TryAcquire(pod.UID, bytes) {
		return sent, nil, busyProblem()
	}
	release = func() { s.memory.Release(pod.UID, bytes) }
	if sent, err = readBody(w, r, most); err != nil {
		release()
		return sent, nil, err
	}
	return sent, release, nil
}

// readBody reads a body of up to most bytes, before compression.
func readBody(w http.ResponseWriter, r *http.Request, most int64) (sent body, err error) {
	var received bytes.Buffer // grows with what arrives, whatever Content-Length says
	switch encoding := r.Header.Get("Content-Encoding"); strings.ToLower(encoding) {
	case "", "identity":
		_, err = received.ReadFrom(http.MaxBytesReader(w, r.Body, most))
		sent.data = received.Bytes()
	case "gzip":
		// Compression makes no body longer, except for the overhead of gzip.
		if _, err = received.ReadFrom(http.MaxBytesReader(w, r.Body, most+most/100+1024+times.MaxExtra)); err == nil {
			sent, err = unpack(received.Bytes(), most)
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
	if isBodyTooLong(err) {
		return err
	}
	return newProblem(http.StatusBadRequest, fmt.Sprintf("reading the body: %v", err))
}
