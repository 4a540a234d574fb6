// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package autodelivery

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
)

// The versions from which on images, and directories of images, can be mounted as volumes
// without a feature gate (https://kubernetes.io/docs/concepts/storage/volumes/#image).
// cri-dockerd doesn't support them (https://github.com/Mirantis/cri-dockerd/issues/526).
const leastKubernetes = "1.35.0"

var leastRuntimes = map[string]string{
	// 2.1 mounts the root of the image for every requested directory
	// (https://github.com/containerd/containerd/pull/11578).
	"containerd": "2.2.0",
	"cri-o":      "1.33.0",
}

// lacks returns why the nodes of a system can't mount images, by their versions, "" if
// they can.
func (s system) lacks() string {
	if why := older("kubelet", s.Kubelet, leastKubernetes); why != "" {
		return why
	}
	name, found, ok := strings.Cut(s.Runtime, "://")
	least, known := leastRuntimes[name]
	if !ok || !known {
		return fmt.Sprintf("container runtime %q isn't known to mount images", bounded(s.Runtime))
	}
	return older(name, found, least)
}

// older returns an error text if a version is less than the least, or invalid, and
// otherwise "". It ignores the suffixes of distributions ("+k3s1", "-gke.1000"); alphas,
// betas and release candidates precede their release.
func older(what, found, least string) string {
	parsed, err := version.ParseGeneric(found)
	if err != nil {
		return fmt.Sprintf("%s has a version that can't be read: %q", what, bounded(found))
	}
	want := version.MustParseGeneric(least)
	if parsed.AtLeast(want) && (want.LessThan(parsed) || !isPrerelease(found)) {
		return ""
	}
	return fmt.Sprintf("%s %s is older than %s", what, bounded(found), least)
}

func isPrerelease(found string) bool {
	_, more, _ := strings.Cut(found, "-")
	return strings.HasPrefix(more, "alpha") || strings.HasPrefix(more, "beta") || strings.HasPrefix(more, "rc")
}

const (
	// maxShown is the length, in bytes, to which a node's properties are quoted.
	maxShown = 128
	// maxMessage is the length, in bytes, to which a canary's failure is kept.
	maxMessage = 512
)

func bounded(said string) string { return cut(said, maxShown) }

func cut(said string, most int) string {
	if len(said) <= most {
		return said
	}
	return strings.ToValidUTF8(said[:most], "") + "..."
}
