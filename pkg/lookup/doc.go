// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package lookup determines the command line that an image has for each of its platforms,
// and the digest of the image.
//
// # Why lookups are necessary
//
// A container that sets command specifies the whole command line. A container without
// command inherits the image's ENTRYPOINT (and, if args is unset too, its CMD). To put a
// process in front of such a container, the caller has to know ENTRYPOINT and CMD, and only the
// registry has them.
//
// # The structure of images
//
// A reference (a tag, or a digest) leads either to a manifest or to an index. A manifest
// points to a config, which holds Entrypoint and Cmd. An index points to one manifest for
// each platform (linux/amd64, linux/arm64/v8, ...), and the platforms may have different
// command lines. An index may also point to attestations, whose platform is
// unknown/unknown, and which aren't images.
//
// # Access
//
// Every query carries the namespace, the service account and the pull secrets of its pod.
// The facts about a digest never change, and are cached for all namespaces. But before a
// cached answer is given, the manifest is opened with the credentials of the query's pod
// (see [Registry]), so that a tenant learns the command lines only of images that the
// tenant may pull.
//
// # Untrusted registries
//
// The creator of a pod chooses the registry, so the package trusts none of a registry's
// answers, and bounds the memory, the reads and the connections that a registry can
// cause: all requests and answers pass one gate (gate.go, addresses.go), and namespaces
// share scarce resources. An error quotes nothing of an answer, except the error document
// of a registry.
//
// The package caches facts. The caller decides what follows from them.
package lookup
