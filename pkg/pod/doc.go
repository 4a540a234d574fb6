// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package pod puts the supervisor in front of the containers of a pod.
//
// It asks five questions, in this order, and each has its file:
//
//   - Whose pod is it? Tekton's, Knative's, one that asks by annotation, or
//     none of ours (select.go).
//   - Which of its containers are wrapped? (select.go)
//   - What is the argv that each of them would have run? (argv.go)
//   - What has to change for the supervisor to run it? (mutate.go)
//   - How does the supervisor get into the pod? (volume.go, init.go) And what if
//     it is there already, left by another release or forged? (repair.go)
//
// The tools that an operator offers come beside it: which a pod may have is in
// tool.go, how they get into it in tools.go.
//
// Which containers wait for others is a graph: order.go reads it, ordergraph.go has
// what is true of any graph, ordercheck.go refuses what can't come true, ready.go makes
// probes of the supervisor's, and ordervolume.go gives the containers the directories
// in which they tell each other.
//
// What annotations ask of the supervisor is in options.go and optionvalues.go, whose
// word counts in settings.go, and which annotations do nothing in annotations.go.
// What is taken over from a pod has bounds (bounds.go).
//
// The answer is a changed copy of the pod and a named [Outcome]; [Patch] turns
// the pod before and after into a JSON patch that touches only what this
// package owns.
//
// # The one rule
//
// Whatever a container would have run becomes the arguments of the supervisor:
//
//	command: [/entrypointer/bin/entrypoint]
//	args: [<flags>, --, <the original argv>]
//
// Kubernetes' names differ from the image's: command replaces ENTRYPOINT, args
// replaces CMD, and setting command drops CMD as well. The kubelet expands
// $(VAR) in command and args, but never in what comes from the image, so each
// $ of a token that we bring from the image is doubled.
//
// # Names and paths
//
// The names of the volume and the init container, the path of the supervisor and
// the prefix of the annotations are constants. An injector recognises what another
// one has done by them, such as another release: two with names of their own
// would wrap a pod twice.
package pod
