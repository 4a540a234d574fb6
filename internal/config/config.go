// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package config reads the ConfigMap in which an operator configures the injector.
package config

import (
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"knative.dev/pkg/configmap"
	"sigs.k8s.io/yaml"

	"github.com/entrypointer/entrypointer/internal/version"
	"github.com/entrypointer/entrypointer/pkg/lookup"
	"github.com/entrypointer/entrypointer/pkg/pod"
	"github.com/entrypointer/entrypointer/pkg/spelling"
)

// Name is the name of the ConfigMap, in the namespace of the injector.
const Name = "config-entrypointer"

// key describes how one key of the ConfigMap is read.
type key struct {
	// kind describes the values, in Markdown, for docs/configuration.md.
	kind string
	// read parses a value into a Config that has the key's default.
	read func(*Config, string) error
	// restrict replaces an invalid value of a key whose default may let tenants do what
	// the operator has forbidden. Without restrict, the default replaces it.
	restrict func(*Config, string)
}

const (
	certificates = "CA certificates in PEM"
	yamlMap      = "YAML, a map from "
)

var keys = map[string]key{
	"delivery":       {kind: alternatives(pod.Deliveries()...), read: setDelivery},
	"lookup-timeout": {kind: fmt.Sprintf("a duration from %v to %v", minLookupTimeout, MaxLookupTimeout), read: setLookupTimeout},
	"failed-lookup":  choice("refuse", "admit", func(c *Config) *bool { return &c.Policy.WaiveFailedLookups }),
	"pod-opt-out": choice("allowed", "forbidden", func(c *Config) *bool { return &c.Policy.ForbidOptOut }).
		restricted(func(c *Config, _ string) { c.Policy.ForbidOptOut = true }),
	"unsent-logs": choice("admit", "refuse", func(c *Config) *bool { return &c.Policy.RefuseUnsentLogs }).
		restricted(func(c *Config, _ string) { c.Policy.RefuseUnsentLogs = true }),
	"status-version": choice("omitted", "included", func(c *Config) *bool { return &c.VersionInStatus }),
	"pod-owners":     {kind: "a list of " + alternatives(owners...), read: setOwners},
	"pod-options": {
		kind: "`all`, or a list of [options](options.md)", read: setPodOptions,
		restrict: func(c *Config, _ string) { c.Policy.PodOptions = []string{} },
	},
	"proxy-containers":      {kind: "a list of container names", read: setProxies},
	"shared-kernel-classes": {kind: "a list of runtime classes", read: setSharedKernelClasses},
	allowedRegistriesKey:    {kind: "a list of registry patterns", read: setAllowed, restrict: restrictAllowed},
	"private-addresses": choice("allowed", "forbidden", func(c *Config) *bool { return &c.Lookup.ForbidPrivateAddresses }).
		restricted(func(c *Config, _ string) { c.Lookup.ForbidPrivateAddresses = true }),
	"registry-mirrors": {kind: yamlMap + "registries to lists of mirrors", read: setMirrors},
	"registry-ca":      {kind: certificates, read: setCertificates},
	"api-server-ca":    {kind: certificates, read: setCallers},
	"static-images":    {kind: yamlMap + "images to `entrypoint` and `cmd`", read: setStaticImages},
	"defaults":         {kind: yamlMap + "[options](options.md) to values", read: setDefaults},
	"tools":            {kind: yamlMap + "names to `image` and `path`", read: setTools},
}

// alternatives lists the words of which a value is one.
func alternatives[S ~string](words ...S) string {
	var quoted []string
	for _, word := range words {
		quoted = append(quoted, "`"+string(word)+"`")
	}
	return spelling.Alternatives(quoted)
}

// restricted returns the key with restrict for an invalid value.
func (k key) restricted(restrict func(*Config, string)) key {
	k.restrict = restrict
	return k
}

