// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package monitoring has what the Helm chart installs for Prometheus and Grafana.
package monitoring

import "embed"

// Files are the PodMonitors, the alerts and the dashboard.
//
//go:embed podmonitors.yaml rules.yaml dashboard.json
var Files embed.FS
