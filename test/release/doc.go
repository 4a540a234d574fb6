// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package release tests a release on the cluster, with nothing but what a release has: "make
// e2e-release" makes two, and runs the tests.
package release
