// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package config has the manifests of this release, for a comparison with what a cluster
// has.
package config

import "embed"

// Manifests are the files that ko apply -f reads, one directory for each part.
//
//go:embed webhook/*.yaml auto/*.yaml claims/*.yaml outage/*.yaml logs/*.yaml network-policy/*.yaml
var Manifests embed.FS
