// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.uber.org/zap"
	admissionv1 "k8s.io/api/admission/v1"
	"knative.dev/pkg/logging"
	"knative.dev/pkg/webhook"

	"github.com/entrypointer/entrypointer/internal/metricstest"
	"github.com/entrypointer/entrypointer/test/markdown"
)

// admitsAll is a webhook that has nothing against anything.
type admitsAll struct{}

// Path implements webhook.AdmissionController.
func (admitsAll) Path() string { return "/all" }

// Admit implements webhook.AdmissionController.
func (admitsAll) Admit(context.Context, *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	return &admissionv1.AdmissionResponse{Allowed: true}
}

// labelsAfter has the labels of every series of knative.dev/pkg's own metrics
// after these requests.
func labelsAfter(t *testing.T, requests ...string) (series []attribute.Set) {
	t.Helper()
	reader := metric.NewManualReader()
	provider := metric.NewMeterProvider(metric.WithReader(reader), metric.WithView(webhookMetrics()))
	server, err := webhook.New(webhook.WithOptions(logging.WithLogger(t.Context(), zap.NewNop().Sugar()), webhook.Options{MeterProvider: provider}), []any{admitsAll{}})
	require.NoError(t, err)
	server.InformersHaveSynced()
	for _, request := range requests {
		answer := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodPost, "/all", strings.NewReader(`{"request":{"uid":"u",`+request+`}}`))
		r.Header.Set("Content-Type", "application/json")
		server.ServeHTTP(answer, r)
		require.Equal(t, http.StatusOK, answer.Code, answer.Body)
	}
	var all metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &all))
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			for _, point := range m.Data.(metricdata.Histogram[float64]).DataPoints {
				series = append(series, point.Attributes)
			}
		}
	}
	return series
}

func TestRequestsOfForeignPodsMakeNoLabels(t *testing.T) {
	var requests []string
	for i := 100; i < 200; i++ {
		requests = append(requests, fmt.Sprintf(
			`"kind":{"group":"g%[1]d","version":"v%[1]d","kind":"K%[1]d"},"subResource":"s%[1]d","operation":"O%[1]d"`, i))
	}
	series := labelsAfter(t, requests...)
	require.Len(t, series, 1)
	for _, label := range series[0].ToSlice() {
		require.NotContains(t, webhookLabels, label.Key)
	}
}

func TestRequestsOfAPIServersAreInTheLabels(t *testing.T) {
	series := labelsAfter(t,
		`"kind":{"version":"v1","kind":"Pod"},"operation":"CREATE"`,
		`"kind":{"version":"v1","kind":"Namespace"},"operation":"UPDATE","subResource":"status"`,
		`"kind":{"version":"v1","kind":"ConfigMap"},"operation":"DELETE"`,
	)
	require.Len(t, series, 3)
	for _, labels := range series {
		for key := range webhookLabels {
			require.True(t, labels.HasValue(key), "%s in %v", key, labels.ToSlice())
		}
	}
}

func TestTheInjectorsVersionIsAMetric(t *testing.T) {
	reader := metric.NewManualReader()
	require.NoError(t, registerBuild(metric.NewMeterProvider(metric.WithReader(reader))))
	var all metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &all))
	series := all.ScopeMetrics[0].Metrics[0]
	require.Equal(t, "entrypointer.build.info", series.Name)
	points := series.Data.(metricdata.Gauge[int64]).DataPoints
	require.Len(t, points, 1)
	require.Equal(t, int64(1), points[0].Value)
	require.Equal(t, attribute.NewSet(attribute.String("version", "devel")), points[0].Attributes)
}

func TestThePageListsTheVersion(t *testing.T) {
	provider, exported := metricstest.NewProvider(t)
	require.NoError(t, registerBuild(provider))
	metricstest.RequireDocumented(t, exported, "entrypointer_build_")
}

// Each package compares its rows of the page with what it exports.
func TestEachMetricOfThePageBelongsToAPackage(t *testing.T) {
	const page = "../../docs/metrics.md"
	all, err := markdown.Metrics(page, "entrypointer_")
	require.NoError(t, err)
	compared, err := markdown.Metrics(page,
		"entrypointer_build_",                                               // above
		"entrypointer_config_",                                              // internal/config
		"entrypointer_delivery_",                                            // internal/autodelivery
		"entrypointer_pod_", "entrypointer_lookup_", "entrypointer_events_", // internal/podwebhook
		"entrypointer_webhook_", // internal/intake
	)
	require.NoError(t, err)
	require.Equal(t, all, compared)
}
