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

// A body is what a pod sends of a stream.
type body struct {
	data []byte
	// extra is of the header of the first gzip member, and may say when the bytes came.
	extra []byte
	// member is the body as it came, if that is one gzip member and nothing else.
	member []byte
}

// body reads the bytes that a pod sends, and takes room for them until they are
// released. A body of more than most bytes is refused before the rest is read.
func (s *Server) body(w http.ResponseWriter, r *http.Request, pod Pod, most int64) (sent body, release func(), err error) {
	if kind := r.Header.Get("Content-Type"); kind != "" && kind != "application/octet-stream" {
		return sent, nil, refused(http.StatusUnsupportedMediaType, fmt.Sprintf("the body is of type %.100q, but streams take application/octet-stream", kind))
	}
	if most > 0 { // the end of a stream is taken in any case
		if err := s.roomForData(r, pod.Namespace); err != nil {
			return sent, nil, err
		}
	}
	bytes := max(most, leastBytes)
	if !s.room.Take(pod.UID, bytes) {
		return sent, nil, busy()
	}
	release = func() { s.room.GiveBack(pod.UID, bytes) }
	if sent, err = readBody(w, r, most); err != nil {
		release()
		return sent, nil, err
	}
	return sent, release, nil
}

// readBody reads a body of most bytes at most, before compression.
func readBody(w http.ResponseWriter, r *http.Request, most int64) (sent body, err error) {
	var come bytes.Buffer // which becomes as long as what there is, not as what the client says
	switch encoding := r.Header.Get("Content-Encoding"); strings.ToLower(encoding) {
	case "", "identity":
		_, err = come.ReadFrom(http.MaxBytesReader(w, r.Body, most))
		sent.data = come.Bytes()
	case "gzip":
		// Whoever compresses has at least not made it longer, but for what gzip adds.
		if _, err = come.ReadFrom(http.MaxBytesReader(w, r.Body, most+most/100+1024+times.MaxExtra)); err == nil {
			sent, err = unpack(come.Bytes(), most)
		}
	default:
		return sent, refused(http.StatusUnsupportedMediaType, fmt.Sprintf("Content-Encoding is %.100q, but only gzip and identity are known", encoding))
	}
	if err != nil {
		return sent, badBody(err)
	}
	return sent, nil
}

// unpackers have some 50 KiB each.
var unpackers = sync.Pool{New: func() any { return new(gzip.Reader) }}

// unpack unpacks gzip members, one after another, of most bytes at most.
func unpack(packed []byte, most int64) (sent body, err error) {
	rest := bytes.NewReader(packed) // of which gzip reads no more than it needs
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

// usualRatio is how much longer logs are, most often, than what becomes of them by
// compression, or less.
const usualRatio = 8

func badBody(err error) error {
	if isTooLong(err) {
		return err
	}
	return refused(http.StatusBadRequest, fmt.Sprintf("reading the body: %v", err))
}
