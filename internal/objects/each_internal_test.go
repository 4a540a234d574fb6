// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
)

// TestLargeObjectsAreListedInSmallerPages lists objects of which few fit into the bound of a
// response, then some of which none does, and some that may not be listed.
func TestLargeObjectsAreListedInSmallerPages(t *testing.T) {
	t.Parallel()
	size := 1000
	var limits []int
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/refused" {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"no such right"}`))
			return
		}
		limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
		limits = append(limits, limit)
		from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
		to, next := min(100, from+limit), ""
		if to < 100 {
			next = strconv.Itoa(to)
		}
		items := []any{}
		for at := from; at < to; at++ {
			items = append(items, map[string]any{"metadata": map[string]string{"name": strconv.Itoa(at)}, "padding": strings.Repeat("x", size)})
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"metadata": map[string]string{"continue": next}, "items": items})
	}))
	defer server.Close()
	client, err := NewClient(&rest.Config{Host: server.URL}, "tenant")
	require.NoError(t, err)
	listed := 0
	list := func(path string) error {
		limits, listed = nil, 0
		more, err := each(t.Context(), func() *rest.Request { return client.REST.Get().AbsPath(path) }, 1000, 64_000, func(w Workload) error {
			require.Equal(t, strconv.Itoa(listed), w.Name)
			listed++
			return nil
		})
		require.False(t, more)
		return err
	}
	require.NoError(t, list("/x"))
	require.Equal(t, 100, listed)
	require.Equal(t, []int{500, 250, 125, 62, 31, 31, 31, 31}[:len(limits)], limits)
	size = 64_000
	require.ErrorContains(t, list("/x"), "an object has more than 64000 bytes")
	require.Equal(t, 1, limits[len(limits)-1])
	require.Zero(t, listed)
	require.True(t, apierrors.IsForbidden(list("/refused")))
}
