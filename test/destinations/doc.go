// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package destinations tests internal/logs/export against the programs that logs and
// traces are sent on to: an OpenTelemetry collector, Loki and Jaeger, which have modules of
// their own. Building Loki and Jaeger takes minutes, so their tests have the build tags loki
// and jaeger, and make destinations runs them.
package destinations