// keyNamed finds a key by its name, which may end with the name of a namespace.
func keyNamed(name string) (key, error) {
	if namespace, ok := strings.CutPrefix(name, allowedRegistriesKey+"."); ok {
		return key{
			read:     func(c *Config, value string) error { return c.allowIn(namespace, value) },
			restrict: func(c *Config, value string) { c.restrictIn(namespace, value) },
		}, nil
	}
	if known, ok := keys[name]; ok {
		return known, nil
	}
	names := slices.Sorted(maps.Keys(keys))
	if meant := spelling.DidYouMean(name, withNamespace(name, names)); meant != "" {
		return key{}, fmt.Errorf("it is unknown%s", meant)
	}
	return key{}, fmt.Errorf("it is unknown; the keys are %s and %s.NAMESPACE", strings.Join(names, ", "), allowedRegistriesKey)
}

// withNamespace adds the key with the namespace at the end of a mistaken key.
func withNamespace(name string, names []string) []string {
	if _, namespace, found := strings.Cut(name, "."); found {
		return append(names, allowedRegistriesKey+"."+namespace)
	}
	return names
}

// allowedRegistriesKey also begins the keys that end with a namespace.
const allowedRegistriesKey = "allowed-registries"

const (
	minLookupTimeout = 100 * time.Millisecond
	// MaxLookupTimeout is the upper bound of the key lookup-timeout.
	MaxLookupTimeout = 3 * time.Second
)

// Config is the configuration in the ConfigMap, with defaults for absent keys.
type Config struct {
	// LookupTimeout is the time for which one admission may wait for a registry.
	LookupTimeout time.Duration
	Policy        pod.Policy
	Lookup        lookup.Options
	// Callers are the CAs that sign the client certificates of API servers. Nil allows
	// every caller.
	Callers *x509.CertPool
	// Defaults are options for pods of namespaces that don't set them.
	Defaults pod.Defaults
	// Tools are the tools that pods may ask for, sorted by name.
	Tools []pod.Tool
	// VersionInStatus has the status of pods name the injector's version.
	VersionInStatus bool
}

// StatusVersion returns the version for the status of pods, "" for none.
func (c *Config) StatusVersion() string {
	if !c.VersionInStatus {
		return ""
	}
	return version.Own()
}

// FromConfigMap parses the ConfigMap. Unknown keys are errors, because they are spelling
// mistakes that the operator needs to correct.
func FromConfigMap(cm *corev1.ConfigMap) (*Config, error) {
	config, faults := read(cm)
	if len(faults) == 0 {
		return config, nil
	}
	var all []error
	for _, f := range faults {
		all = append(all, f.err)
	}
	return nil, errors.Join(all...)
}

// ValidOf returns the configuration that an injector has in force when it starts with this
// ConfigMap: safe values stand for invalid ones.
func ValidOf(cm *corev1.ConfigMap) *Config {
	config, _ := read(cm)
	return config
}

// faultyKey is a key that isn't in force as it is written.
type faultyKey struct {
	err error
	// instead describes what is in force.
	instead string
}

// read reads all valid keys. It skips unknown keys, which may be another release's. An
// invalid value is replaced by a safe one: the strictest value if the key keeps tenants
// within bounds, and otherwise the default.
func read(cm *corev1.ConfigMap) (*Config, []faultyKey) {
	config := &Config{LookupTimeout: MaxLookupTimeout, Policy: pod.Policy{Delivery: pod.DeliveryInitContainer}}
	var faults []faultyKey
	for _, name := range slices.Sorted(maps.Keys(cm.Data)) {
		if name == configmap.ExampleKey {
			continue
		}
		if instead, err := config.set(name, cm.Data[name]); err != nil {
			faults = append(faults, faultyKey{fmt.Errorf("reading ConfigMap %q: key %q: %w", Name, name, err), instead})
		}
	}
	return config, append(faults, config.checkTools()...)
}

