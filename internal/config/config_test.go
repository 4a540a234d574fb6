// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"knative.dev/pkg/configmap"
	logtesting "knative.dev/pkg/logging/testing"
	"sigs.k8s.io/yaml"

	"github.com/entrypointer/entrypointer/internal/config"
	"github.com/entrypointer/entrypointer/internal/metricstest"
	"github.com/entrypointer/entrypointer/pkg/lookup"
	"github.com/entrypointer/entrypointer/pkg/pod"
)

// shipped is the ConfigMap that users install.
func shipped(t *testing.T) *corev1.ConfigMap {
	t.Helper()
	file, err := os.ReadFile("../../config/webhook/300-config-entrypointer.yaml")
	require.NoError(t, err)
	var cm corev1.ConfigMap
	require.NoError(t, yaml.UnmarshalStrict(file, &cm))
	return &cm
}

func TestTheShippedExampleShowsTheDefaults(t *testing.T) {
	cm := shipped(t)
	require.Equal(t, config.Name, cm.Name)
	example := cm.Data[configmap.ExampleKey]
	require.Equal(t, configmap.Checksum(example), cm.Annotations[configmap.ExampleChecksumAnnotation],
		"correct the annotation when the example changes")

	defaults, err := config.FromConfigMap(cm)
	require.NoError(t, err)
	require.Equal(t, &config.Config{LookupTimeout: 3 * time.Second, Policy: pod.Policy{Delivery: pod.DeliveryInitContainer}}, defaults)

	var shown map[string]string
	require.NoError(t, yaml.Unmarshal([]byte(example), &shown))
	explicit, err := config.FromConfigMap(&corev1.ConfigMap{Data: shown})
	require.NoError(t, err)
	require.Equal(t, pod.DefaultProxies(), explicit.Policy.Proxies)
	require.Equal(t, []pod.Owner{pod.Tekton, pod.Knative, pod.Asking}, explicit.Policy.Owners)
	explicit.Policy.Proxies, explicit.Policy.Owners = nil, nil
	require.Equal(t, defaults, explicit)

	_, err = config.FromConfigMap(&corev1.ConfigMap{Data: map[string]string{"unknown": ""}})
	require.ErrorContains(t, err, "the keys are "+strings.Join(slices.Sorted(maps.Keys(shown)), ", ")+" and ",
		"the example shows every key there is")
}

// testCA is self-signed and nobody's.
const testCA = `-----BEGIN CERTIFICATE-----
MIIBezCCASGgAwIBAgIUciizpPtkcR+doAA8RJsaBOjFdJMwCgYIKoZIzj0EAwIw
EjEQMA4GA1UEAwwHdGVzdCBDQTAgFw0yNjExMjExMzMyMjZaGA8yMTI2MTAyODEz
MzIyNlowEjEQMA4GA1UEAwwHdGVzdCBDQTBZMBMGByqGSM49AgEGCCqGSM49AwEH
A0IABGPklADS6jXd0LROf2idr40v9OvjOylY8agkEYXi0VJfLg819b+v9vKiXTXd
njNoIcmInavEB0Tg/AN9r3Mmdj6jUzBRMB0GA1UdDgQWBBSJNGipjbu+9+kx6w7s
AVSF9qeYOzAfBgNVHSMEGDAWgBSJNGipjbu+9+kx6w7sAVSF9qeYOzAPBgNVHRMB
Af8EBTADAQH/MAoGCCqGSM49BAMCA0gAMEUCIGStISEyaOCvZZZYzcDcaxnGmXAd
nYC9z8bKUeZXHnwGAiEAnrLErMYkVwgElAtXoiuS8H4h9Sc9L+TMnZRvG1bGrLY=
-----END CERTIFICATE-----
`

