// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/snappy"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/entrypointer/entrypointer/test/loopback"
	"github.com/entrypointer/entrypointer/test/program"
	"github.com/entrypointer/entrypointer/test/shipping"
)

// A lokiServer is Loki as a single binary, on a store.
type lokiServer struct {
	*store
	process *program.Process
	url     string
	client  *http.Client
}

// lokiConfig is Loki's default configuration, with chunks and the index in the bucket, and
// limits that these streams don't reach. The write-ahead log is on the disk, by default.
const lokiConfig = `
auth_enabled: false
server: {http_listen_address: 127.0.0.1, http_listen_port: %s, grpc_listen_address: 127.0.0.1, grpc_listen_port: %s, http_server_read_timeout: 10m, http_server_write_timeout: 10m, log_level: warn}
common:
  instance_addr: 127.0.0.1
  path_prefix: %s
  replication_factor: 1
  ring: {kvstore: {store: inmemory}}
storage_config:
  aws: {endpoint: %q, insecure: true, s3forcepathstyle: true, region: us-east-1, bucketnames: %s, access_key_id: %s, secret_access_key: %s}
schema_config:
  configs: [{from: "2024-01-01", store: tsdb, object_store: s3, schema: v13, index: {prefix: index_, period: 24h}}]
limits_config:
  ingestion_rate_mb: 10000
  ingestion_burst_size_mb: 10000
  per_stream_rate_limit: 10GB
  per_stream_rate_limit_burst: 10GB
  max_global_streams_per_user: 0
  max_query_series: 1000000
  query_timeout: 10m
  volume_enabled: false
pattern_ingester: {enabled: false}
analytics: {reporting_enabled: false}
`

func startLoki(ctx context.Context, programs string, latency time.Duration) (_ *lokiServer, err error) {
	l := &lokiServer{client: &http.Client{Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: connections, MaxConnsPerHost: connections}}}
	defer func() {
		if err != nil {
			l.close()
		}
	}()
	if l.store, err = startStore(ctx, programs, latency); err != nil {
		return nil, err
	}
	var ports [2]string
	for i := range ports {
		address, err := loopback.FreeAddress(ctx)
		if err != nil {
			return nil, err
		}
		if _, ports[i], err = net.SplitHostPort(address); err != nil {
			return nil, err
		}
	}
	config := filepath.Join(l.directory, "loki.yaml")
	text := fmt.Appendf(nil, lokiConfig, ports[0], ports[1], filepath.Join(l.directory, "loki"), l.proxy.address, bucketName, accessKey, secretKey)
	if err := os.WriteFile(config, text, 0o600); err != nil {
		return nil, err
	}
	if l.process, err = start(ctx, filepath.Join(l.directory, "loki.log"), nil, filepath.Join(programs, "loki"), "-config.file", config); err != nil {
		return nil, err
	}
	l.url = "http://127.0.0.1:" + ports[0]
	return l, await(ctx, l.process, "Loki", func(ctx context.Context) error {
		_, err := get(ctx, l.url+"/ready")
		return err
	})
}

func (l *lokiServer) close() {
	l.process.Kill()
	if l.store != nil {
		l.store.close()
	}
}

// An agent pushes the lines of the streams of a node, as Promtail and Alloy do by default:
// a second's lines, or a MiB, in a request.
type agent struct {
	*lokiServer
	streams []*lokiStream
}

type lokiStream struct{ number, lines int }

const (
	// streamsOfAgent is how many streams a node has.
	streamsOfAgent = 100
	// batchWait and batchSize are when an agent pushes.
	batchWait = time.Second
	batchSize = 1 << 20
)

// labels are those of a stream, as an agent takes them from its pod.
func (s *lokiStream) labels() string {
	pod := s.number / shipping.StreamsOfPod
	return fmt.Sprintf("{cluster=\"bench\", container=\"c%d\", namespace=\"team-%d\", pod=\"pod-%d\"}", s.number%shipping.StreamsOfPod, pod/podsOfNamespace, pod)
}

// An entry is a line of a stream.
type entry struct {
	at   time.Time
	line string
}

// appendStream appends a stream with its lines to a PushRequest
// (https://github.com/grafana/loki/blob/main/pkg/push/push.proto).
func appendStream(request []byte, labels string, entries []entry) []byte {
	stream := protowire.AppendTag(nil, 1, protowire.BytesType)
	stream = protowire.AppendString(stream, labels)
	for _, e := range entries {
		var at []byte
		at = protowire.AppendTag(at, 1, protowire.VarintType)
		at = protowire.AppendVarint(at, uint64(e.at.Unix())) //nolint:gosec // G115: after 1970
		at = protowire.AppendTag(at, 2, protowire.VarintType)
		at = protowire.AppendVarint(at, uint64(e.at.Nanosecond())) //nolint:gosec // G115: it isn't negative
		var encoded []byte
		encoded = protowire.AppendTag(encoded, 1, protowire.BytesType)
		encoded = protowire.AppendBytes(encoded, at)
		encoded = protowire.AppendTag(encoded, 2, protowire.BytesType)
		encoded = protowire.AppendString(encoded, e.line)
		stream = protowire.AppendTag(stream, 2, protowire.BytesType)
		stream = protowire.AppendBytes(stream, encoded)
	}
	request = protowire.AppendTag(request, 1, protowire.BytesType)
	return protowire.AppendBytes(request, stream)
}

