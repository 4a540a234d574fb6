// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package destinations tests internal/logs/export against the programs that logs and
// traces are sent on to: an OpenTelemetry collector and Loki, which have modules of their own.
// Building Loki takes minutes, so its test has the build tag loki, and make destinations runs
// it. The end-to-end tests run all of them, and Jaeger, on a cluster.
package destinations
