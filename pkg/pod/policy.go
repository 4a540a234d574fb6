// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import "slices"

// Policy is what an operator decides for all pods. The zero value is the default.
type Policy struct {
	// Owners are those whose pods are wrapped; nil means all.
	Owners []Owner
	// Proxies are the names of containers that other webhooks inject, and that
	// are left alone unless the pod's author chooses them by annotation. Nil
	// means [DefaultProxies].
	Proxies []string
	// Delivery is how the supervisor gets into pods; "" means [InitContainer], and
	// [Auto] depends on the pod.
	Delivery Delivery
	// PodOptions are the names of options that a pod's own annotations may set;
	// nil means all. Whoever creates a TaskRun may not be trusted with what its
	// Task does, which hooks and variables could change.
	PodOptions []string
	// ForbidOptOut wraps pods even if their own annotation says "false".
	ForbidOptOut bool
	// RefuseUnsentLogs refuses pods that ask for their output to be sent to the log
	// service if that can't be. Otherwise they run without, and are warned.
	RefuseUnsentLogs bool
	// WaiveFailedLookups leaves a container whose image can't be looked up
	// unwrapped, with a warning. Otherwise its pod is refused.
	WaiveFailedLookups bool
}

// DefaultProxies are containers that well-known webhooks inject. Whoever
// injects one manages it too: by its PID 1, its image's entrypoint or its
// preStop hook.
func DefaultProxies() []string { return slices.Clone(defaultProxies) }

var defaultProxies = []string{
	"istio-proxy",
	"linkerd-proxy",
	"kuma-sidecar",
	"consul-dataplane",
	"vault-agent",
	"daprd",
	"otc-container", // OpenTelemetry operator
	"gke-gcsfuse-sidecar",
}

func (p Policy) selects(owner Owner) bool {
	return p.Owners == nil || slices.Contains(p.Owners, owner)
}

func (p Policy) letsPodsSet(option string) bool {
	return p.PodOptions == nil || slices.Contains(p.PodOptions, option)
}

func (p Policy) isProxy(name string) bool {
	if p.Proxies == nil {
		return slices.Contains(defaultProxies, name)
	}
	return slices.Contains(p.Proxies, name)
}
