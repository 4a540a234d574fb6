// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package config reads the ConfigMap in which an operator configures the injector.
package config

import (
	"crypto/x509"
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

	"github.com/entrypointer/entrypointer/pkg/lookup"
	"github.com/entrypointer/entrypointer/pkg/pod"
)

// Name is the name of the ConfigMap, in the namespace of the injector.
const Name = "config-entrypointer"

// keys says how each key of the ConfigMap is read into a Config that has its default.
var keys = map[string]func(*Config, string) error{
	"delivery":           choice("init-container", "image-volume", func(c *Config) *bool { return &c.Policy.ImageVolume }),
	"lookup-timeout":     setLookupTimeout,
	"failed-lookup":      choice("refuse", "admit", func(c *Config) *bool { return &c.Policy.WaiveFailedLookups }),
	"pod-opt-out":        choice("allowed", "forbidden", func(c *Config) *bool { return &c.Policy.ForbidOptOut }),
	"pod-owners":         setOwners,
	"pod-options":        setPodOptions,
	"proxy-containers":   setProxies,
	allowedRegistriesKey: func(c *Config, value string) error { return addPatterns(&c.Lookup.Allowed.Everywhere, value) },
	"private-addresses":  choice("allowed", "forbidden", func(c *Config) *bool { return &c.Lookup.ForbidPrivateAddresses }),
	"registry-mirrors":   setMirrors,
	"registry-ca":        setCertificates,
	"static-images":      setStaticImages,
	"defaults":           setDefaults,
}

// allowedRegistriesKey is also the beginning of keys that end with a namespace.
const allowedRegistriesKey = "allowed-registries"

const (
	minLookupTimeout = 100 * time.Millisecond
	// MaxLookupTimeout is the most that a lookup may take, whatever is configured.
	MaxLookupTimeout = 3 * time.Second
)

// Config is what the ConfigMap says, defaults filled in.
type Config struct {
	// LookupTimeout is how long one admission may wait for a registry.
	LookupTimeout time.Duration
	Policy        pod.Policy
	Lookup        lookup.Options
	// Defaults are options for pods of namespaces that have none of their own.
	Defaults pod.Defaults
}

// FromConfigMap parses the ConfigMap. Keys that it doesn't know are errors:
// they are spelling mistakes of which an operator wants to hear.
func FromConfigMap(cm *corev1.ConfigMap) (*Config, error) {
	config := &Config{LookupTimeout: MaxLookupTimeout}
	for _, key := range slices.Sorted(maps.Keys(cm.Data)) {
		if key == configmap.ExampleKey {
			continue
		}
		if err := config.set(key, cm.Data[key]); err != nil {
			return nil, fmt.Errorf("reading ConfigMap %q: key %q: %w", Name, key, err)
		}
	}
	return config, nil
}

func (c *Config) set(key, value string) error {
	if namespace, ok := strings.CutPrefix(key, allowedRegistriesKey+"."); ok {
		return c.allowIn(namespace, value)
	}
	set, ok := keys[key]
	if !ok {
		return fmt.Errorf("it is unknown; the keys are %s and %s.NAMESPACE",
			strings.Join(slices.Sorted(maps.Keys(keys)), ", "), allowedRegistriesKey)
	}
	return set(c, value)
}

func setLookupTimeout(c *Config, value string) error {
	timeout, err := time.ParseDuration(value)
	if err != nil || timeout < minLookupTimeout || timeout > MaxLookupTimeout {
		return fmt.Errorf("%q is not a duration from %v to %v, such as \"2s\"", value, minLookupTimeout, MaxLookupTimeout)
	}
	c.LookupTimeout = timeout
	return nil
}

// choice reads one of two words; the flag is whether it is the second.
func choice(first, second string, flag func(*Config) *bool) func(*Config, string) error {
	return func(c *Config, value string) error {
		if value != first && value != second {
			return fmt.Errorf("%q is neither %q nor %q", value, first, second)
		}
		*flag(c) = value == second
		return nil
	}
}

var owners = []pod.Owner{pod.Tekton, pod.Knative, pod.Annotation}

func setOwners(c *Config, value string) error {
	c.Policy.Owners = []pod.Owner{}
	for _, word := range words(value) {
		if !slices.Contains(owners, pod.Owner(word)) {
			return fmt.Errorf("%q is none of %v", word, owners)
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

func (c *Config) allowIn(namespace, value string) error {
	if wrong := validation.IsDNS1123Label(namespace); len(wrong) > 0 {
		return fmt.Errorf("%q is no name of a namespace: %s", namespace, strings.Join(wrong, "; "))
	}
	var patterns []lookup.Pattern
	if err := addPatterns(&patterns, value); err != nil {
		return err
	}
	if c.Lookup.Allowed.Namespaces == nil {
		c.Lookup.Allowed.Namespaces = map[string][]lookup.Pattern{}
	}
	c.Lookup.Allowed.Namespaces[namespace] = patterns
	return nil
}

func addPatterns(patterns *[]lookup.Pattern, value string) error {
	for _, word := range words(value) {
		pattern, err := lookup.ParsePattern(word)
		if err != nil {
			return err
		}
		*patterns = append(*patterns, pattern)
	}
	return nil
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
		c.Defaults.Of = "as the operator has it by default"
	}
	return c.Defaults.Check()
}

// words splits a list at commas, spaces and newlines.
func words(value string) []string {
	return strings.FieldsFunc(value, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
}

// Store holds the newest ConfigMap that could be parsed.
type Store struct{ untyped *configmap.UntypedStore }

// NewStore returns a Store that is filled by watcher before the injector
// serves. A ConfigMap that can't be parsed is logged and leaves the last good
// one in force.
func NewStore(logger configmap.Logger, watcher configmap.Watcher) *Store {
	store := &Store{configmap.NewUntypedStore("injector", logger, configmap.Constructors{Name: FromConfigMap})}
	store.untyped.WatchConfigs(watcher)
	return store
}

// Load returns the configuration in force. It must not be changed.
func (s *Store) Load() *Config { return s.untyped.UntypedLoad(Name).(*Config) }
