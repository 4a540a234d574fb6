// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package page tests the page of the kubectl plugin in browsers: headless Chromium, which
// chromedp drives, and what depends most on the browser also in headless Firefox, by WebDriver
// BiDi. It is a module of its own, because chromedp is no dependency of the product.
//
// The cluster is that of internal/page/pagetest, an API server with recorded runs: what a
// browser does with the page doesn't depend on where its data is from, and so the tests need
// no cluster, and the pictures are always the same.
//
// With the build tag e2e, there are tests whose names have Cluster, which make page runs: what the
// page shows of runs and logs of a real cluster, by the command and, for a team, by the pod of the
// log service, also through oauth2-proxy (folder oauth2proxy), where users log in at a provider of the
// tests (login). They share a namespace with the objects of testdata, and most of them one process of the command.
// With the tag slow, there is one that waits for the log service to join objects: make page-slow.
//
// The bench beside the tests compares the page with Tekton Dashboard.
package page
