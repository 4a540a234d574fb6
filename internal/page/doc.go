// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package page serves what the kubectl plugin knows of the pods of a namespace as web pages:
// which runs there are, and of each where its time went and what it said.
//
// The server makes the whole page, so that it works without scripts. One module in the
// browser asks for the page again while something goes on, and replaces the parts that have
// changed. A strict Content-Security-Policy holds for everything: no script or style stands
// in a page, and nothing comes from elsewhere. Texts of tenants are escaped by html/template,
// and their control characters by package printable.
package page