// set reads one key. With an error, it also returns what replaces the key.
func (c *Config) set(name, value string) (instead string, _ error) {
	known, err := keyNamed(name)
	if err != nil {
		return "it is skipped", err
	}
	before := *c
	before.Lookup.Allowed.Namespaces = maps.Clone(c.Lookup.Allowed.Namespaces)
	err = known.read(c, value)
	switch {
	case err == nil:
		return "", nil
	case known.restrict == nil:
		*c = before
		return "its default is in force", err
	default:
		*c = before
		known.restrict(c, value)
		return "its strictest value is in force", err
	}
}

func setLookupTimeout(c *Config, value string) error {
	timeout, err := time.ParseDuration(value)
	if err != nil || timeout < minLookupTimeout || timeout > MaxLookupTimeout {
		return fmt.Errorf("%q is not a duration from %v to %v, such as \"2s\"", value, minLookupTimeout, MaxLookupTimeout)
	}
	c.LookupTimeout = timeout
	return nil
}

// choice returns a key with two words as its values; the flag is true for the second.
func choice(first, second string, flag func(*Config) *bool) key {
	return key{kind: alternatives(first, second), read: func(c *Config, value string) error {
		if value != first && value != second {
			return fmt.Errorf("%q is neither %q nor %q%s", value, first, second, spelling.DidYouMean(value, []string{first, second}))
		}
		*flag(c) = value == second
		return nil
	}}
}

var owners = func() (names []string) {
	for _, owner := range pod.Owners() {
		names = append(names, string(owner))
	}
	return names
}()

func setDelivery(c *Config, value string) (err error) {
	c.Policy.Delivery, err = pod.ParseDelivery(value)
	return err
}

func setOwners(c *Config, value string) error {
	c.Policy.Owners = []pod.Owner{}
	for _, word := range words(value) {
		if !slices.Contains(owners, word) {
			return fmt.Errorf("%q is none of %q%s", word, owners, spelling.DidYouMean(word, owners))
		}
		c.Policy.Owners = append(c.Policy.Owners, pod.Owner(word))
	}
	return nil
}

func setPodOptions(c *Config, value string) error {
	c.Policy.PodOptions = nil
	if value == "all" {
		return nil
	}
	var names []string
	for _, o := range pod.Options() {
		names = append(names, o.Name)
	}
	c.Policy.PodOptions = []string{}
	for _, word := range words(value) {
		if !slices.Contains(names, word) {
			if meant := spelling.DidYouMean(word, names); meant != "" {
				return fmt.Errorf("%q is no option%s", word, meant)
			}
			return fmt.Errorf("%q is no option; use \"all\", or a list, which may be empty, of %s", word, strings.Join(names, ", "))
		}
		c.Policy.PodOptions = append(c.Policy.PodOptions, word)
	}
	return nil
}

func setProxies(c *Config, value string) error {
	c.Policy.Proxies = []string{}
	for _, word := range words(value) {
		if wrong := validation.IsDNS1123Label(word); len(wrong) > 0 {
			return fmt.Errorf("%q is no name of a container: %s", word, strings.Join(wrong, "; "))
		}
		c.Policy.Proxies = append(c.Policy.Proxies, word)
	}
	return nil
}

func setSharedKernelClasses(c *Config, value string) error {
	c.Policy.SharedKernelClasses = nil
	for _, word := range words(value) {
		if wrong := validation.IsDNS1123Subdomain(word); len(wrong) > 0 {
			return fmt.Errorf("%q is no name of a runtime class: %s", word, strings.Join(wrong, "; "))
		}
		c.Policy.SharedKernelClasses = append(c.Policy.SharedKernelClasses, word)
	}
	return nil
}

func setAllowed(c *Config, value string) (err error) {
	c.Lookup.Allowed.Everywhere, err = parsePatterns(value)
	return err
}

// restrictAllowed allows the valid entries of the list, and never everything.
func restrictAllowed(c *Config, value string) {
	c.Lookup.Allowed.Everywhere, _ = parsePatterns(value)
	// An empty entry of a namespace makes the list restrictive even if the list has no
	// other entry.
	c.addAllowed("", nil)
}

