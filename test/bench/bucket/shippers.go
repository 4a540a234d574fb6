// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/entrypointer/entrypointer/internal/logs/retries"
	"github.com/entrypointer/entrypointer/internal/logs/times"
)

const (
	// requestTimeout bounds a request, as that of the shipper.
	requestTimeout = retries.RequestTimeout
	// streamsOfPod is how many streams a pod has: those of two containers, and more.
	streamsOfPod = 4
	// podsOfNamespace is how many pods a namespace has.
	podsOfNamespace = 1000
	// creators is how many streams are created at a time, and creationLimit for how long.
	creators      = 64
	creationLimit = 5 * time.Minute
	// checkers is how many streams are read at a time.
	checkers = 16
	// partSize is the size of a full part, in bytes.
	partSize = 256 << 10
)

// A stream is one of a simulated pod, which sends as the shipper does: a part is compressed
// with the times of its lines, and one that isn't full waits for as long as the service lets
// it. Connections are shared by all streams.
type stream struct {
	replica   *replica
	namespace string
	token, id string
	number    int
	linger    time.Duration
	at        int64 // the bytes that were sent
	sum       hash.Hash32
	lines     int
}

// A recorder has what requests took.
type recorder struct {
	mu     sync.Mutex
	writes []write
	failed int // of requests that were made again
}

type write struct {
	began time.Time
	took  time.Duration
}

func (r *recorder) succeeded(began time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writes = append(r.writes, write{began, time.Since(began)})
}

// hasFailed notes a request that is made again. The first ones are logged.
func (r *recorder) hasFailed(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed++; r.failed <= maxLogged {
		log.Printf("again: %v", err)
	}
}

const maxLogged = 3

// failures returns how many requests were made again.
func (r *recorder) failures() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

// between returns the sorted times of the writes that began in a span.
func (r *recorder) between(from, to time.Time) (took []time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.writes {
		if !w.began.Before(from) && w.began.Before(to) {
			took = append(took, w.took)
		}
	}
	slices.Sort(took)
	return took
}

// createStreams creates streams of pods, whose connections lead to the replicas in turns: as
// many as within creationLimit.
func (c *cluster) createStreams(ctx context.Context, count int, record *recorder) ([]*stream, error) {
	list := make([]*stream, count)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(creators)
	until := time.Now().Add(creationLimit)
	for pod := range (count + streamsOfPod - 1) / streamsOfPod {
		group.Go(func() error {
			if time.Now().After(until) {
				return nil
			}
			namespace, name := fmt.Sprintf("team-%d", pod/podsOfNamespace), fmt.Sprintf("pod-%d", pod)
			token, err := c.api.token(namespace, name)
			if err != nil {
				return fmt.Errorf("signing a token: %w", err)
			}
			for i := pod * streamsOfPod; i < min(count, (pod+1)*streamsOfPod); i++ {
				s := &stream{replica: c.replicas[pod%len(c.replicas)], namespace: namespace, token: token, number: i, sum: crc32.NewIEEE()}
				body := fmt.Appendf(nil, `{"name":"stdout","container":"c%d","start":"1"}`, i%streamsOfPod)
				answer, err := s.send(ctx, record, http.MethodPost, "/logs", body, map[string]string{"Content-Type": "application/json"})
				if err != nil {
					return err
				}
				var made struct{ ID string }
				if err := json.Unmarshal(answer, &made); err != nil {
					return fmt.Errorf("creating a stream: %w: %.300q", err, answer)
				}
				s.id = made.ID
				list[i] = s
			}
			return nil
		})
	}
	err := group.Wait()
	return slices.DeleteFunc(list, func(s *stream) bool { return s == nil }), err
}