func TestEachKeyIsRead(t *testing.T) {
	got, err := config.FromConfigMap(&corev1.ConfigMap{Data: map[string]string{
		"delivery":                  "image-volume",
		"lookup-timeout":            "250ms",
		"failed-lookup":             "admit",
		"pod-opt-out":               "forbidden",
		"unsent-logs":               "refuse",
		"status-version":            "included",
		"pod-owners":                "Tekton,Knative",
		"pod-options":               "mode, pause",
		"proxy-containers":          "",
		"shared-kernel-classes":     "nvidia, crun.example",
		"allowed-registries":        "docker.io\n*.example, registry.example:5000/team",
		"allowed-registries.team-a": "ghcr.io/team-a",
		"private-addresses":         "forbidden",
		"registry-mirrors":          "docker.io: [mirror.example:5000, harbor.example/hub]",
		"registry-ca":               testCA,
		"defaults":                  "timeout: 1h\nhand-off: false",
		"static-images":             "tools/build:1:\n  entrypoint: [/build]\n  cmd: [--help]\n",
		"tools":                     "yq: {image: " + toolImage + ", path: /usr/bin/yq}\nni: {image: " + toolImage + ", path: /ko-app/ni}",
	}})
	require.NoError(t, err)
	require.Equal(t, &config.Config{
		LookupTimeout:   250 * time.Millisecond,
		VersionInStatus: true,
		Policy: pod.Policy{
			Delivery: pod.DeliveryImageVolume, ForbidOptOut: true, WaiveFailedLookups: true, RefuseUnsentLogs: true,
			Owners: []pod.Owner{pod.Tekton, pod.Knative}, Proxies: []string{}, SharedKernelClasses: []string{"nvidia", "crun.example"}, PodOptions: []string{"mode", "pause"},
		},
		Lookup: lookup.Options{
			Allowed: lookup.AllowList{
				Everywhere: []lookup.Pattern{pattern(t, "docker.io"), pattern(t, "*.example"), pattern(t, "registry.example:5000/team")},
				Namespaces: map[string][]lookup.Pattern{"team-a": {pattern(t, "ghcr.io/team-a")}},
			},
			Static:                 lookup.StaticImages{"index.docker.io/tools/build:1": {Entrypoint: []string{"/build"}, Cmd: []string{"--help"}}},
			Mirrors:                lookup.Mirrors{"index.docker.io": {"mirror.example:5000", "harbor.example/hub"}},
			Certificates:           strings.TrimSpace(testCA),
			ForbidPrivateAddresses: true,
		},
		Defaults: pod.Defaults{Source: "as the operator has it by default", Values: map[string]string{"timeout": "1h", "hand-off": "false"}},
		Tools:    []pod.Tool{{Name: "ni", Image: toolImage, Path: "/ko-app/ni"}, {Name: "yq", Image: toolImage, Path: "/usr/bin/yq"}},
	}, got)
}

var toolImage = "ghcr.io/team-a/tools@sha256:" + strings.Repeat("6", 64)

func pattern(t *testing.T, text string) lookup.Pattern {
	t.Helper()
	parsed, err := lookup.ParsePattern(text)
	require.NoError(t, err)
	return parsed
}

func TestTheShortestAndTheLongestLookupTimeoutAreGood(t *testing.T) {
	for _, value := range []string{"100ms", "3s"} {
		got, err := config.FromConfigMap(&corev1.ConfigMap{Data: map[string]string{"lookup-timeout": value}})
		require.NoError(t, err)
		require.Equal(t, value, got.LookupTimeout.String())
	}
}

