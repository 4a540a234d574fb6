// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package monitoring makes monitoring/dashboard.json, and tests it and the alerts of
// monitoring/rules.yaml. Grafana and Prometheus are a module of their own here: neither is
// a dependency of the product.
//
// A dashboard is a grid of panels in rows. A panel shows the results of queries in PromQL.
// The reader chooses the values of variables, which Grafana puts into the queries.
package monitoring
