// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package chart tests the Helm chart with Helm's own code.
package chart

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/loader/archive"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"sigs.k8s.io/yaml"

	"github.com/entrypointer/entrypointer/charts"
	"github.com/entrypointer/entrypointer/config"
)

// repository is where the images of the charts in the tests are.
const repository = "registry.example/entrypointer"

// files returns the chart as a release has it.
func files(t *testing.T) map[string]string {
	t.Helper()
	files, err := charts.Files("0.1.0", repository, func(manifest string) (string, error) { return released(manifest), nil })
	require.NoError(t, err)
	return files
}

// released puts images of a release into a manifest.
func released(manifest string) string {
	return strings.ReplaceAll(manifest, "ko://github.com/entrypointer/entrypointer/cmd/", repository+"/")
}

func load(t *testing.T) *chartv2.Chart {
	t.Helper()
	var buffered []*archive.BufferedFile
	for name, content := range files(t) {
		buffered = append(buffered, &archive.BufferedFile{Name: strings.TrimPrefix(name, charts.Name+"/"), Data: []byte(content)})
	}
	loaded, err := loader.LoadFiles(buffered)
	require.NoError(t, err)
	return loaded
}

// An object is one that the chart or a manifest has.
type object map[string]any

// at returns a field of an object, nil if there is none.
func (o object) at(fields ...string) any {
	var value any = map[string]any(o)
	for _, field := range fields {
		switch in := value.(type) {
		case map[string]any:
			value = in[field]
		case []any:
			if len(in) == 0 {
				return nil
			}
			value = in[0].(map[string]any)[field]
		default:
			return nil
		}
	}
	return value
}

func (o object) key() string {
	name, _ := o.at("metadata", "name").(string)
	namespace, _ := o.at("metadata", "namespace").(string)
	return o["kind"].(string) + " " + namespace + "/" + name
}

// parse returns the objects of a manifest by kind, namespace and name.
func parse(t *testing.T, manifest string) map[string]object {
	t.Helper()
	objects := map[string]object{}
	for document := range strings.SplitSeq("\n"+manifest, "\n---\n") {
		var o object
		require.NoError(t, yaml.Unmarshal([]byte(document), &o), document)
		if o == nil {
			continue
		}
		require.NotContains(t, objects, o.key(), "twice")
		objects[o.key()] = o
	}
	return objects
}

// render returns what helm template prints.
func render(t *testing.T, values string) (string, error) {
	t.Helper()
	var set map[string]any
	require.NoError(t, yaml.Unmarshal([]byte(values), &set))
	return renderOf(load(t), set)
}

func renderOf(loaded *chartv2.Chart, set map[string]any) (string, error) {
	all, err := util.ToRenderValues(loaded, set, common.ReleaseOptions{Name: "entrypointer", Namespace: "default"}, nil)
	if err != nil {
		return "", err
	}
	rendered, err := engine.Render(loaded, all)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(rendered)) {
		if strings.HasSuffix(name, ".yaml") {
			text.WriteString(rendered[name] + "\n---\n")
		}
	}
	return text.String(), nil
}

func objects(t *testing.T, values string) map[string]object {
	t.Helper()
	text, err := render(t, values)
	require.NoError(t, err)
	return parse(t, text)
}

// manifests returns the objects of the folders of config/.
func manifests(t *testing.T, parts ...string) map[string]object {
	t.Helper()
	all := map[string]object{}
	for _, part := range parts {
		names, err := fs.Glob(config.Manifests, part+"/*.yaml")
		require.NoError(t, err)
		require.NotEmpty(t, names)
		for _, name := range names {
			text, err := config.Manifests.ReadFile(name)
			require.NoError(t, err)
			maps.Copy(all, parse(t, config.WithVersion(released(string(text)), "v0.1.0")))
		}
	}
	return all
}

func TestWithoutValuesTheChartHasTheObjectsOfTheManifests(t *testing.T) {
	require.Equal(t, manifests(t, "webhook", "auto"), objects(t, ""))
	require.Equal(t, manifests(t, "webhook", "auto", "claims", "outage", "logs", "network-policy"),
		objects(t, "parts: {claims: true, outage: true, logs: true, network-policy: true}"))
	require.Equal(t, manifests(t, "logs"), objects(t, "parts: {webhook: false, auto: false, logs: true}"))
}

