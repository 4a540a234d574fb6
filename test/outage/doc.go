// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package outage tests what becomes of the pods of TaskRuns while no injector responds
// (docs/adr/0054-taskruns-in-an-outage.md): config/outage, and a policy that isn't installed,
// in a real API server with an etcd of its own.
package outage
