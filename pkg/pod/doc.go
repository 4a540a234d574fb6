// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package pod wraps the containers of a pod: it puts the supervisor in front of them.
//
// parse.go parses the annotations of a pod, once. Then the package answers these questions,
// each in its turn:
//
//   - Which owner does the pod have: Tekton, Knative, an annotation, or none? (select.go)
//   - Which of its containers are wrapped? (select.go)
//   - Which annotations have no effect, or can't be? (annotations.go)
//   - Which settings has each container? (settings.go)
//   - Which flags has its supervisor, and is that possible? (check.go, options.go)
//   - What is the original argv of each of them? (argv.go asks the registry)
//   - How does the supervisor get into the pod? (write.go, delivery.go, init.go) How is a
//     supervisor restored that another release left, or a tenant forged? (volumes.go, repair.go)
//
// inject.go asks them, and result.go writes the answer to the pod. wrapping.go has the data
// that they hand on, and refers to none of them, so that an answer needs only the files of
// earlier questions. A mistake of the pod's author is found before a registry is asked.
// former.go recognises what an earlier run or release has left in the pod.
//
// A pod may also get tools that the operator offers: tool.go decides which tools, and
// tools.go brings them into the pod.
//
// What the containers have to do with each other (their order, pipes, waits, shared
// directories, and the end of sidecars) is a plan of internal/between, which changes
// nothing itself: between.go asks for the plan, and volumes.go installs its volumes.
//
// options.go turns annotations into flags of the supervisor, by the functions of
// optionvalues.go, logsvalues.go, toolsvalues.go and handoff.go, which know nothing of the
// pod but their context. settings.go decides which of several settings takes precedence, and
// finds the annotations of Tekton's steps, which have two names. annotations.go warns of
// annotations without effect. tekton.go reads the args of a step, and firststep.go has the
// steps of a TaskRun tell each other that they have started. internal/text bounds what is
// quoted of a pod.
//
// The result is a changed copy of the pod and a named [Outcome]. [Patch] turns
// the pod before and after into a JSON patch that touches only the parts that this
// package owns.
//
// # The one rule
//
// The original argv of a container becomes the arguments of the supervisor:
//
//	command: [/entrypointer/bin/entrypoint]
//	args: [<flags>, --, <the original argv>]
//
// Kubernetes' names differ from the image's: command replaces ENTRYPOINT, args
// replaces CMD, and setting command drops CMD as well. The kubelet expands
// $(VAR) in command and args, but not in the image's ENTRYPOINT and CMD, so each
// $ of the image's words is doubled.
//
// # Names and paths
//
// The names of the volume and the init container, the path of the supervisor and
// the prefix of the annotations are constants. By these names, an injector recognises
// the work of another injector, for instance of another release. Two injectors with
// different names would wrap a pod twice.
package pod
