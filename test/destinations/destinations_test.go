// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package destinations

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	logscollector "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	tracecollector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	logspb "go.opentelemetry.io/proto/otlp/logs/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/entrypointer/entrypointer/internal/logs/export"
	"github.com/entrypointer/entrypointer/internal/logs/storage"
	"github.com/entrypointer/entrypointer/internal/logs/streams"
	"github.com/entrypointer/entrypointer/internal/logs/times"
	"github.com/entrypointer/entrypointer/test/loopback"
)

// startLimit is what a program may take to start, or to show what it got.
const startLimit = time.Minute

// build compiles a program of a module in a directory here.
func build(t *testing.T, module, program string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), module)
	command := exec.Command("go", "build", "-C", module, "-o", path, program)
	out, err := command.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return path
}

// start runs a program until the test is over. It is there once it answers a URL.
func start(t *testing.T, ready, path string, arguments ...string) {
	t.Helper()
	output, err := os.Create(filepath.Join(t.TempDir(), "output"))
	require.NoError(t, err)
	command := exec.Command(path, arguments...)
	command.Stdout, command.Stderr = output, output
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(t, command.Start())
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
		if t.Failed() {
			said, _ := os.ReadFile(output.Name())
			t.Logf("%s has said:\n%s", path, said[max(0, len(said)-10_000):])
		}
		require.NoError(t, output.Close())
	})
	require.Eventually(t, func() bool {
		response, err := http.Get(ready)
		if err != nil {
			return false
		}
		defer response.Body.Close()
		return response.StatusCode < http.StatusInternalServerError
	}, startLimit, 50*time.Millisecond, "it starts")
}

// sends runs the exporter over a store with the output of a pod, until the test is over.
func sends(t *testing.T, to string) {
	t.Helper()
	bucket, err := storage.OpenFiles(t.TempDir())
	require.NoError(t, err)
	store, err := streams.Open(t.Context(), bucket)
	require.NoError(t, err)
	id, err := store.Create(t.Context(), streams.Source{
		Namespace: "team-a", Pod: "pod", PodUID: "uid", Container: "step-test", Start: "1", Name: "stdout",
		Labels: map[string]string{"tekton.dev/pipelineRun": "nightly-7", "tekton.dev/pipelineTask": "test", "entrypointer.dev/traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
	})
	require.NoError(t, err)
	const said = "first line\nsecond \xff line\n"
	length := int64(len(said))
	require.NoError(t, store.Write(t.Context(), id, 0, []byte(said), times.Mark{At: 0, Time: time.Now().UnixMilli()}))
	require.NoError(t, store.Drop(t.Context(), id, streams.Range{From: length, To: length + 5}))
	require.NoError(t, store.End(t.Context(), id, length+5))
	exporter, err := export.New(store, bucket, export.Options{URL: to, Timeout: 10 * time.Second, Pause: time.Second}, slog.New(slog.NewTextHandler(t.Output(), nil)), prometheus.NewRegistry())
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = exporter.Run(ctx) }()
	t.Cleanup(func() { stop(); <-ended; require.NoError(t, bucket.Close()) })
}

var lines = []string{"first line", "second \uFFFD line", "[5 bytes were dropped]"}

// receive decodes a request of OTLP.
func receive(t *testing.T, r *http.Request, to proto.Message) {
	t.Helper()
	unpacked, err := gzip.NewReader(r.Body)
	if err != nil {
		t.Error(err)
		return
	}
	body, _ := io.ReadAll(unpacked)
	if err := proto.Unmarshal(body, to); err != nil {
		t.Error(err)
	}
}

func TestACollectorPassesOnWhatItGets(t *testing.T) {
	var mu sync.Mutex
	var got []*logspb.ResourceLogs
	var traces []*tracepb.ResourceSpans
	behind := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if r.URL.Path == "/v1/traces" {
			var request tracecollector.ExportTraceServiceRequest
			receive(t, r, &request)
			traces = append(traces, request.ResourceSpans...)
			return
		}
		var request logscollector.ExportLogsServiceRequest
		receive(t, r, &request)
		got = append(got, request.ResourceLogs...)
	}))
	defer behind.Close()
	at := loopback.FreeAddressFor(t)
	config := filepath.Join(t.TempDir(), "config.yaml")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, `
receivers: {otlp: {protocols: {http: {endpoint: %q}}}}
exporters: {otlp_http: {endpoint: %q}}
service:
  telemetry: {metrics: {level: none}}
  pipelines:
    logs: {receivers: [otlp], exporters: [otlp_http]}
    traces: {receivers: [otlp], exporters: [otlp_http]}
`, at, behind.URL), 0o600))
	start(t, "http://"+at+"/v1/logs", build(t, "collector", "."), "--config", config)
	sends(t, "http://"+at+"/v1/logs")
	traced := sendsTraces(t, "http://"+at+"/v1/traces")
	found := func() (bodies []string) {
		mu.Lock()
		defer mu.Unlock()
		for _, of := range got {
			for _, r := range of.ScopeLogs[0].LogRecords {
				bodies = append(bodies, r.Body.GetStringValue())
			}
		}
		return bodies
	}
	require.Eventually(t, func() bool { return len(found()) == len(lines) }, startLimit, 50*time.Millisecond)
	require.Equal(t, lines, found())
	attributes := map[string]string{}
	for _, a := range got[0].Resource.Attributes {
		attributes[a.Key] = a.Value.GetStringValue()
	}
	require.Equal(t, "team-a", attributes["k8s.namespace.name"])
	require.Equal(t, "nightly-7", attributes["cicd.pipeline.run.id"])
	require.Equal(t, "0af7651916cd43dd8448eb211c80319c", fmt.Sprintf("%x", got[0].ScopeLogs[0].LogRecords[0].TraceId))

	tree := func() (all []span) {
		mu.Lock()
		defer mu.Unlock()
		for _, of := range traces {
			for _, s := range of.ScopeSpans[0].Spans {
				require.Equal(t, traced, fmt.Sprintf("%x", s.TraceId))
				all = append(all, span{fmt.Sprintf("%x", s.SpanId), fmt.Sprintf("%x", s.ParentSpanId), s.Name, s.StartTimeUnixNano, s.EndTimeUnixNano})
			}
		}
		return all
	}
	require.Eventually(t, func() bool { return len(tree()) == spansOfRun }, startLimit, 50*time.Millisecond)
	require.Equal(t, treeOfRun, drawn(t, tree()))
}
