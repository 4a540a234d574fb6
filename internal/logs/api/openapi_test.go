// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"bytes"
	"io"
	"net/http"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"github.com/stretchr/testify/require"
)

// description returns the routes of openapi.yaml.
func description(t *testing.T) routers.Router {
	t.Helper()
	openapi3filter.RegisterBodyDecoder(eventStreamType, openapi3filter.FileBodyDecoder)
	document, err := openapi3.NewLoader().LoadFromFile("openapi.yaml")
	require.NoError(t, err)
	require.NoError(t, document.Validate(t.Context()))
	router, err := gorillamux.NewRouter(document)
	require.NoError(t, err)
	return router
}

// An asDescribed client validates against openapi.yaml: all responses, and the requests
// that aren't refused as invalid.
type asDescribed struct {
	t      *testing.T
	router routers.Router
}

// RoundTrip implements http.RoundTripper.
func (d *asDescribed) RoundTrip(r *http.Request) (*http.Response, error) {
	sent, err := io.ReadAll(r.Body)
	require.NoError(d.t, err)
	r.Body = io.NopCloser(bytes.NewReader(sent))
	route, parameters, err := d.router.FindRoute(r)
	require.NoError(d.t, err)
	response, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(bytes.NewReader(sent))
	input := &openapi3filter.RequestValidationInput{Request: r, PathParams: parameters, Route: route, Options: &openapi3filter.Options{
		AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, ExcludeRequestBody: r.Header.Get("Content-Encoding") != "",
		IncludeResponseStatus: true,
	}}
	if response.StatusCode < http.StatusBadRequest {
		require.NoError(d.t, openapi3filter.ValidateRequest(r.Context(), input), "%s %s", r.Method, r.URL)
	}
	received, err := io.ReadAll(response.Body)
	require.NoError(d.t, err)
	require.NoError(d.t, response.Body.Close())
	response.Body = io.NopCloser(bytes.NewReader(received))
	require.NoError(d.t, openapi3filter.ValidateResponse(r.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: input, Status: response.StatusCode, Header: response.Header, Body: io.NopCloser(bytes.NewReader(received)),
		Options: input.Options,
	}), "%s %s: %s", r.Method, r.URL, received)
	return response, nil
}