// send sends a request until it succeeds, with the pauses that the service asks for.
func (s *stream) send(ctx context.Context, record *recorder, method, path string, body []byte, headers map[string]string) ([]byte, error) {
	for {
		began := time.Now()
		answer, header, err := s.try(ctx, method, path, body, headers)
		if err == nil {
			if method == http.MethodPatch && body != nil {
				record.succeeded(began)
			}
			seconds, _ := strconv.Atoi(header.Get(retries.LingerHeader)) // 0 without
			s.linger = max(time.Duration(seconds)*time.Second, retries.ShortestLinger)
			return answer, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		record.hasFailed(err)
		pause := time.Second
		if seconds, err := strconv.Atoi(header.Get("Retry-After")); err == nil {
			pause = time.Duration(seconds) * time.Second
		} else if header != nil {
			return nil, err
		}
		sleep(ctx, pause+rand.N(pause/retries.JitterShare+1)) //nolint:gosec // G404: no secret
	}
}

// try sends a request once. Without a response, there is no header.
func (s *stream) try(ctx context.Context, method, path string, body []byte, headers map[string]string) (answer []byte, header http.Header, err error) {
	request, err := http.NewRequestWithContext(ctx, method, s.replica.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	request.Header.Set("Authorization", "Bearer "+s.token)
	for name, value := range headers {
		request.Header.Set(name, value)
	}
	response, err := s.replica.client.Do(request)
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
func (s *stream) write(ctx context.Context, record *recorder, from int64, data []byte, marks []times.Mark) error {
	_, err := s.send(ctx, record, http.MethodPatch, "/logs/"+s.id+"/data", pack(from, data, marks), map[string]string{
		"Content-Type": "application/octet-stream", "Content-Encoding": "gzip", "Content-Range": fmt.Sprintf("bytes %d-%d/*", from, from+int64(len(data))-1),
	})
	return err
}

func (s *stream) end(ctx context.Context, record *recorder) error {
	_, err := s.send(ctx, record, http.MethodPatch, "/logs/"+s.id+"/data", nil, map[string]string{"Content-Range": fmt.Sprintf("bytes */%d", s.at)})
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

// check reads a stream, and compares it with what was sent.
func (s *stream) check(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.replica.url+"/logs/"+s.id+"/data", nil)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+reader)
	response, err := s.replica.client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	sum := crc32.NewIEEE()
	length, err := io.Copy(sum, response.Body)
	if err != nil {
		return fmt.Errorf("reading stream %s: %w", s.id, err)
	}
	if response.StatusCode != http.StatusOK || length != s.at || sum.Sum32() != s.sum.Sum32() {
		return fmt.Errorf("reading stream %s: %s with %d bytes of CRC %x, but %d of CRC %x were sent", s.id, response.Status, length, sum.Sum32(), s.at, s.sum.Sum32())
	}
	return nil
}

// check reads streams, and compares them with what was sent.
func check(ctx context.Context, list []*stream) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(checkers)
	for _, s := range list {
		group.Go(func() error { return s.check(ctx) })
	}
	return group.Wait()
}

// sleep waits, and no longer than until ctx is done.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// line is what a program prints.
func line(at time.Time, stream, number int) string {
	return fmt.Sprintf(`{"time":%q,"level":"info","msg":"answered","path":"/orders/%d","ms":%d}`+"\n", at.UTC().Format("2006-01-02T15:04:05.000Z07:00"), (number*7919+stream*104729)%1000003, number%97)
}

// A pace is how streams print: a line at intervals, by a clock that may be faster than the
// real one, and begins earlier by as much.
type pace struct {
	every time.Duration
	speed int
	began time.Time
	lasts time.Duration // in real time
	ends  bool          // the streams end then, rather than go on
}

// at returns the time of the clock.
func (p pace) at(now time.Time) time.Time {
	return p.first().Add(now.Sub(p.began) * time.Duration(p.speed))
}

func (p pace) first() time.Time { return p.began.Add(-p.lasts * time.Duration(p.speed-1)) }

// text returns the lines of a stream from a number on, up to a time, and when they were
// printed.
func (p pace) text(stream, from int, until time.Time, at int64) (text string, marks []times.Mark, next int) {
	var b strings.Builder
	for next = from; ; next++ {
		printed := p.first().Add(time.Duration(next) * p.every)
		if printed.After(until) {
			return b.String(), marks, next
		}
		marks = append(marks, times.Mark{At: at + int64(b.Len()), Time: printed.UnixMilli()})
		b.WriteString(line(printed, stream, next))
	}
}

// print prints to a stream at a pace. If it doesn't end, its last lines aren't sent: all
// streams would send at the same moment.
func (s *stream) print(ctx context.Context, p pace, record *recorder) error {
	end := p.began.Add(p.lasts)
	sleep(ctx, rand.N(min(max(shortestPhase/time.Duration(p.speed), p.every), p.lasts*4/5))) //nolint:gosec // G404: no secret
	for ctx.Err() == nil {
		now := time.Now()
		if now.After(end) {
			now = end
		}
		if now.Equal(end) && !p.ends {
			return nil
		}
		text, marks, next := p.text(s.number, s.lines, p.at(now), s.at)
		if text != "" {
			_, _ = s.sum.Write([]byte(text))
			if err := s.write(ctx, record, s.at, []byte(text), marks); err != nil {
				return err
			}
			s.at, s.lines = s.at+int64(len(text)), next
		}
		if now.Equal(end) {
			return s.end(ctx, record)
		}
		pause := max(s.linger, p.every/time.Duration(p.speed))
		sleep(ctx, min(time.Until(now.Add(pause)), time.Until(end)))
	}
	return ctx.Err()
}

// shortestPhase is over how long streams begin that print more often, in real time.
const shortestPhase = retries.LongestLinger

// flood prints a number of bytes to a stream at full speed, two full parts at a time, and
// ends it.
func (s *stream) flood(ctx context.Context, size int64, record *recorder) error {
	group, sending := errgroup.WithContext(ctx)
	group.SetLimit(2)
	began := time.Now()
	for s.at < size && sending.Err() == nil {
		var b strings.Builder
		var marks []times.Mark
		for b.Len() < partSize-256 {
			printed := began.Add(time.Duration(s.lines) * time.Millisecond)
			marks = append(marks, times.Mark{At: s.at + int64(b.Len()), Time: printed.UnixMilli()})
			b.WriteString(line(printed, s.number, s.lines))
			s.lines++
		}
		data, from := []byte(b.String()), s.at
		_, _ = s.sum.Write(data)
		group.Go(func() error { return s.write(sending, record, from, data, marks) })
		s.at += int64(len(data))
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return s.end(ctx, record)
}
