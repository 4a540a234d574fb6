// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package lookup answers one question: which command line does an image
// carry, for each of its platforms, and at which digest was it read?
//
// # Why it has to be asked
//
// A container whose manifest sets command says everything that will run. One
// that leaves it unset inherits the image's ENTRYPOINT (and, if args is unset
// too, its CMD). Whoever wants to put a process in front of such a container
// has to know them, and only the registry does.
//
// # What an image reference leads to
//
// A reference (a tag, or a digest) names either one manifest or an index. A
// manifest points to a config, which holds Entrypoint and Cmd. An index points
// to one manifest a platform (linux/amd64, linux/arm64/v8, ...), and those may
// well disagree. It may also point to attestations, which claim the platform
// unknown/unknown and are no images at all.
//
// # Whose question it is
//
// Every question carries the namespace, the service account and the pull
// secrets of the pod it is asked for. What a digest says never changes and is
// cached for all; but the manifest is opened with the asker's own credentials
// before a cached answer is given (see [Registry]), so that nobody learns the
// command line of an image that they could not have pulled.
//
// # Who answers it
//
// Whoever may create a pod chooses the registry, so nothing that it says is
// believed, and what it can make us hold, read or connect to is bounded: each
// request goes out and each answer comes in through one gate (gate.go,
// addresses.go), and what is scarce is shared between namespaces. An error tells
// nothing of an answer that isn't a registry's own word.
//
// The package caches facts. What to do with them is its caller's decision.
package lookup