func TestTheChartIsRenderedTheSameEveryTime(t *testing.T) {
	const values = "parts: {claims: true, logs: true}\nmonitoring: {rules: true, podMonitors: true, dashboard: true}\ncommonLabels: {b: b, a: a}"
	first, err := render(t, values)
	require.NoError(t, err)
	for range 5 {
		again, err := render(t, values)
		require.NoError(t, err)
		require.Equal(t, first, again)
	}
	for name, content := range files(t) {
		if strings.Contains(name, "/templates/") {
			require.NotRegexp(t, `\b(lookup|rand\w+|gen\w+|now|uuidv4|Release\.Revision)\b`, content, "GitOps renders without a cluster, and compares: "+name)
		}
	}
}

const (
	injector = "Deployment entrypointer-system/injector"
	logs     = "Deployment entrypointer-logs/logs"
	pods     = "MutatingWebhookConfiguration /pods.entrypointer.dev"
)

// Each value of values.yaml is set here, and changes the field that it names.
func TestEachValueHasAnEffect(t *testing.T) {
	template := []string{"spec", "template", "spec"}
	in := func(fields ...string) []string { return append(slices.Clone(template), fields...) }
	tests := map[string]struct {
		values string
		of     string
		field  []string
		want   string
	}{
		"image.repository":                            {"image: {repository: mirror.example/e/}", injector, in("containers", "image"), "mirror.example/e/injector"},
		"image.repository for the policies":           {"image: {repository: mirror.example/e}", "Namespace /entrypointer-system", []string{"metadata", "annotations", "entrypointer-copier-with-logs-image"}, "mirror.example/e/withlogs/copier"},
		"image.pullPolicy":                            {"image: {pullPolicy: Always}", injector, in("containers", "imagePullPolicy"), "Always"},
		"image.pullSecrets":                           {"image: {pullSecrets: [{name: registry}]}", injector, in("imagePullSecrets"), "[{name: registry}]"},
		"config":                                      {"config: {delivery: auto}", "ConfigMap entrypointer-system/config-entrypointer", []string{"data", "delivery"}, "auto"},
		"injector.replicas":                           {"injector: {replicas: 3}", injector, []string{"spec", "replicas"}, "3"},
		"injector.replicas of zero":                   {"injector: {replicas: 0}", injector, []string{"spec", "replicas"}, "0"},
		"injector.resources":                          {"injector: {resources: {limits: {memory: 1Gi}}}", injector, in("containers", "resources"), "{limits: {memory: 1Gi}}"},
		"injector.priorityClassName":                  {"injector: {priorityClassName: high}", injector, in("priorityClassName"), "high"},
		"injector.affinity":                           {"injector: {affinity: {podAffinity: {}}}", injector, in("affinity"), "{podAffinity: {}}"},
		"injector.nodeSelector":                       {"injector: {nodeSelector: {a: b}}", injector, in("nodeSelector"), "{a: b}"},
		"injector.tolerations":                        {"injector: {tolerations: [{operator: Exists}]}", injector, in("tolerations"), "[{operator: Exists}]"},
		"injector.topologySpreadConstraints":          {"injector: {topologySpreadConstraints: [{maxSkew: 2}]}", injector, in("topologySpreadConstraints"), "[{maxSkew: 2}]"},
		"injector.podLabels":                          {"injector: {podLabels: {team: a}}", injector, []string{"spec", "template", "metadata", "labels", "team"}, "a"},
		"injector.podAnnotations":                     {"injector: {podAnnotations: {a: b}}", injector, []string{"spec", "template", "metadata", "annotations"}, "{a: b}"},
		"injector.serviceAccountAnnotations":          {"injector: {serviceAccountAnnotations: {a: b}}", "ServiceAccount entrypointer-system/injector", []string{"metadata", "annotations"}, "{a: b}"},
		"injector.podDisruptionBudget.minAvailable":   {"injector: {podDisruptionBudget: {minAvailable: 2}}", "PodDisruptionBudget entrypointer-system/injector", []string{"spec", "minAvailable"}, "2"},
		"webhook.failurePolicy":                       {"webhook: {failurePolicy: Ignore}", pods, []string{"webhooks", "failurePolicy"}, "Ignore"},
		"webhook.timeoutSeconds":                      {"webhook: {timeoutSeconds: 5}", pods, []string{"webhooks", "timeoutSeconds"}, "5"},
		"webhook.certificateSecret":                   {"webhook: {certificateSecret: mine}\ninjector: {extraArgs: [-a]}", injector, in("containers", "args"), withCertificate(t)},
		"logs.replicas":                               {"parts: {logs: true}\nlogs: {replicas: 0}", logs, []string{"spec", "replicas"}, "0"},
		"logs.resources":                              {"parts: {logs: true}\nlogs: {resources: {limits: {memory: 1Gi}}}", logs, in("containers", "resources"), "{limits: {memory: 1Gi}}"},
		"logs.extraArgs":                              {"parts: {logs: true}\nlogs: {extraArgs: [-export-otlp, URL]}", logs, in("containers", "args"), "[-directory, /var/lib/logs, -export-otlp, URL]"},
		"logs.page.enabled":                           {"parts: {logs: true}\nlogs: {page: {enabled: true}}", "Service entrypointer-logs/page", []string{"spec", "ports"}, "[{name: page, port: 443, targetPort: page}]"},
		"logs.page.disk":                              {"parts: {logs: true}\nlogs: {bucket: \"s3://a\", extraArgs: [-a], page: {enabled: true, disk: 4Gi}}", logs, in("containers", "args"), "[-bucket, \"s3://a\", -a, \"-listen-page=:8445\", -page-disk=4Gi]"},
		"logs.page has a volume":                      {"parts: {logs: true}\nlogs: {bucket: \"s3://a\", page: {enabled: true}}", logs, in("containers", "volumeMounts"), "[{name: page, mountPath: /tmp}]"},
		"logs.config":                                 {"parts: {logs: true}\nlogs: {config: {retention: 90d}}", "ConfigMap entrypointer-logs/config-logs", []string{"data", "retention"}, "90d"},
		"logs.volume.size":                            {"parts: {logs: true}\nlogs: {volume: {size: 100Gi}}", "PersistentVolumeClaim entrypointer-logs/logs", []string{"spec", "resources", "requests", "storage"}, "100Gi"},
		"logs.volume.storageClassName":                {"parts: {logs: true}\nlogs: {volume: {storageClassName: fast}}", "PersistentVolumeClaim entrypointer-logs/logs", []string{"spec", "storageClassName"}, "fast"},
		"logs.volume.existingClaim":                   {"parts: {logs: true}\nlogs: {volume: {existingClaim: mine}}", logs, in("volumes", "persistentVolumeClaim", "claimName"), "mine"},
		"logs.bucket":                                 {"parts: {logs: true}\nlogs: {bucket: \"s3://a?region=b\"}", logs, in("containers", "args"), "[-bucket, \"s3://a?region=b\"]"},
		"logs.bucket and arguments":                   {"parts: {logs: true}\nlogs: {bucket: \"s3://a\", extraArgs: [-a]}", logs, in("containers", "args"), "[-bucket, \"s3://a\", -a]"},
		"logs.bucket has several replicas":            {"parts: {logs: true}\nlogs: {bucket: \"s3://a\"}", logs, []string{"spec", "replicas"}, "3"},
		"logs.bucket needs no volume":                 {"parts: {logs: true}\nlogs: {bucket: \"s3://a\"}", logs, in("volumes"), "null"},
		"logs.bucketSecret":                           {"parts: {logs: true}\nlogs: {bucket: \"s3://a\", bucketSecret: b}", logs, in("containers", "envFrom"), "[{secretRef: {name: b}}]"},
		"logs.extraEnv":                               {"parts: {logs: true}\nlogs: {extraEnv: [{name: A, value: b}]}", logs, in("containers", "env"), "[{name: GOMEMLIMIT, value: 400MiB}, {name: A, value: b}]"},
		"commonLabels":                                {"commonLabels: {team: a}", pods, []string{"metadata", "labels", "team"}, "a"},
		"commonAnnotations":                           {"commonAnnotations: {a: b}", "ConfigMap entrypointer-system/config-entrypointer", []string{"metadata", "annotations", "a"}, "b"},
		"commonLabels leave ours alone":               {"commonLabels: {app.kubernetes.io/part-of: a}", pods, []string{"metadata", "labels"}, "{app.kubernetes.io/part-of: entrypointer, app.kubernetes.io/version: v0.1.0}"},
		"networkPolicy.podRanges":                     {"parts: {network-policy: true}\nnetworkPolicy: {podRanges: [10.1.0.0/16, \"fd00::/64\"]}", "NetworkPolicy entrypointer-system/injector", []string{"spec", "ingress", "from", "ipBlock", "except"}, "[10.1.0.0/16]"},
		"monitoring.podMonitors":                      {"monitoring: {podMonitors: true}", "PodMonitor entrypointer-system/injector", []string{"spec", "podMetricsEndpoints"}, "[{port: metrics}]"},
		"monitoring.rules":                            {"monitoring: {rules: true}", "PrometheusRule entrypointer-system/entrypointer", []string{"spec", "groups", "name"}, "entrypointer-injector"},
		"monitoring.dashboard":                        {"monitoring: {dashboard: true}", "ConfigMap entrypointer-system/entrypointer-dashboard", []string{"metadata", "labels", "grafana_dashboard"}, "\"1\""},
		"webhook.namespaceSelector.matchExpressions":  {"webhook: {namespaceSelector: {matchExpressions: [{key: a, operator: Exists}]}}", pods, []string{"webhooks", "namespaceSelector", "matchExpressions"}, "[{key: kubernetes.io/metadata.name, operator: NotIn, values: [kube-system, entrypointer-system]}, {key: a, operator: Exists}]"},
		"webhook.namespaceSelector in a policy":       {"parts: {outage: true}\nwebhook: {namespaceSelector: {matchExpressions: [{key: a, operator: Exists}]}}", "MutatingAdmissionPolicy /taskruns.entrypointer.dev", []string{"spec", "matchConstraints", "namespaceSelector", "matchExpressions"}, "[{key: entrypointer.dev/inject, operator: In, values: [\"true\", all]}, {key: kubernetes.io/metadata.name, operator: NotIn, values: [kube-system, entrypointer-system]}, {key: a, operator: Exists}]"},
		"logs.serviceAccountAnnotations":              {"parts: {logs: true}\nlogs: {serviceAccountAnnotations: {a: b}}", "ServiceAccount entrypointer-logs/logs", []string{"metadata", "annotations"}, "{a: b}"},
		"logs.topologySpreadConstraints and a bucket": {"parts: {logs: true}\nlogs: {bucket: \"s3://a\", topologySpreadConstraints: [{maxSkew: 2}]}", logs, in("topologySpreadConstraints"), "[{maxSkew: 2}]"},
	}
	for name, test := range tests {
		var want any
		require.NoError(t, yaml.Unmarshal([]byte(test.want), &want))
		all := objects(t, test.values)
		require.Contains(t, all, test.of, name)
		require.Equal(t, want, all[test.of].at(test.field...), name)
	}
	names := slices.Collect(maps.Keys(tests))
	for section, values := range load(t).Values {
		fields, _ := values.(map[string]any)
		if section == "parts" {
			continue // TestWithoutValuesTheChartHasTheObjectsOfTheManifests
		}
		if len(fields) == 0 {
			require.Contains(t, names, section)
		}
		for field := range fields {
			// One template serves both Deployments.
			require.True(t, slices.ContainsFunc(names, func(name string) bool {
				return strings.HasPrefix(name, section+"."+field) || section == "injector" && strings.HasPrefix(name, "logs."+field) || section == "logs" && strings.HasPrefix(name, "injector."+field)
			}), "no test sets %s.%s", section, field)
		}
	}
}