func TestAnInvalidValueIsRefusedWithTheValidValues(t *testing.T) {
	for _, test := range []struct{ key, value, says string }{
		{"lookup-timeout", "99ms", `key "lookup-timeout": "99ms" is not a duration from 100ms to 3s`},
		{"lookup-timeout", "3001ms", `key "lookup-timeout": "3001ms" is not a duration from 100ms to 3s`},
		{"lookup-timeout", "1m", `key "lookup-timeout": "1m" is not a duration from 100ms to 3s`},
		{"delivery", "sidecar", fmt.Sprintf(`key "delivery": "sidecar" is none of %q`, pod.Deliveries())},
		{"failed-lookup", "admitt", `"admitt" is neither "refuse" nor "admit"; did you mean "admit"?`},
		{"delivery", "claims", `did you mean "claim"?`},
		{"failed-lookup", "ignore", `key "failed-lookup": "ignore" is neither "refuse" nor "admit"`},
		{"status-version", "yes", `key "status-version": "yes" is neither "omitted" nor "included"`},
		{"unsent-logs", "forbidden", `key "unsent-logs": "forbidden" is neither "admit" nor "refuse"`},
		{"pod-opt-out", "", `key "pod-opt-out": "" is neither "allowed" nor "forbidden"`},
		{"pod-owners", "tekton", fmt.Sprintf(`key "pod-owners": "tekton" is none of %q; did you mean "Tekton"?`, pod.Owners())},
		{"proxy-containers", "istio_proxy", `key "proxy-containers": "istio_proxy" is no name of a container`},
		{"shared-kernel-classes", "nvidia, Kata_1", `key "shared-kernel-classes": "Kata_1" is no name of a runtime class`},
		{"allowed-registries", "https://docker.io", `key "allowed-registries": "https://docker.io" is no registry, such as`},
		{"allowed-registries.Team_A", "docker.io", `"Team_A" is no name of a namespace`},
		{"private-addresses", "no", `"no" is neither "allowed" nor "forbidden"`},
		{"registry-mirrors", "docker.io: mirror.example", `key "registry-mirrors": it is no YAML of the form`},
		{"registry-mirrors", "docker.io: [https://mirror.example]", `"https://mirror.example" is no mirror, such as`},
		{"registry-mirrors", "docker.io/library: [mirror.example]", `"docker.io/library" is no registry, such as`},
		{"registry-ca", "secret", `key "registry-ca": the text contains no certificate`},
		{"api-server-ca", "secret", `key "api-server-ca": the text contains no certificate`},
		{"static-images", "app: [run]", `key "static-images": it is no YAML of the form`},
		{"static-images", "app: {command: [run]}", `unknown field`},
		{"static-images", "app: {}", `image "app" has neither entrypoint nor cmd`},
		{"pod-options", "modes", `key "pod-options": "modes" is no option; did you mean "mode"?`},
		{"pod-options", "colour", `key "pod-options": "colour" is no option; use "all", or a list, which may be empty, of mode, hand-off, `},
		{"defaults", "timeout: [1h]", `key "defaults": it is no YAML of the form`},
		{"defaults", "timeout: 1x", `key "defaults": option entrypointer.dev/timeout: "1x" is wrong; it can be a duration above zero with a unit`},
		{"defaults", "timout: 1h", `key "defaults": option "timout" is unknown; did you mean "timeout"?`},
		{"defaults", "colour: red", `key "defaults": option "colour" is unknown; the options are mode, hand-off, `},
		{"defaults", "mode: exce", `"exce" is wrong; it can be "supervise" or "exec"; did you mean "exec"?`},
		{"defaults", "{mode: exec, timeout: 1h}", `option entrypointer.dev/timeout: it contradicts option entrypointer.dev/mode: exec`},
		{"tools", "ni", `key "tools": it is no YAML of the form "ni: {image: registry.example/ni@sha256:..., path: /ko-app/ni}"`},
		{"tools", "ni: {image: a, path: /ni, args: [x]}", "unknown field"},
		{"tools", "ni: {image: ni:1, path: /ni}", `key "tools": tool "ni": image "ni:1" has no digest, without which its content may change; write index.docker.io/library/ni@sha256:...`},
		{"tools", "Ni: {image: " + toolImage + ", path: /ni}", `tool "Ni": name "Ni": a tool's name has`},
		{"tools", "ni: {image: " + toolImage + ", path: ni}", `tool "ni": path "ni" can't be a program's path in an image`},
		{"tools", "ni: {image: " + toolImage + "}", `path "" can't be a program's path`},
		{"tools", "ni: {image: " + toolImage + ", path: /ni}\nni: {image: " + toolImage + ", path: /other}", `key "ni" already set in map`},
		{"tools", many(17), "the key has 17 tools, and 16 is the most; remove some"},
		{"lookup-timout", "1s", `key "lookup-timout": it is unknown; did you mean "lookup-timeout"?`},
		{"allowed-registry", "ghcr.io", `it is unknown; the keys are allowed-registries, api-server-ca, defaults, delivery, failed-lookup, lookup-timeout, `},
		{"allowed-registrys.team-a", "ghcr.io", `it is unknown; did you mean "allowed-registries.team-a"?`},
	} {
		_, err := config.FromConfigMap(&corev1.ConfigMap{Data: map[string]string{test.key: test.value}})
		require.ErrorContains(t, err, test.says)
	}
}

