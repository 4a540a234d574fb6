// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"github.com/entrypointer/entrypointer/test/cluster/internal/images"
	"github.com/entrypointer/entrypointer/test/cluster/internal/layout"
)

// adapt changes what must differ on a small machine without a network, and
// nothing else. Objects that make no sense there are left out.
func adapt(all []object) []object {
	var kept []object
	for _, o := range all {
		switch o.kind() {
		case "HorizontalPodAutoscaler", "PodDisruptionBudget":
			continue // One replica is enough, and nobody counts CPU.
		case "Deployment":
			oneSmallReplica(o)
		case "ConfigMap":
			setData(o)
		}
		kept = append(kept, o)
	}
	return kept
}

// configMaps are the settings that we change, by name of the ConfigMap.
var configMaps = map[string]map[string]string{
	"config-domain":  {layout.Domain: ""},
	"config-network": {"ingress-class": "traefik.ingress.networking.knative.dev"},
	// Knative asks registries for digests by their own names, and knows no mirrors: the
	// nodes pull images of Docker Hub by tag.
	"config-deployment": {"registries-skipping-tag-resolving": "kind.local,ko.local,dev.local,index.docker.io"},
	// The least that Knative allows: a test shouldn't wait for a minute to see
	// a service scale to zero.
	"config-autoscaler": {"stable-window": "6s", "scale-to-zero-grace-period": "6s"},
	// What Tekton has but doesn't offer everybody yet; nothing that is on anyway
	// works differently with these.
	"feature-flags": {
		"enable-api-fields":            "alpha",
		"enable-artifacts":             "true",
		"enable-cel-in-whenexpression": "true",
		"enable-param-enum":            "true",
	},
}

func setData(configMap object) {
	for key, value := range configMaps[configMap.name()] {
		data, ok := configMap["data"].(map[string]any)
		if !ok {
			data = map[string]any{}
			configMap["data"] = data
		}
		data[key] = value
	}
}

// oneSmallReplica lets a deployment fit a machine of two cores. CPU limits go,
// or programs would start slowly beside idle cores.
func oneSmallReplica(deployment object) {
	if spec, ok := deployment["spec"].(map[string]any); ok {
		spec["replicas"] = 1
	}
	containers, _ := at(deployment, "spec", "template", "spec", "containers").([]any)
	for _, c := range containers {
		container, ok := c.(map[string]any)
		if !ok {
			continue
		}
		if requests, ok := at(container, "resources", "requests").(map[string]any); ok {
			requests["cpu"] = "10m"
		}
		if limits, ok := at(container, "resources", "limits").(map[string]any); ok {
			delete(limits, "cpu")
		}
		args, _ := container["args"].([]any)
		useLocalShell(args)
	}
}

// useLocalShell replaces the image that Tekton runs its own scripts with.
func useLocalShell(args []any) {
	for i := range args {
		if args[i] == "-shell-image" && i+1 < len(args) {
			args[i+1] = images.Busybox
		}
	}
}

// at follows a path of fields; nil if one isn't there.
func at(o map[string]any, path ...string) any {
	var value any = o
	for _, field := range path {
		fields, ok := value.(map[string]any)
		if !ok {
			return nil
		}
		value = fields[field]
	}
	return value
}
