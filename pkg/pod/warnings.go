// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

// A Warning tells the author of an admitted pod, or of a namespace, what is wrong with it.
type Warning struct {
	Reason Reason
	// Message says what is wrong, and what to do instead. It is the same for all pods of
	// one template.
	Message string
}

// String is the warning as an API server passes it on, with its origin.
func (w Warning) String() string { return "entrypointer: " + w.Message }

// Messages are the warnings as an API server passes them on.
func Messages(warnings []Warning) (messages []string) {
	for _, w := range warnings {
		messages = append(messages, w.String())
	}
	return messages
}

// Reason names the mistake behind a Warning. It is the reason of the event that the
// pod's controller gets.
type Reason string

// The reasons.
const (
	ReasonUnknownAnnotation        Reason = "UnknownAnnotation"        // no release of ours is known to read an annotation in our domain
	ReasonAnnotationHasNoEffect    Reason = "AnnotationHasNoEffect"    // an annotation of ours changes nothing on this pod or namespace
	ReasonLabelHasNoEffect         Reason = "LabelHasNoEffect"         // a label in our domain stands for an annotation
	ReasonNoRoomForAnnotation      Reason = "NoRoomForAnnotation"      // the pod's annotations have reached the size that an API server stores
	ReasonOptOutForbidden          Reason = "OptOutForbidden"          // the pod says inject: "false", which pod-opt-out forbids
	ReasonLookupFailed             Reason = "LookupFailed"             // a container runs unwrapped because its image can't be looked up
	ReasonLookupRecovered          Reason = "LookupRecovered"          // a container is wrapped whose earlier lookup failed
	ReasonImageNotPinned           Reason = "ImageNotPinned"           // the node may run another image than the one that was looked up
	ReasonStopSignalUnknown        Reason = "StopSignalUnknown"        // SIGTERM is taken for a stop signal that can't be looked up
	ReasonToolNotOffered           Reason = "ToolNotOffered"           // the operator offers no tool of this name
	ReasonToolNotAllowed           Reason = "ToolNotAllowed"           // allowed-registries excludes the tool's image from the namespace
	ReasonLogsNotSent              Reason = "LogsNotSent"              // a container's output goes to the cluster's logs only
	ReasonDirectoryNotShared       Reason = "DirectoryNotShared"       // one container alone names a shared directory
	ReasonContainerCountsAsSidecar Reason = "ContainerCountsAsSidecar" // end-sidecars doesn't wait for an unwrapped container
	ReasonHookBeforeProxy          Reason = "HookBeforeProxy"          // a postStart hook runs before the container that wait-for may mean
	ReasonWarningsOmitted          Reason = "WarningsOmitted"          // there are more warnings than a pod gets
)