// many are so many tools.
func many(tools int) string {
	var b strings.Builder
	for i := range tools {
		fmt.Fprintf(&b, "tool-%d: {image: %s, path: /tool}\n", i, toolImage)
	}
	return b.String()
}

func TestToolsThatNoPodCouldHave(t *testing.T) {
	tools := "ni: {image: " + toolImage + ", path: /ni}"
	for name, test := range map[string]struct {
		data map[string]string
		says string // "" if it is good
		when string // what an injector that starts with it does
	}{
		"as many as there can be":          {map[string]string{"tools": many(16)}, "", ""},
		"of a registry that isn't allowed": {map[string]string{"tools": tools, "allowed-registries": "docker.io"}, `key "tools": tool "ni": no key allowed-registries allows image "` + toolImage + `" in any namespace; add its registry there, or remove the tool`, "no pod gets it"},
		"of one that some may use":         {map[string]string{"tools": tools, "allowed-registries.team-a": "ghcr.io"}, "", ""},
		"of one that all may use":          {map[string]string{"tools": tools, "allowed-registries": "ghcr.io/team-a"}, "", ""},
		"defaults of one":                  {map[string]string{"tools": tools, "defaults": "tools: ni"}, "", ""},
		"defaults of none":                 {map[string]string{"tools": tools, "defaults": "tools: none"}, "", ""},
		"defaults of another":              {map[string]string{"tools": tools, "defaults": "tools: ni, yq"}, `key "defaults": tools: there is no tool "yq"; key "tools" has [ni]`, "pods run without it, and are warned"},
		"defaults that are wrong":          {map[string]string{"tools": tools, "defaults": "tools: /ni"}, `option entrypointer.dev/tools: "/ni" is wrong`, "its default is in force"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := config.FromConfigMap(&corev1.ConfigMap{Data: test.data})
			got, logged := started(t, test.data)
			require.NotEmpty(t, got.Tools)
			if test.says == "" {
				require.NoError(t, err)
				require.Empty(t, logged)
				return
			}
			require.ErrorContains(t, err, test.says)
			require.Len(t, logged, 1)
			require.Contains(t, logged[0], test.when)
		})
	}
}

func FuzzConfig(f *testing.F) {
	f.Add("lookup-timeout", "1s")
	f.Add("allowed-registries.team-a", "*.example, docker.io/library")
	f.Add("registry-mirrors", "docker.io: [mirror.example:5000]")
	f.Add("static-images", "app:1: {entrypoint: [run]}")
	f.Add("registry-ca", testCA)
	f.Add("pod-owners", "Tekton")
	f.Add("tools", "ni: {image: "+toolImage+", path: /ni}")
	f.Fuzz(func(t *testing.T, key, value string) {
		read, err := config.FromConfigMap(&corev1.ConfigMap{Data: map[string]string{key: value}})
		if err != nil {
			return
		}
		if read.LookupTimeout <= 0 || read.LookupTimeout > config.MaxLookupTimeout {
			t.Fatalf("lookup-timeout is %v", read.LookupTimeout)
		}
		if _, err := lookup.New(nil, read.Lookup, read.LookupTimeout); err != nil {
			t.Fatalf("what was accepted can't be used: %v", err)
		}
	})
}

