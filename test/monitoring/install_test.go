// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/yaml"

	"github.com/entrypointer/entrypointer/test/markdown"
)

// An applied object is one of the Prometheus Operator, of either kind.
type applied struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec struct {
		Groups              []any
		Selector            metav1.LabelSelector
		PodMetricsEndpoints []struct{ Port string }
	}
}

func TestThePageAppliesTheAlertsAndThePodMonitors(t *testing.T) {
	var kinds []string
	for _, object := range appliedByPage(t) {
		kinds = append(kinds, object.Kind)
		switch object.Kind {
		case "PrometheusRule":
			content, err := os.ReadFile(rulesFile)
			require.NoError(t, err)
			var rules struct{ Groups []any }
			require.NoError(t, yaml.Unmarshal(content, &rules))
			require.Equal(t, rules.Groups, object.Spec.Groups)
		case "PodMonitor":
			requireSelects(t, object)
		}
		require.Equal(t, "monitoring.coreos.com/v1", object.APIVersion)
	}
	require.Equal(t, []string{"PodMonitor", "PodMonitor", "PrometheusRule"}, kinds)
}

// The API server counts by these names.
func TestTheCasesOfTheAlertsHaveTheNamesThatAreInstalled(t *testing.T) {
	cases, err := os.ReadFile(monitoring + "rules_test.yaml")
	require.NoError(t, err)
	count := 0
	for _, configuration := range documents[admissionregistrationv1.MutatingWebhookConfiguration](t, config+"webhook/600-webhooks.yaml") {
		for _, webhook := range configuration.Webhooks {
			if *webhook.ClientConfig.Service.Path != "/pods" {
				continue
			}
			count++
			counted := `apiserver_admission_webhook_rejection_count{name="` + webhook.Name + `",error_type="calling_webhook_error"}`
			if *webhook.FailurePolicy == admissionregistrationv1.Ignore {
				counted = `apiserver_admission_webhook_fail_open_count{name="` + webhook.Name + `",type="admit"}`
			}
			require.Contains(t, string(cases), counted)
		}
	}
	require.Equal(t, 3, count)
	services := documents[apiregistration.APIService](t, config+"logs/600-apiservice.yaml")
	require.Len(t, services, 1)
	require.Contains(t, string(cases), `aggregator_unavailable_apiservice{name="`+services[0].Name+`",`)
}

// config has the manifests that are installed.
const config = top + "/config/"

// documents returns the objects of a manifest, all of them as if of one type.
func documents[T any](t *testing.T, manifest string) (all []T) {
	t.Helper()
	content, err := os.ReadFile(manifest)
	require.NoError(t, err)
	for document := range strings.SplitSeq(strings.TrimPrefix(string(content), "---\n"), "\n---\n") {
		var object T
		require.NoError(t, yaml.Unmarshal([]byte(document), &object))
		all = append(all, object)
	}
	return all
}

// appliedByPage runs the commands of docs/operations.md that need the Prometheus Operator,
// with a kubectl that prints what it is to apply.
func appliedByPage(t *testing.T) []applied {
	t.Helper()
	blocks, err := markdown.Blocks(operations)
	require.NoError(t, err)
	var left []markdown.Block
	for _, block := range blocks {
		if strings.Contains(block.NotRun, t.Name()) {
			block.NotRun = ""
			left = append(left, block)
		}
	}
	require.Len(t, left, 1)
	directory := t.TempDir()
	file := filepath.Join(directory, "applied.yaml")
	kubectl := "#!/bin/sh\nfor last; do :; done\n{ echo ---; case $last in -) cat;; *) cat \"$last\";; esac; } >>" + file + "\n"
	require.NoError(t, os.WriteFile(filepath.Join(directory, "kubectl"), []byte(kubectl), 0o755))
	shell := markdown.Shell{Directory: top, Environment: append(os.Environ(), "PATH="+directory+":"+os.Getenv("PATH"))}
	require.NoError(t, shell.Run(t.Context(), left))
	return documents[applied](t, file)
}

// requireSelects requires that a PodMonitor selects the pods of a Deployment that is
// installed, at a port that they have.
func requireSelects(t *testing.T, monitor applied) {
	t.Helper()
	manifest := map[string]string{"entrypointer-system": "webhook/500-injector.yaml", "entrypointer-logs": "logs/500-logs.yaml"}[monitor.Namespace]
	selector, err := metav1.LabelSelectorAsSelector(&monitor.Spec.Selector)
	require.NoError(t, err)
	for _, deployment := range documents[appsv1.Deployment](t, config+manifest) {
		if deployment.Kind != "Deployment" {
			continue
		}
		require.True(t, selector.Matches(labels.Set(deployment.Spec.Template.Labels)))
		require.Len(t, monitor.Spec.PodMetricsEndpoints, 1)
		var ports []string
		for _, port := range deployment.Spec.Template.Spec.Containers[0].Ports {
			ports = append(ports, port.Name)
		}
		require.Contains(t, ports, monitor.Spec.PodMetricsEndpoints[0].Port)
		return
	}
	require.Fail(t, "no Deployment", manifest)
}
