// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package apiserver asks Kubernetes itself what it makes of wrapped pods: its
// validation, its PodSecurity levels, its arithmetic of requests and limits,
// and the kubelet's expansion of variables. It evaluates the CEL of the policies
// and webhooks that are installed with the API server's own libraries, and
// compares it with what pkg/pod decides. It is a module of its own, because the
// product doesn't import k8s.io/kubernetes.
package apiserver
