// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/metric"
	"knative.dev/pkg/webhook"
)

// webhookLabels are the labels of knative.dev/pkg's webhook metrics whose values come
// from requests, with the values that the injector's webhooks expect. Any pod can send a
// request, and each new value would be kept for good.
var webhookLabels = map[attribute.Key][]string{
	attribute.Key(webhook.GroupAttr):       {""},
	attribute.Key(webhook.VersionAttr):     {"v1"},
	attribute.Key(webhook.KindAttr):        {"Pod", "Namespace", "ConfigMap"},
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
