// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package destinations tests internal/logs/export against the programs that logs are sent on
// to: an OpenTelemetry collector and Loki, which have modules of their own. Building Loki
// takes minutes, so its test has the build tag loki, and make destinations runs it.
package destinations
