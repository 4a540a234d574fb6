// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"slices"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

const (
	// OutagePrefix begins the keys of annotations of the injector's namespace by which
	// policies of config/outage wrap pods.
	OutagePrefix = "entrypointer-wraps-taskruns-"
	// OutageAnnotation has the image of the init container. Its key ends with a number that
	// grows when package pod wraps plain pods of TaskRuns in another way, so that a policy of
	// another release leaves them to the webhook. A test of internal/outage records what a
	// number means.
	OutageAnnotation = OutagePrefix + "1"
)

// IsPlain reports whether the plain pods of TaskRuns are wrapped as by the default
// configuration, which is the one that the policy of config/outage knows.
func (c *Config) IsPlain() bool {
	return c.Policy.Delivery == pod.DeliveryInitContainer && len(c.Defaults.Values) == 0 && !c.VersionInStatus &&
		(c.Policy.Owners == nil || slices.Contains(c.Policy.Owners, pod.Tekton))
}
