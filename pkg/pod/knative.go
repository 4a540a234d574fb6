// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

// knativeKind are the pods of Revisions.
var knativeKind = Kind{
	Owner: Knative, Label: "serving.knative.dev/revision", Controller: "ReplicaSet", Own: []string{"queue-proxy"},
	RestartsAll: "Knative restarts all containers of a Revision; remove the annotation",
}
