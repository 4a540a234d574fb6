// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package outage tries what could become of the pods of TaskRuns while no injector
// responds: policies that an API server evaluates itself, beside a webhook. The API server
// is a real one, with an etcd of its own. Nothing of it is installed
// (docs/adr/0054-taskruns-in-an-outage.md).
package outage
