// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build jaeger

package destinations

import (
	"encoding/json"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestJaegerShowsAPipelineRunAsOneTree(t *testing.T) {
	query, otlp, admin := free(t), free(t), free(t)
	start(t, "http://"+admin, build(t, "jaeger", "github.com/jaegertracing/jaeger/cmd/all-in-one"),
		"--query.http-server.host-port="+query, "--query.grpc-server.host-port="+free(t), "--admin.http.host-port="+admin,
		"--collector.otlp.http.host-port="+otlp, "--collector.otlp.grpc.host-port="+free(t),
		"--collector.http-server.host-port="+free(t), "--collector.grpc-server.host-port="+free(t))
	trace := sendsTraces(t, "http://"+otlp+"/v1/traces")
	url := "http://" + query + "/api/traces/" + trace
	require.Eventually(t, func() bool { return len(jaegers(t, url)) == spansOfRun }, startLimit, 200*time.Millisecond)
	require.Equal(t, treeOfRun, drawn(t, jaegers(t, url)))
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