func (c *Config) allowIn(namespace, value string) error {
	if wrong := validation.IsDNS1123Label(namespace); len(wrong) > 0 {
		return fmt.Errorf("%q is no name of a namespace: %s", namespace, strings.Join(wrong, "; "))
	}
	patterns, err := parsePatterns(value)
	c.addAllowed(namespace, patterns)
	return err
}

func (c *Config) restrictIn(namespace, value string) {
	var patterns []lookup.Pattern
	if len(validation.IsDNS1123Label(namespace)) == 0 {
		patterns, _ = parsePatterns(value)
	}
	c.addAllowed(namespace, patterns)
}

func (c *Config) addAllowed(namespace string, patterns []lookup.Pattern) {
	if c.Lookup.Allowed.Namespaces == nil {
		c.Lookup.Allowed.Namespaces = map[string][]lookup.Pattern{}
	}
	c.Lookup.Allowed.Namespaces[namespace] = patterns
}

// parsePatterns returns the valid patterns, and an error for each invalid pattern.
func parsePatterns(value string) (patterns []lookup.Pattern, _ error) {
	var wrong []error
	for _, word := range words(value) {
		pattern, err := lookup.ParsePattern(word)
		if err != nil {
			wrong = append(wrong, err)
			continue
		}
		patterns = append(patterns, pattern)
	}
	return patterns, errors.Join(wrong...)
}

func setMirrors(c *Config, value string) error {
	var mirrors map[string][]string
	if err := yaml.UnmarshalStrict([]byte(value), &mirrors); err != nil {
		return fmt.Errorf("it is no YAML of the form \"docker.io: [mirror.example]\": %w", err)
	}
	for _, registry := range slices.Sorted(maps.Keys(mirrors)) {
		if c.Lookup.Mirrors == nil {
			c.Lookup.Mirrors = lookup.Mirrors{}
		}
		if err := c.Lookup.Mirrors.Add(registry, mirrors[registry]...); err != nil {
			return err
		}
	}
	return nil
}

func setCertificates(c *Config, value string) error {
	c.Lookup.Certificates = strings.TrimSpace(value)
	if c.Lookup.Certificates == "" {
		return nil
	}
	return lookup.AppendCertificates(x509.NewCertPool(), value)
}

func setCallers(c *Config, value string) error {
	c.Callers = nil
	if strings.TrimSpace(value) == "" {
		return nil
	}
	callers := x509.NewCertPool()
	if err := lookup.AppendCertificates(callers, value); err != nil {
		return err
	}
	c.Callers = callers
	return nil
}

func setStaticImages(c *Config, value string) error {
	var images map[string]struct{ Entrypoint, Cmd []string }
	if err := yaml.UnmarshalStrict([]byte(value), &images); err != nil {
		return fmt.Errorf("it is no YAML of the form \"image:tag: {entrypoint: [...], cmd: [...]}\": %w", err)
	}
	for _, image := range slices.Sorted(maps.Keys(images)) {
		if c.Lookup.Static == nil {
			c.Lookup.Static = lookup.StaticImages{}
		}
		if err := c.Lookup.Static.Add(image, lookup.Config{Entrypoint: images[image].Entrypoint, Cmd: images[image].Cmd}); err != nil {
			return err
		}
	}
	return nil
}

func setDefaults(c *Config, value string) error {
	if err := yaml.UnmarshalStrict([]byte(value), &c.Defaults.Values); err != nil {
		return fmt.Errorf("it is no YAML of the form \"timeout: 1h\": %w", err)
	}
	if c.Defaults.Values != nil {
		c.Defaults.Source = "as the operator has it by default"
	}
	return c.Defaults.Check()
}

// words splits a list at commas, spaces and newlines.
func words(value string) []string {
	return strings.FieldsFunc(value, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
}