// withCertificate returns the injector's arguments with those of a Secret.
func withCertificate(t *testing.T) string {
	t.Helper()
	args, _ := objects(t, "")[injector].at("spec", "template", "spec", "containers", "args").([]any)
	text, err := yaml.Marshal(append(args, "-a", "-certificate-secret", "mine"))
	require.NoError(t, err)
	return string(text)
}

// parts.outage has them wait.
func TestTheFailurePolicyIsNotThatOfTaskRunsThatMayWait(t *testing.T) {
	for value, want := range map[string][]string{"": {"Fail", "Fail", "Ignore"}, "Fail": {"Fail", "Fail", "Ignore"}, "Ignore": {"Ignore", "Ignore", "Ignore"}} {
		var have []string
		webhooks, _ := objects(t, "webhook: {failurePolicy: \""+value+"\"}")[pods].at("webhooks").([]any)
		for _, webhook := range webhooks {
			have = append(have, fmt.Sprint(webhook.(map[string]any)["failurePolicy"]))
		}
		require.Equal(t, want, have, value)
	}
}

func TestPartsOfTheChartAreLeftOut(t *testing.T) {
	const budget = "PodDisruptionBudget entrypointer-system/injector"
	require.Contains(t, objects(t, ""), budget)
	require.NotContains(t, objects(t, "injector: {podDisruptionBudget: {enabled: false}}"), budget)
	const claim = "PersistentVolumeClaim entrypointer-logs/logs"
	require.NotContains(t, objects(t, "parts: {logs: true}\nlogs: {bucket: \"s3://a\"}"), claim)
	require.Contains(t, objects(t, "parts: {logs: true}\nlogs: {bucket: \"s3://a\"}"), "PodDisruptionBudget entrypointer-logs/logs")
	require.NotContains(t, objects(t, "parts: {logs: true}\nlogs: {volume: {existingClaim: mine}}"), claim)
	require.NotContains(t, objects(t, "monitoring: {podMonitors: true}"), "PodMonitor entrypointer-logs/logs", "there is no log service")
}

