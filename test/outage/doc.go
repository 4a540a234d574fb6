// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package outage tests what becomes of the pods of TaskRuns while no injector responds
// (docs/adr/0054-taskruns-in-an-outage.md), in a real API server with an etcd of its own: what
// config/outage makes of pods, beside what pkg/pod makes of them, and who waits.
package outage
