// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAStandInServesWhatWouldComeFromDockerHub(t *testing.T) {
	const registry = "registry.example:5000"
	for reference, want := range map[string]string{
		"busybox":                        registry + "/library/busybox",
		"busybox:1.37":                   registry + "/library/busybox:1.37",
		"busybox@sha256:abc":             registry + "/library/busybox@sha256:abc",
		"grafana/k6:1":                   registry + "/grafana/k6:1",
		"ghcr.io/some/image:1":           "ghcr.io/some/image:1",
		"localhost/some/image":           "localhost/some/image",
		"registry:5000/library/busybox":  "registry:5000/library/busybox",
		"registry.example:5000/some/one": "registry.example:5000/some/one",
	} {
		require.Equal(t, want, fromStandIn(reference, registry), reference)
		require.Equal(t, reference, fromStandIn(reference, ""), "without a stand-in")
	}
}
