// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build loki

package destinations

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/test/loopback"
)

func TestLokiFindsARunAndItsTrace(t *testing.T) {
	at := loopback.FreeAddressFor(t)
	host, port, err := net.SplitHostPort(at)
	require.NoError(t, err)
	_, other, err := net.SplitHostPort(loopback.FreeAddressFor(t))
	require.NoError(t, err)
	for name, value := range map[string]string{"ADDRESS": host, "PORT": port, "GRPC_PORT": other, "DIRECTORY": t.TempDir()} {
		t.Setenv(name, value)
	}
	start(t, "http://"+at+"/metrics", build(t, "loki", "github.com/grafana/loki/v3/cmd/loki"), "-config.file", "loki/config.yaml", "-config.expand-env")
	sends(t, "http://"+at+"/otlp/v1/logs")
	for _, query := range []string{
		`{k8s_namespace_name="team-a"} | cicd_pipeline_run_id="nightly-7"`,
		`{service_name="test"} | trace_id="0af7651916cd43dd8448eb211c80319c"`,
	} {
		require.Eventually(t, func() bool { return len(ask(t, at, query)) == len(lines) }, startLimit, 200*time.Millisecond, "%s", query)
		require.ElementsMatch(t, lines, ask(t, at, query))
	}
	require.Equal(t, lines[2:], ask(t, at, `{k8s_namespace_name="team-a"} | entrypointer_gap="dropped"`))
}

// ask returns the lines that a query finds.
func ask(t *testing.T, at, query string) (found []string) {
	t.Helper()
	values := url.Values{"query": {query}, "limit": {"100"}, "start": {strconv.FormatInt(time.Now().Add(-time.Hour).UnixNano(), 10)}}
	response, err := http.Get("http://" + at + "/loki/api/v1/query_range?" + values.Encode())
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	var answer struct {
		Data struct {
			Result []struct{ Values [][2]string }
		}
	}
	if err := json.Unmarshal(body, &answer); err != nil || response.StatusCode != http.StatusOK {
		t.Logf("%s: %d: %s", query, response.StatusCode, body)
		return nil
	}
	for _, r := range answer.Data.Result {
		for _, v := range r.Values {
			found = append(found, v[1])
		}
	}
	return found
}
