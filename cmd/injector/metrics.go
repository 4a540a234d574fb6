// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	otelmetric "go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/metric"
	"knative.dev/pkg/webhook"

	"github.com/entrypointer/entrypointer/internal/version"
)

// registerBuild registers the metric of the injector's version.
func registerBuild(provider otelmetric.MeterProvider) error {
	own := otelmetric.WithAttributes(attribute.String("version", version.Own()))
	_, err := provider.Meter("github.com/entrypointer/entrypointer").Int64ObservableGauge("entrypointer.build.info",
		otelmetric.WithDescription("1, with the version of the injector."),
		otelmetric.WithInt64Callback(func(_ context.Context, observer otelmetric.Int64Observer) error {
			observer.Observe(1, own)
			return nil
		}))
	if err != nil {
		return fmt.Errorf("registering the metric of the version: %w", err)
	}
	return nil
}

// webhookLabels are the labels of knative.dev/pkg's webhook metrics whose values come
// from requests, with the values that the injector's webhooks expect. Any pod can send a
// request, and each new value would be kept for good.
var webhookLabels = map[attribute.Key][]string{
	attribute.Key(webhook.GroupAttr):   {"", "apps", "batch", "serving.knative.dev", "tekton.dev"},
	attribute.Key(webhook.VersionAttr): {"v1"},
	attribute.Key(webhook.KindAttr): {
		"Pod", "Namespace", "ConfigMap", "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet",
		"Job", "CronJob", "Service", "Configuration", "TaskRun", "PipelineRun",
	},
	attribute.Key(webhook.SubresourceAttr): {"", "status", "finalize"},
	attribute.Key(webhook.OperationAttr):   {"CREATE", "UPDATE", "DELETE"},
}

// webhookMetrics removes a label whose value isn't one of webhookLabels.
func webhookMetrics() metric.View {
	return metric.NewView(
		metric.Instrument{Name: "kn.webhook.*", Scope: instrumentation.Scope{Name: "knative.dev/pkg/webhook"}},
		metric.Stream{AttributeFilter: func(label attribute.KeyValue) bool {
			values, asked := webhookLabels[label.Key]
			return !asked || slices.Contains(values, label.Value.AsString())
		}},
	)
}
