// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"slices"
)

// Policy holds the operator's decisions for all pods. The zero value is the default.
type Policy struct {
	// Owners are the owners whose pods are wrapped; nil means all but those of an
	// Optional [Kind].
	Owners []Owner
	// Proxies are the names of containers that other webhooks inject. They are wrapped
	// only if the pod's author names them in an annotation. Nil means [DefaultProxies].
	Proxies []string
	// SharedKernelClasses are the runtime classes whose pods have one kernel for all
	// containers, as without a class. Locks and pipes work between these containers.
	SharedKernelClasses []string
	// Delivery is the way in which the supervisor gets into pods; "" means
	// [DeliveryInitContainer], and the effect of [DeliveryAuto] depends on the pod.
	Delivery Delivery
	// PodOptions are the names of options that a pod's own annotations may set; nil means
	// all. The creator of a TaskRun may lack the permission to change the work of its
	// Task, as hooks and variables could.
	PodOptions []string
	// ForbidOptOut wraps pods even if their own annotation is "false".
	ForbidOptOut bool
	// RefuseUnsentLogs refuses pods that ask for their output to be sent to the log
	// service if the output can't be sent. Otherwise they run, with a warning.
	RefuseUnsentLogs bool
	// WaiveFailedLookups leaves a container unwrapped if the lookup of its image fails,
	// with a warning. Otherwise the pod is refused.
	WaiveFailedLookups bool
}

// DefaultProxies returns the names of containers that well-known webhooks inject. These
// webhooks manage their containers themselves, by PID 1, by the image's ENTRYPOINT or by
// a preStop hook.
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