// started is the configuration of an injector that finds these keys when it
// starts, and what it logs at error.
func started(t *testing.T, data map[string]string) (*config.Config, []string) {
	t.Helper()
	core, logged := observer.New(zapcore.ErrorLevel)
	watcher := &configmap.ManualWatcher{}
	store := &config.Store{}
	store.Watch(zap.New(core).Sugar(), watcher)
	watcher.OnChange(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: config.Name}, Data: data})
	var messages []string
	for _, entry := range logged.All() {
		messages = append(messages, entry.Message)
	}
	return store.Load(), messages
}

func TestAnInjectorThatStartsWithAValueThatItCanNotReadTakesTheSafeOne(t *testing.T) {
	nobody := map[string][]lookup.Pattern{"": nil}
	for _, test := range []struct {
		key, value string
		strict     bool
		want       func(*config.Config)
	}{
		{"delivery", "sidecar", false, nil},
		{"lookup-timeout", "1m", false, nil},
		{"failed-lookup", "ignore", false, nil},
		{"pod-owners", "Tekton, Flux", false, nil},
		{"proxy-containers", "istio_proxy", false, nil},
		{"registry-mirrors", "docker.io: mirror.example", false, nil},
		{"registry-mirrors", "docker.io: [mirror.example]\nquay.io: [https://mirror.example]", false, nil},
		{"registry-ca", "secret", false, nil},
		{"api-server-ca", "secret", false, nil},
		{"static-images", "app: {}", false, nil},
		{"defaults", "timeout: 1x", false, nil},
		{"tools", "ni: {image: ni, path: /ni}", false, nil},
		{"pod-opt-out", "no", true, func(c *config.Config) { c.Policy.ForbidOptOut = true }},
		{"unsent-logs", "no", true, func(c *config.Config) { c.Policy.RefuseUnsentLogs = true }},
		{"pod-options", "mode, modes", true, func(c *config.Config) { c.Policy.PodOptions = []string{} }},
		{"private-addresses", "no", true, func(c *config.Config) { c.Lookup.ForbidPrivateAddresses = true }},
		{"allowed-registries", "https://docker.io", true, func(c *config.Config) { c.Lookup.Allowed.Namespaces = nobody }},
		{"allowed-registries", "docker.io, https://ghcr.io", true, func(c *config.Config) {
			c.Lookup.Allowed = lookup.AllowList{Everywhere: []lookup.Pattern{pattern(t, "docker.io")}, Namespaces: nobody}
		}},
		{"allowed-registries.team-a", "ghcr.io, https://docker.io", true, func(c *config.Config) {
			c.Lookup.Allowed.Namespaces = map[string][]lookup.Pattern{"team-a": {pattern(t, "ghcr.io")}}
		}},
		{"allowed-registries.Team_A", "docker.io", true, func(c *config.Config) {
			c.Lookup.Allowed.Namespaces = map[string][]lookup.Pattern{"Team_A": nil}
		}},
	} {
		t.Run(test.key, func(t *testing.T) {
			want := &config.Config{LookupTimeout: config.MaxLookupTimeout, Policy: pod.Policy{Delivery: pod.DeliveryInitContainer}}
			if test.want != nil {
				test.want(want)
			}
			got, logged := started(t, map[string]string{test.key: test.value})
			require.Equal(t, want, got)
			require.Len(t, logged, 1)
			require.Contains(t, logged[0], `key "`+test.key+`"`)
			instead := "its default is in force"
			if test.strict {
				instead = "its strictest value is in force"
			}
			require.Contains(t, logged[0], instead)
		})
	}
}

func TestAnInjectorThatStartsWithAKeyOfAnotherReleaseSkipsIt(t *testing.T) {
	got, logged := started(t, map[string]string{"log-service": "https://logs.example", "pod-opt-out": "forbidden"})
	require.Equal(t, &config.Config{LookupTimeout: config.MaxLookupTimeout, Policy: pod.Policy{Delivery: pod.DeliveryInitContainer, ForbidOptOut: true}}, got)
	require.Len(t, logged, 1)
	require.Contains(t, logged[0], `key "log-service": it is unknown`)
	require.Contains(t, logged[0], "it is skipped")
}

