// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package export

import (
	"time"

	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	logscollector "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	logspb "go.opentelemetry.io/proto/otlp/logs/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	"google.golang.org/protobuf/proto"

	"github.com/entrypointer/entrypointer/internal/logs/otlp"
	"github.com/entrypointer/entrypointer/internal/logs/streams"
)

const (
	// maxBatch and maxBatchRecords bound a request: the sum of the bodies and of what a record
	// needs besides, in bytes, and the number of records.
	maxBatch, maxBatchRecords = 1 << 20, 4096
	// perRecord is what a record needs besides its body, in bytes.
	perRecord = 128
	// maxBatchStreams bounds the streams of a request.
	maxBatchStreams = 64
)

// A batch is what is sent in one request: records of some streams, each stream's together
// and in their order.
type batch struct {
	items []item
	size  int
	jobs  map[*job]bool
}

// An item is a record of a stream.
type item struct {
	job *job
	record
}

func (b *batch) add(j *job, r record) {
	b.items = append(b.items, item{j, r})
	b.size += len(r.body) + proto.Size(r.span) + perRecord
	if b.jobs == nil {
		b.jobs = map[*job]bool{}
	}
	b.jobs[j] = true
}

func (b *batch) isFull() bool {
	return b.size >= maxBatch-maxLine || len(b.items) >= maxBatchRecords || len(b.jobs) >= maxBatchStreams
}

// request implements signal.
func (lines) request(items []item, now time.Time) proto.Message {
	encoded := &logscollector.ExportLogsServiceRequest{}
	var last *job
	for _, i := range items {
		if i.job != last {
			encoded.ResourceLogs = append(encoded.ResourceLogs, resourceLogs(i.job.resource))
			last = i.job
		}
		scope := encoded.ResourceLogs[len(encoded.ResourceLogs)-1].ScopeLogs[0]
		scope.LogRecords = append(scope.LogRecords, i.encode(i.job.id, i.job.name, i.job.trace, now))
	}
	return encoded
}

func resourceLogs(of *resourcepb.Resource) *logspb.ResourceLogs {
	return &logspb.ResourceLogs{
		Resource: of, SchemaUrl: semconv.SchemaURL,
		ScopeLogs: []*logspb.ScopeLogs{{Scope: otlp.Scope(), SchemaUrl: semconv.SchemaURL}},
	}
}

// refusals implements signal: a record for each stream.
func (lines) refusals(items []item, why string) (list []item) {
	for _, i := range items {
		if last := len(list) - 1; last >= 0 && list[last].job == i.job {
			list[last].record = gapRecord(streams.Range{From: list[last].From, To: i.To}, gapRefused, why)
			continue
		}
		list = append(list, item{i.job, gapRecord(i.Range, gapRefused, why)})
	}
	return list
}