func TestValuesThatDoNothingAreRefused(t *testing.T) {
	for name, test := range map[string]struct{ values, want string }{
		"a misspelt name":                 {"injector: {replica: 2}", "additional properties 'replica' not allowed"},
		"a misspelt part":                 {"parts: {log: true}", "additional properties 'log' not allowed"},
		"a number of replicas as a word":  {"injector: {replicas: two}", "/injector/replicas"},
		"an unknown failure policy":       {"webhook: {failurePolicy: Retry}", "/webhook/failurePolicy"},
		"a timeout beyond the API's":      {"webhook: {timeoutSeconds: 60}", "/webhook/timeoutSeconds"},
		"a configuration that isn't text": {"config: {lookup-timeout: 3}", "/config/lookup-timeout"},
		"a Secret's name that is none":    {"webhook: {certificateSecret: My Secret}", "/webhook/certificateSecret"},
		"a range that is none":            {"networkPolicy: {podRanges: [pods]}", "/networkPolicy/podRanges/0"},
		"replicas with one volume":        {"parts: {logs: true}\nlogs: {replicas: 2}", "several replicas need logs.bucket"},
		"credentials of no bucket":        {"parts: {logs: true}\nlogs: {bucketSecret: a}", "set logs.bucket as well"},
	} {
		_, err := render(t, test.values)
		require.ErrorContains(t, err, test.want, name)
	}
}

