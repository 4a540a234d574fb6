// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package stores tests the log service on object stores, as servers that have their
// APIs: Versity's gateway for S3, fsouza's server for Google Cloud Storage. For Azure
// there is none in Go.
package stores