func TestAllThatIsWrongIsReportedAtOnce(t *testing.T) {
	data := map[string]string{"pod-opt-out": "no", "delivery": "sidecar", "log-service": "x", "lookup-timeout": "1s"}
	got, logged := started(t, data)
	require.Equal(t, &config.Config{LookupTimeout: time.Second, Policy: pod.Policy{Delivery: pod.DeliveryInitContainer, ForbidOptOut: true}}, got)
	require.Len(t, logged, 3)
	_, err := config.FromConfigMap(&corev1.ConfigMap{Data: data})
	for _, key := range []string{"pod-opt-out", "delivery", "log-service"} {
		require.ErrorContains(t, err, `key "`+key+`"`)
	}
}

func TestTheMetricCountsTheKeysThatAreNotInForceAsWritten(t *testing.T) {
	reader := metric.NewManualReader()
	otel.SetMeterProvider(metric.NewMeterProvider(metric.WithReader(reader)))
	t.Cleanup(func() { otel.SetMeterProvider(noop.NewMeterProvider()) })
	watcher := &configmap.ManualWatcher{}
	(&config.Store{}).Watch(zap.NewNop().Sugar(), watcher)
	for _, step := range []struct {
		data map[string]string
		want int64
	}{
		{map[string]string{"pod-opt-out": "no", "log-service": "x"}, 2},
		{map[string]string{"pod-opt-out": "forbidden"}, 0},
		{map[string]string{"pod-opt-out": "no"}, 1},
	} {
		watcher.OnChange(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: config.Name}, Data: step.data})
		var collected metricdata.ResourceMetrics
		require.NoError(t, reader.Collect(t.Context(), &collected))
		require.Len(t, collected.ScopeMetrics, 1)
		gauge := collected.ScopeMetrics[0].Metrics[0]
		require.Equal(t, "entrypointer.config.faulty_keys", gauge.Name)
		require.Equal(t, step.want, gauge.Data.(metricdata.Gauge[int64]).DataPoints[0].Value)
	}
}

func TestThePageListsTheMetricOfFaultyKeys(t *testing.T) {
	provider, exported := metricstest.NewProvider(t)
	otel.SetMeterProvider(provider)
	t.Cleanup(func() { otel.SetMeterProvider(noop.NewMeterProvider()) })
	_, _ = started(t, nil)
	metricstest.RequireDocumented(t, exported, "entrypointer_config_")
}

func TestTheLastGoodConfigurationStaysInForce(t *testing.T) {
	named := metav1.ObjectMeta{Name: config.Name}
	watcher := &configmap.ManualWatcher{}
	store := &config.Store{}
	store.Watch(logtesting.TestLogger(t), watcher)
	watcher.OnChange(&corev1.ConfigMap{ObjectMeta: named, Data: map[string]string{"pod-opt-out": "forbidden"}})
	watcher.OnChange(&corev1.ConfigMap{ObjectMeta: named, Data: map[string]string{"pod-opt-out": "perhaps"}})
	require.True(t, store.Load().Policy.ForbidOptOut)

	watcher.OnChange(&corev1.ConfigMap{ObjectMeta: named, Data: map[string]string{"pod-opt-out": "allowed"}})
	require.False(t, store.Load().Policy.ForbidOptOut, "a good one follows")
}

func TestFollowersGetTheConfigurationThatComesIntoForce(t *testing.T) {
	named := metav1.ObjectMeta{Name: config.Name}
	watcher := &configmap.ManualWatcher{}
	var told []pod.Delivery
	store := &config.Store{}
	store.Follow(func(c *config.Config) {
		require.Same(t, c, store.Load())
		told = append(told, c.Policy.Delivery)
	})
	store.Watch(logtesting.TestLogger(t), watcher)
	for _, delivery := range []string{"sidecar", "auto", "sidecar", "image-volume"} {
		watcher.OnChange(&corev1.ConfigMap{ObjectMeta: named, Data: map[string]string{"delivery": delivery}})
	}
	require.Equal(t, []pod.Delivery{pod.DeliveryInitContainer, pod.DeliveryAuto, pod.DeliveryImageVolume}, told)
}
