// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"strings"

	"github.com/grafana/grafana-foundation-sdk/go/dashboard"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

// refusals are the outcomes of pods that are refused.
var refusals = []pod.Outcome{
	pod.InvalidAnnotation, pod.NameCollision, pod.NoCommand, pod.NoExec, pod.LookupFailed, pod.LogsNotSent, pod.InternalError,
}

// outcomes matches decisions with one of these outcomes.
func outcomes(list ...pod.Outcome) string {
	words := make([]string, len(list))
	for i, outcome := range list {
		words[i] = string(outcome)
	}
	return `outcome=~"` + strings.Join(words, "|") + `"`
}

const (
	decisions        = "entrypointer_pod_decisions_total"
	decisionDuration = "entrypointer_pod_decision_duration_seconds"
	lookupDuration   = "entrypointer_lookup_duration_seconds"
)

// inAnHour is how many decisions had one of these outcomes.
func inAnHour(list ...pod.Outcome) string {
	return "sum(increase(" + decisions + "{$selected," + outcomes(list...) + "}[1h])) or vector(0)"
}

func injectorRows() []row {
	return []row{
		{"Injector", injectorNumbers()},
		{"Injector: decisions on pods", decisionPanels()},
		{"Injector: lookups of images", lookupPanels()},
		{"Injector: requests, delivery and configuration", requestPanels()},
	}
}

func injectorNumbers() []panel {
	return []panel{
		number("Replicas", "Replicas of the injector whose metrics are collected.", plainUnit,
			"count(entrypointer_build_info{$selected}) or vector(0)", bad().from(1, "orange").from(2, "green")),
		number("Versions", "More than one runs during an upgrade only.", plainUnit,
			"count(count by (version) (entrypointer_build_info{$selected}))", good().from(2, "orange")),
		number("Faulty keys", "Keys of config-entrypointer that aren't in force as they are written. The injector's log names them.", plainUnit,
			"max(entrypointer_config_faulty_keys{$selected})", good().from(1, "red")),
		number("Decisions", "Pods that were decided on, per second.", perSecondUnit,
			inTotal("", decisions, "").expression, good()),
		number("Wrapped in an hour", "Pods that were wrapped in the last hour, in whole or in part.", plainUnit,
			inAnHour(pod.Injected, pod.PartlyInjected), good()),
		number("Refused in an hour", "Pods that were refused in the last hour.", plainUnit,
			inAnHour(refusals...), good().from(1, "orange")),
		number("Unwrapped in an hour", "Pods of the last hour whose containers run unwrapped because a lookup failed, with failed-lookup: admit.", plainUnit,
			inAnHour(pod.LookupWaived, pod.PartlyInjected), good().from(1, "orange")),
		number("Defects in an hour", "Pods that were refused in the last hour because of a defect in the injector. Please report it.", plainUnit,
			inAnHour(pod.InternalError), good().from(1, "red")),
	}
}

func decisionPanels() []panel {
	return []panel{
		lines("Decisions by outcome", "Pods per second. AlreadyInjected is a second decision on a pod that something has changed.", perSecondUnit,
			perSecond(decisions, "outcome", "")),
		lines("Refused pods by outcome", "Pods per second.", perSecondUnit,
			perSecond(decisions, "outcome", outcomes(refusals...))),
		withLimit(lines("Duration of decisions", "With the lookups of images, and without the network between API server and injector. API servers wait for 10 s.", secondsUnit,
			quantiles(decisionDuration)...), 2),
		lines("Wrapped pods by owner", "Pods per second.", perSecondUnit,
			perSecond(decisions, "owner", outcomes(pod.Injected, pod.PartlyInjected))),
		lines("Wrapped pods by delivery", "Pods per second.", perSecondUnit,
			perSecond(decisions, "delivery", outcomes(pod.Injected, pod.PartlyInjected))),
		lines("Share of pods that are decided twice", "Another webhook changes them after the injector, or a plugin of the API server.", shareUnit,
			query{"sum(rate(" + decisions + "{$selected," + outcomes(pod.AlreadyInjected) + "}[$__rate_interval])) / sum(rate(" +
				decisions + "{$selected," + outcomes(pod.Injected) + "}[$__rate_interval]))", "decided twice"}),
	}
}

func lookupPanels() []panel {
	return []panel{
		lines("Lookups by result", "Lookups per second. The results from Static to Opened are answers, the others are errors.", perSecondUnit,
			perSecond(lookupDuration+"_count", "result", "")),
		lines("Duration of lookups", "From 0.1 ms for an answer that is remembered to the limit lookup-timeout.", secondsUnit,
			quantiles(lookupDuration)...),
		lines("Share of lookups that the cache answers", "A tenant's credentials are checked at the registry all the same, unless it got the answer seconds ago.", shareUnit,
			query{"sum(rate(" + lookupDuration + `_count{$selected,result=~"Remembered|Cached"}[$__rate_interval])) / sum(rate(` +
				lookupDuration + "_count{$selected}[$__rate_interval]))", "from the cache"}).Max(1),
	}
}

func requestPanels() []panel {
	return []panel{
		lines("Refused requests by reason", "Requests of any client that no webhook has decoded.", requestsUnit,
			perSecond("entrypointer_webhook_refused_requests_total", "reason", "")),
		lines("Requests about pods of namespaces that didn't opt in", "An API server sends none, unless the namespace has just opted out. Another client does.", requestsUnit,
			inTotal(string(pod.NotOptedIn), decisions, outcomes(pod.NotOptedIn))),
		withLimit(lines("Faulty keys", "Keys of config-entrypointer that aren't in force as they are written, by replica.", plainUnit,
			query{"max by (instance, pod) (entrypointer_config_faulty_keys{$selected})", "{{pod}} {{instance}}"}), 1).Decimals(0),
		states("What pods get under delivery: auto, and why", "NotConfigured: neither the operator nor a namespace uses auto.",
			query{"max by (reason) (entrypointer_delivery_image_volumes{$selected})", "{{reason}}"},
			map[string]dashboard.ValueMappingResult{
				"0": mapped("init container", "orange"),
				"1": mapped("image volume", "green"),
			}),
		lines("Canaries by result", "Pods in an hour that try on some kind of node whether image volumes work.", plainUnit,
			query{"sum by (result) (increase(entrypointer_delivery_canaries_total{$selected}[1h]))", "{{result}}"}),
		lines("Replicas by version", "Both releases run during an upgrade only.", plainUnit,
			query{"count by (version) (entrypointer_build_info{$selected})", "{{version}}"}).Decimals(0),
	}
}

func mapped(text, colour string) dashboard.ValueMappingResult {
	return dashboard.ValueMappingResult{Text: &text, Color: &colour}
}
