// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package objectstest has what stands in for an API server in the tests of the plugin.
package objectstest

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/entrypointer/entrypointer/internal/objects"
)

// Client returns a client of an API server whose responses are those of a handler, until the
// end of the test.
func Client(t *testing.T, namespace string, server http.Handler) objects.Client {
	t.Helper()
	listening := httptest.NewServer(server)
	t.Cleanup(listening.Close)
	client, err := objects.NewClient(&rest.Config{Host: listening.URL}, namespace)
	require.NoError(t, err)
	return *client
}

// Respond responds with an object.
func Respond(w http.ResponseWriter, object any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(object)
}

var reasons = map[int]metav1.StatusReason{
	http.StatusForbidden: metav1.StatusReasonForbidden, http.StatusNotFound: metav1.StatusReasonNotFound,
	http.StatusInternalServerError: metav1.StatusReasonInternalError,
}

// Refuse responds with an error, as API servers do.
func Refuse(w http.ResponseWriter, code int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
		Code: int32(code), Reason: reasons[code], Message: message, //nolint:gosec // a code of HTTP's
	})
}
