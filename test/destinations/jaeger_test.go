// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build jaeger

package destinations

import (
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/test/tracedrawing"
)

// pictures is a folder for a drawing of the trace. Of Jaeger's own page, its module has a
// placeholder.
var pictures = flag.String("pictures", "", "write trace.svg, the trace that Jaeger has, to this folder")

func TestJaegerShowsAPipelineRunAsOneTree(t *testing.T) {
	query, otlp, admin := free(t), free(t), free(t)
	start(t, "http://"+admin, build(t, "jaeger", "github.com/jaegertracing/jaeger/cmd/all-in-one"),
		"--query.http-server.host-port="+query, "--query.grpc-server.host-port="+free(t), "--admin.http.host-port="+admin,
		"--collector.otlp.http.host-port="+otlp, "--collector.otlp.grpc.host-port="+free(t),
		"--collector.http-server.host-port="+free(t), "--collector.grpc-server.host-port="+free(t))
	trace := sendsTraces(t, "http://"+otlp+"/v1/traces")
	url := "http://" + query + "/api/traces/" + trace
	require.Eventually(t, func() bool { return len(jaegers(t, url)) == spansOfRun }, startLimit, 200*time.Millisecond)
	all := jaegers(t, url)
	require.Equal(t, treeOfRun, drawn(t, all))
	if *pictures != "" {
		draw(t, all)
	}
}

// draw draws spans into the folder for pictures.
func draw(t *testing.T, all []span) {
	t.Helper()
	at := func(nanoseconds uint64) time.Time { return time.Unix(0, int64(nanoseconds)) }
	var spans []tracedrawing.Span
	for _, s := range all {
		spans = append(spans, tracedrawing.Span{ID: s.id, Parent: s.parent, Name: s.name, Start: at(s.from), Took: at(s.to).Sub(at(s.from))})
	}
	drawing, err := tracedrawing.Draw("The trace of a PipelineRun: its tasks, the steps of each, and in each step the wait for its turn and the run of its command", spans)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(*pictures, "trace.svg"), drawing, 0o644))
}

// jaegers returns the spans of a trace that Jaeger has. Its times are microseconds.
func jaegers(t *testing.T, url string) (all []span) {
	t.Helper()
	response, err := http.Get(url)
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	var answer struct {
		Data []struct {
			Spans []struct {
				SpanID              string
				OperationName       string
				References          []struct{ RefType, SpanID string }
				StartTime, Duration uint64
			}
		}
	}
	require.NoError(t, json.Unmarshal(body, &answer), "%s", body)
	for _, trace := range answer.Data {
		for _, s := range trace.Spans {
			one := span{id: s.SpanID, name: s.OperationName, from: s.StartTime * 1000, to: (s.StartTime + s.Duration) * 1000}
			for _, r := range s.References {
				if r.RefType == "CHILD_OF" {
					one.parent = r.SpanID
				}
			}
			all = append(all, one)
		}
	}
	return all
}