func TestHelmsLinterHasNothingToSay(t *testing.T) {
	folder := t.TempDir()
	for name, content := range files(t) {
		file := filepath.Join(folder, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o750))
		require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
	}
	for _, message := range lint.RunAll(filepath.Join(folder, charts.Name), nil, "default").Messages {
		require.Equal(t, "[INFO] Chart.yaml: icon is recommended", message.Error())
	}
}

func TestTheChartNamesItsVersion(t *testing.T) {
	about := load(t).Metadata
	require.Equal(t, "0.1.0", about.Version)
	require.Equal(t, "v0.1.0", about.AppVersion)
	require.Equal(t, repository, about.Annotations["entrypointer.dev/images"])
	for key, o := range objects(t, "parts: {claims: true, logs: true, network-policy: true}\nlogs: {bucket: \"s3://a\"}\nmonitoring: {rules: true, podMonitors: true, dashboard: true}") {
		require.Equal(t, "v0.1.0", o.at("metadata", "labels", config.VersionLabel), key)
		selector, _ := o.at("spec", "selector").(map[string]any)
		matched, _ := selector["matchLabels"].(map[string]any)
		require.NotContains(t, selector, config.VersionLabel, key)
		require.NotContains(t, matched, config.VersionLabel, "an upgrade would lose the pods of "+key)
	}
}

func TestTheChartOfACheckoutNamesNoVersion(t *testing.T) {
	loaded := load(t)
	loaded.Metadata.AppVersion = "devel"
	rendered, err := renderOf(loaded, nil)
	require.NoError(t, err)
	require.NotContains(t, rendered, config.VersionLabel)
}
