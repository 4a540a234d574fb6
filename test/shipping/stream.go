// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package shipping sends output to the log service as the shippers of many pods do.
package shipping

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/entrypointer/entrypointer/internal/logs/retries"
	"github.com/entrypointer/entrypointer/internal/logs/times"
)

const (
	// RequestTimeout bounds a request, as that of the shipper.
	RequestTimeout = retries.RequestTimeout
	// StreamsOfPod is how many streams a pod has: those of two containers, and more.
	StreamsOfPod = 4
	// checkers is how many streams are read at a time.
	checkers = 16
)

// A Service is a replica of the log service. Its client trusts it.
type Service struct {
	URL    string
	Client *http.Client
}

// A Stream is one of a simulated pod, which sends as the shipper does: a part is compressed
// with the times of its lines, and one that isn't full waits for as long as the service lets
// it. Connections are shared by all streams.
type Stream struct {
	Service *Service
	Number  int   // of the stream, among all
	At      int64 // the bytes that were sent
	Lines   int   // that were sent

	token, id string
	linger    time.Duration
	sum       hash.Hash32
}

// Begin begins the streams of a pod, the first of which has a number, with the token of the
// pod.
func Begin(ctx context.Context, service *Service, token string, first, count int, record *Recorder) (list []*Stream, _ error) {
	for i := range count {
		s := &Stream{Service: service, token: token, Number: first + i, sum: crc32.NewIEEE()}
		body := fmt.Appendf(nil, `{"name":"stdout","container":"c%d","start":"1"}`, i)
		answer, err := s.send(ctx, record, http.MethodPost, "/logs", body, map[string]string{"Content-Type": "application/json"})
		if err != nil {
			return nil, err
		}
		var made struct{ ID string }
		if err := json.Unmarshal(answer, &made); err != nil {
			return nil, fmt.Errorf("creating a stream: %w: %.300q", err, answer)
		}
		s.id = made.ID
		list = append(list, s)
	}
	return list, nil
}

// send sends a request until it succeeds, with the pauses that the service asks for.
func (s *Stream) send(ctx context.Context, record *Recorder, method, path string, body []byte, headers map[string]string) ([]byte, error) {
	for {
		began := time.Now()
		answer, header, err := s.try(ctx, method, path, body, headers)
		if err == nil {
			if method == http.MethodPatch && body != nil {
				record.Succeeded(began)
			}
			seconds, _ := strconv.Atoi(header.Get(retries.LingerHeader)) // 0 without
			s.linger = max(time.Duration(seconds)*time.Second, retries.ShortestLinger)
			return answer, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		record.Repeated(err)
		pause := time.Second
		if seconds, err := strconv.Atoi(header.Get("Retry-After")); err == nil {
			pause = time.Duration(seconds) * time.Second
		} else if header != nil {
			return nil, err
		}
		Sleep(ctx, pause+rand.N(pause/retries.JitterShare+1)) //nolint:gosec // G404: no secret
	}
}

// try sends a request once. Without a response, there is no header.
func (s *Stream) try(ctx context.Context, method, path string, body []byte, headers map[string]string) (answer []byte, header http.Header, err error) {
	request, err := http.NewRequestWithContext(ctx, method, s.Service.URL+path, bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	request.Header.Set("Authorization", "Bearer "+s.token)
	for name, value := range headers {
		request.Header.Set(name, value)
	}
	response, err := s.Service.Client.Do(request)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err = io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err == nil && response.StatusCode >= http.StatusMultipleChoices {
		err = fmt.Errorf("sending logs: %s %s: %s: %.300s", method, path, response.Status, answer)
	}
	return answer, response.Header, err
}

// write sends a part. Parts of a stream may be sent at the same time.
func (s *Stream) write(ctx context.Context, record *Recorder, from int64, data []byte, marks []times.Mark) error {
	_, err := s.send(ctx, record, http.MethodPatch, "/logs/"+s.id+"/data", pack(from, data, marks), map[string]string{
		"Content-Type": "application/octet-stream", "Content-Encoding": "gzip", "Content-Range": fmt.Sprintf("bytes %d-%d/*", from, from+int64(len(data))-1),
	})
	return err
}

func (s *Stream) end(ctx context.Context, record *Recorder) error {
	_, err := s.send(ctx, record, http.MethodPatch, "/logs/"+s.id+"/data", nil, map[string]string{"Content-Range": fmt.Sprintf("bytes */%d", s.At)})
	return err
}

var packers = sync.Pool{New: func() any {
	w, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // a valid level
	return w
}}

// pack compresses a part as the shipper does.
func pack(from int64, data []byte, marks []times.Mark) []byte {
	w := packers.Get().(*gzip.Writer)
	defer packers.Put(w)
	var packed bytes.Buffer
	w.Reset(&packed)
	w.Extra = times.Encode(from, marks)
	_, _ = w.Write(data) // into memory
	_ = w.Close()        // into memory
	return packed.Bytes()
}

// check reads a stream as a user, and compares it with what was sent.
func (s *Stream) check(ctx context.Context, reader string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.Service.URL+"/logs/"+s.id+"/data", nil)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+reader)
	response, err := s.Service.Client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	sum := crc32.NewIEEE()
	length, err := io.Copy(sum, response.Body)
	if err != nil {
		return fmt.Errorf("reading stream %s: %w", s.id, err)
	}
	if response.StatusCode != http.StatusOK || length != s.At || sum.Sum32() != s.sum.Sum32() {
		return fmt.Errorf("reading stream %s: %s with %d bytes of CRC %x, but %d of CRC %x were sent", s.id, response.Status, length, sum.Sum32(), s.At, s.sum.Sum32())
	}
	return nil
}

// Check reads streams with the token of a user, and compares them with what was sent.
func Check(ctx context.Context, reader string, list []*Stream) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(checkers)
	for _, s := range list {
		group.Go(func() error { return s.check(ctx, reader) })
	}
	return group.Wait()
}

// Sleep waits, and no longer than until ctx is done.
func Sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
