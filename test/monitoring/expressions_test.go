// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"
	admission "k8s.io/apiserver/pkg/admission/metrics"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	aggregator "k8s.io/kube-aggregator/pkg/controllers/status/metrics"

	"github.com/entrypointer/entrypointer/test/markdown"
)

// targetLabels are those that a Prometheus in Kubernetes adds to each series.
var targetLabels = []string{"job", "instance", "namespace", "pod"}

// A metric is what an expression can select: its labels, and the values that they may have,
// among others.
type metric struct{ labels, values []string }

// quoted is what a page has in backquotes.
var quoted = regexp.MustCompile("`([A-Za-z0-9-]+)`")

// exported are the metrics that there are. Tests in the packages of the servers keep the
// tables of the pages equal to what the servers export.
func exported(t *testing.T) map[string]metric {
	t.Helper()
	all := exportedByAPIServers(t)
	for _, name := range []string{"metrics.md", "operating-logs.md"} {
		documented, err := markdown.Metrics(top+"/docs/"+name, "entrypointer_")
		require.NoError(t, err)
		page, err := os.ReadFile(top + "/docs/" + name)
		require.NoError(t, err)
		var values []string
		for _, match := range quoted.FindAllStringSubmatch(string(page), -1) {
			values = append(values, match[1])
		}
		for _, m := range documented {
			one := metric{m.Labels, values}
			if m.Type != "histogram" {
				all[m.Name] = one
				continue
			}
			all[m.Name+"_count"], all[m.Name+"_sum"] = one, one
			one.labels = append(slices.Clone(one.labels), "le")
			all[m.Name+"_bucket"] = one
		}
	}
	return all
}

// exportedByAPIServers has Kubernetes' own code count a webhook that didn't respond, and an
// aggregated API that is down.
func exportedByAPIServers(t *testing.T) map[string]metric {
	t.Helper()
	admission.Metrics.ObserveWebhookRejection(t.Context(), "pods.entrypointer.dev", "admit", "CREATE", admission.WebhookRejectionCallingWebhookError, 0)
	admission.Metrics.ObserveWebhookFailOpen(t.Context(), "taskruns.entrypointer.dev", "admit")
	services, registry := aggregator.New(), metrics.NewKubeRegistry()
	require.NoError(t, services.Register(registry.Register, registry.CustomRegister))
	service := &apiregistration.APIService{}
	service.Name = "v1alpha1.logs.entrypointer.dev"
	services.SetUnavailableGauge(service)
	rejections, err := legacyregistry.DefaultGatherer.Gather()
	require.NoError(t, err)
	unavailable, err := registry.Gather()
	require.NoError(t, err)
	all := map[string]metric{}
	for _, family := range append(rejections, unavailable...) {
		var one metric
		for _, pair := range family.GetMetric()[0].GetLabel() {
			one.labels = append(one.labels, pair.GetName())
			one.values = append(one.values, pair.GetValue())
		}
		all[family.GetName()] = one
	}
	return all
}

func TestEveryMetricThatIsAskedForIsExported(t *testing.T) {
	all := exported(t)
	var expressions []string
	for _, alert := range alerts(t) {
		expressions = append(expressions, alert.Expr)
	}
	for _, expression := range append(expressions, expressionsOfDashboard(t)...) {
		require.NoError(t, check(expression, all), expression)
	}
}

func TestAnExpressionOfSomethingElseIsNoticed(t *testing.T) {
	all := exported(t)
	for expression, want := range map[string]string{
		`sum(entrypointer_pod_decision_total)`:                          "no server exports entrypointer_pod_decision_total",
		`entrypointer_lookup_duration_seconds`:                          "no server exports entrypointer_lookup_duration_seconds",
		`entrypointer_pod_decisions_total{result="Injected"}`:           `entrypointer_pod_decisions_total has no label "result"`,
		`sum by (le) (entrypointer_pod_decision_duration_seconds_sum)`:  `"le" is no label of`,
		`entrypointer_pod_decisions_total{outcome="Inject"}`:            `label "outcome" of entrypointer_pod_decisions_total has no value "Inject"`,
		`entrypointer_pod_decisions_total{outcome=~"Injected|Wrapped"}`: `no value "Wrapped"`,
		`apiserver_admission_webhook_rejection_count{name="other"}`:     `no value "other"`,
		`vector(1)`: "no metric",
	} {
		require.ErrorContains(t, check(expression, all), want)
	}
}

// check checks the names, labels and values in an expression.
func check(expression string, all map[string]metric) error {
	// Grafana puts a duration there.
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(strings.ReplaceAll(expression, "$__rate_interval", "5m"))
	if err != nil {
		return err
	}
	var given, grouping []string
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		switch node := node.(type) {
		case *parser.VectorSelector:
			labels, wrong := checkSelector(node, all)
			given, err = append(given, labels...), errors.Join(err, wrong)
		case *parser.AggregateExpr:
			grouping = append(grouping, node.Grouping...)
		}
		return nil
	})
	if len(given) == 0 && err == nil {
		return errors.New("it asks for no metric")
	}
	for _, label := range grouping {
		if !slices.Contains(given, label) {
			err = errors.Join(err, fmt.Errorf("%q is no label of what is added up", label))
		}
	}
	return err
}

// checkSelector returns the labels that the selected series have.
func checkSelector(selector *parser.VectorSelector, all map[string]metric) (given []string, err error) {
	names := []string{selector.Name}
	for _, matcher := range selector.LabelMatchers {
		if matcher.Name == model.MetricNameLabel {
			names = alternatives(matcher)
		}
	}
	for _, name := range names {
		one, ok := all[name]
		if !ok {
			return nil, fmt.Errorf("no server exports %s", name)
		}
		given = append(append(given, targetLabels...), one.labels...)
		for _, matcher := range selector.LabelMatchers {
			err = errors.Join(err, one.check(name, matcher))
		}
	}
	return given, err
}

func (m metric) check(name string, matcher *labels.Matcher) error {
	if !slices.Contains(m.labels, matcher.Name) {
		if matcher.Name == model.MetricNameLabel || slices.Contains(targetLabels, matcher.Name) {
			return nil
		}
		return fmt.Errorf("%s has no label %q", name, matcher.Name)
	}
	for _, value := range alternatives(matcher) {
		pattern, err := labels.NewFastRegexMatcher(value)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(m.values, pattern.MatchString) {
			return fmt.Errorf("label %q of %s has no value %q", matcher.Name, name, value)
		}
	}
	return nil
}

// alternatives are the values of which a matcher is made.
func alternatives(matcher *labels.Matcher) []string {
	if matcher.Type == labels.MatchEqual || matcher.Type == labels.MatchNotEqual || strings.Contains(matcher.Value, "(") {
		return []string{matcher.Value}
	}
	return strings.Split(matcher.Value, "|")
}