// push sends a request until Loki takes it.
func (l *lokiServer) push(ctx context.Context, request []byte, record *shipping.Recorder) error {
	for {
		began := time.Now()
		code, answer, err := l.try(ctx, snappy.Encode(nil, request))
		switch {
		case err == nil && code == http.StatusNoContent:
			record.Succeeded(began)
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil && code < http.StatusInternalServerError && code != http.StatusTooManyRequests:
			return fmt.Errorf("pushing to Loki: %d: %.300s", code, answer)
		}
		if err == nil {
			err = fmt.Errorf("pushing to Loki: %d: %.300s", code, answer)
		}
		record.Repeated(err)
		shipping.Sleep(ctx, time.Second)
	}
}

func (l *lokiServer) try(ctx context.Context, body []byte) (code int, answer []byte, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, l.url+"/loki/api/v1/push", bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("Content-Type", "application/x-protobuf")
	response, err := l.client.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err = io.ReadAll(io.LimitReader(response.Body, 1<<20))
	return response.StatusCode, answer, err
}

// agents returns agents for a number of streams.
func (l *lokiServer) agents(count int) (list []*agent) {
	for i := range count {
		if i%streamsOfAgent == 0 {
			list = append(list, &agent{lokiServer: l})
		}
		last := list[len(list)-1]
		last.streams = append(last.streams, &lokiStream{number: i})
	}
	return list
}

// print pushes the lines of all streams of a node at a pace. The lines of a stream begin at
// a moment of their own.
func (a *agent) print(ctx context.Context, p shipping.Pace, record *shipping.Recorder) error {
	end := p.Began.Add(p.Lasts)
	shipping.Sleep(ctx, rand.N(batchWait)) //nolint:gosec // G404: no secret
	for ctx.Err() == nil {
		now := time.Now()
		if now.After(end) {
			now = end
		}
		var request []byte
		for _, s := range a.streams {
			shift := p.Every * time.Duration(s.number%shifts) / shifts
			var entries []entry
			for ; ; s.lines++ {
				at := p.First().Add(time.Duration(s.lines)*p.Every + shift)
				if at.After(p.At(now)) {
					break
				}
				text := shipping.Line(at, s.number, s.lines)
				entries = append(entries, entry{at, text[:len(text)-1]})
			}
			if len(entries) > 0 {
				request = appendStream(request, s.labels(), entries)
			}
		}
		if request != nil {
			if err := a.push(ctx, request, record); err != nil {
				return err
			}
		}
		if now.Equal(end) {
			return nil
		}
		shipping.Sleep(ctx, min(time.Until(now.Add(batchWait)), time.Until(end)))
	}
	return ctx.Err()
}

// shifts is over how many moments of their interval streams print.
const shifts = 1000

// flood pushes a number of bytes of a stream at full speed, and returns how many there were.
func (l *lokiServer) flood(ctx context.Context, s *lokiStream, size int64, record *shipping.Recorder) (sent int64, err error) {
	began := time.Now()
	for sent < size {
		var entries []entry
		for batch := 0; batch < batchSize-256; s.lines++ {
			at := began.Add(time.Duration(s.lines) * time.Microsecond)
			text := shipping.Line(at, s.number, s.lines)
			batch += len(text)
			sent += int64(len(text))
			entries = append(entries, entry{at, text[:len(text)-1]})
		}
		if err := l.push(ctx, appendStream(nil, s.labels(), entries), record); err != nil {
			return sent, err
		}
	}
	return sent, nil
}

// flush has Loki write all that it has in memory to the bucket, and ends it, so that it
// writes its index as well.
func (l *lokiServer) flush(ctx context.Context) error {
	_, err := l.process.Await(ctx, "Loki to write its chunks", flushLimit, func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, l.url+"/flush", nil)
		if err != nil {
			return err
		}
		response, err := l.client.Do(request)
		if err != nil {
			return err
		}
		_ = response.Body.Close()
		text, err := get(ctx, l.url+"/metrics")
		if err == nil && (!strings.Contains(text, memoryChunks) || metric(text, memoryChunks) != 0) {
			err = errors.New("there are chunks in memory")
		}
		return err
	})
	if err != nil {
		return err
	}
	err = l.process.Stop()
	l.process = nil
	return err
}

// memoryChunks is Loki's metric of the chunks that aren't in the bucket yet.
const memoryChunks = "loki_ingester_memory_chunks"

// flushLimit is what Loki may take to write what it has in memory.
const flushLimit = 10 * time.Minute

// count returns how many lines Loki has.
func (l *lokiServer) count(ctx context.Context) (lines int, err error) {
	query := url.Values{"query": {`sum(count_over_time({cluster="bench"}[1d]))`}, "time": {strconv.FormatInt(time.Now().Add(time.Hour).Unix(), 10)}}
	body, err := get(ctx, l.url+"/loki/api/v1/query?"+query.Encode())
	if err != nil {
		return 0, err
	}
	var answer struct {
		Data struct {
			Result []struct{ Value [2]any }
		}
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil {
		return 0, fmt.Errorf("counting the lines in Loki: %w: %.300s", err, body)
	}
	if len(answer.Data.Result) != 1 {
		return 0, fmt.Errorf("counting the lines in Loki: it finds %.300s", body)
	}
	value, ok := answer.Data.Result[0].Value[1].(string)
	if !ok {
		return 0, errors.New("counting the lines in Loki: the value isn't a string")
	}
	return strconv.Atoi(value)
}

// printAll pushes the lines of a number of streams at a pace.
func (l *lokiServer) printAll(ctx context.Context, list []*agent, p shipping.Pace, record *shipping.Recorder) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, a := range list {
		group.Go(func() error { return a.print(ctx, p, record) })
	}
	return group.Wait()
}
