// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package page_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/logs/api"
	"github.com/entrypointer/entrypointer/internal/logs/endpoint"
	"github.com/entrypointer/entrypointer/internal/logs/storage"
	"github.com/entrypointer/entrypointer/internal/logs/streams"
	"github.com/entrypointer/entrypointer/internal/page/pagetest"
)

// TestALinkToALineSurvivesTheJoiningOfItsStream takes a link to a line of a stream of many objects, has
// them joined as the log service does after minutes, and opens the link. The objects and the service are
// real ones.
func TestALinkToALineSurvivesTheJoiningOfItsStream(t *testing.T) {
	bucket, err := storage.OpenFiles(t.TempDir())
	require.NoError(t, err)
	store, err := streams.Open(t.Context(), bucket)
	require.NoError(t, err)
	id, err := store.Create(t.Context(), streams.Source{Namespace: pagetest.Namespace, Pod: "report-abcde", PodUID: "uid-report-abcde", Container: "report", Start: "2026-11-28T12:00:00Z", Name: "stdout"})
	require.NoError(t, err)
	end := int64(0)
	for n := range 200 {
		line := fmt.Sprintf("line %d\n", n)
		require.NoError(t, store.Write(t.Context(), id, end, []byte(line)))
		end += int64(len(line))
	}
	require.NoError(t, store.End(t.Context(), id, end))

	logs := api.New(store, reader{}, slog.New(slog.DiscardHandler))
	t.Cleanup(logs.CutFollowers)
	cluster := http.NewServeMux()
	cluster.Handle("/apis/"+endpoint.Group+"/", logs.Aggregated(reader{}))
	cluster.Handle("/", pagetest.New())
	b, path := newChromium(t), "/namespaces/team-a/pod/report-abcde/"
	b.visit(t, serve(t, cluster)+path, seen+`.includes("line 3")`)
	b.write(t, "#log-search", "line 123")
	b.await(t, `document.querySelector(".log .current .t")?.textContent === "line 123"`)
	hash := value[string](t, b, `document.querySelector(".log .current a.n").hash`)

	joined := 0
	for hours := range 3 {
		done, err := store.Tidy(t.Context(), id, time.Now().Add(time.Duration(1+hours)*time.Hour), 0)
		require.NoError(t, err)
		joined += done.Deleted
	}
	require.Equal(t, 200, joined, "objects that others have replaced")
	b.visit(t, serve(t, cluster)+path+hash, `document.querySelector(".log .target .t")?.textContent === "line 123"`)
	b.await(t, `document.querySelector(".log .count").textContent === "200 lines."`)
}

// reader is the user for whom the API server asks. The log service asks nothing else about it.
type reader struct{ api.Authenticator }

// User implements api.FrontProxy.
func (reader) User(*http.Request) (api.User, error) { return api.User{Name: "reader"}, nil }

// MayRead implements api.Authenticator.
func (reader) MayRead(context.Context, api.User, string, string) error { return nil }

// Namespace implements api.Authenticator.
func (reader) Namespace(context.Context, string) (api.Namespace, error) { return api.Namespace{}, nil }
