// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package logreader

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/tracelink"
)

func TestTheLogServiceTellsWhereTracesAre(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	found, err := c.client.Traces(t.Context())
	require.NoError(t, err)
	require.Empty(t, found.String(), "the operator hasn't said it")
	template, err := tracelink.Parse("https://jaeger.example/trace/{traceID}")
	require.NoError(t, err)
	c.service.LinkTraces(template)
	found, err = c.client.Traces(t.Context())
	require.NoError(t, err)
	require.Equal(t, template, found)
}

// What answers needn't be the log service, so its template counts as any other.
func TestATemplateOfAnythingElseIsRefused(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{"", `{"traceURL":"javascript:alert('{traceID}')"}`} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if answer == "" {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
			_, _ = io.WriteString(w, answer)
		}))
		_, err := clientOf(t, server.URL).Traces(t.Context())
		server.Close()
		require.Error(t, err, "%q", answer)
	}
}
