// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

func setTools(c *Config, value string) error {
	c.Tools = nil
	var tools map[string]struct{ Image, Path string }
	if err := yaml.UnmarshalStrict([]byte(value), &tools); err != nil {
		return fmt.Errorf("it is no YAML of the form \"ni: {image: registry.example/ni@sha256:..., path: /ko-app/ni}\": %w", err)
	}
	if len(tools) > pod.MaxTools {
		return fmt.Errorf("the key has %d tools, and %d is the most; remove some, or put several programs into one tool", len(tools), pod.MaxTools)
	}
	for _, name := range slices.Sorted(maps.Keys(tools)) {
		tool := pod.Tool{Name: name, Image: tools[name].Image, Path: tools[name].Path}
		if err := tool.Check(); err != nil {
			return fmt.Errorf("tool %.100q: %w", name, err)
		}
		c.Tools = append(c.Tools, tool)
	}
	return nil
}

// checkTools finds tools that no pod could get, and tools of the defaults that don't
// exist. It is called after the keys have been read.
func (c *Config) checkTools() (faults []faultyKey) {
	var names []string
	for _, tool := range c.Tools {
		names = append(names, tool.Name)
		if !c.Lookup.Allowed.AllowsSomewhere(tool.Image) {
			faults = append(faults, faultyKey{
				fmt.Errorf("reading ConfigMap %q: key \"tools\": tool %q: no key %s allows image %q in any namespace; add its registry there, or remove the tool",
					Name, tool.Name, allowedRegistriesKey, tool.Image),
				"no pod gets it",
			})
		}
	}
	asked, err := pod.ToolNames(c.Defaults)
	if err != nil {
		return faults // the defaults' faults are about these tools already
	}
	for _, name := range asked {
		if !slices.Contains(names, name) {
			faults = append(faults, faultyKey{
				fmt.Errorf("reading ConfigMap %q: key \"defaults\": tools: there is no tool %q; key \"tools\" has [%s]", Name, name, strings.Join(names, ", ")),
				"pods run without it, and are warned",
			})
		}
	}
	return faults
}
