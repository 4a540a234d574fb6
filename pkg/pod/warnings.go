// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"github.com/entrypointer/entrypointer/pkg/pod/internal/annotation"
	"github.com/entrypointer/entrypointer/pkg/pod/internal/text"
)

// A Warning tells the author of an admitted pod, or of a namespace, about a mistake.
type Warning struct {
	Reason Reason
	// Message describes the mistake, and how to correct it. It is the same for all pods
	// of one template.
	Message string
}

// String returns the warning as an API server passes it on, with its origin.
func (w Warning) String() string { return "entrypointer: " + w.Message }

// Messages returns the warnings as an API server passes them on.
func Messages(warnings []Warning) (messages []string) {
	for _, w := range warnings {
		messages = append(messages, w.String())
	}
	return messages
}

// Reason names the mistake behind a Warning. It becomes the reason of the event for the
// pod's controller.
type Reason string

// The reasons.
const (
	ReasonUnknownAnnotation        Reason = "UnknownAnnotation"        // no known release reads this annotation in our domain
	ReasonAnnotationHasNoEffect    Reason = "AnnotationHasNoEffect"    // an annotation in our domain changes nothing on this pod or namespace
	ReasonLabelHasNoEffect         Reason = "LabelHasNoEffect"         // a label in our domain is used in place of an annotation
	ReasonNoRoomForAnnotation      Reason = "NoRoomForAnnotation"      // the pod's annotations have reached the size that an API server stores
	ReasonOptOutForbidden          Reason = "OptOutForbidden"          // the pod has inject: "false", which pod-opt-out forbids
	ReasonLookupFailed             Reason = "LookupFailed"             // a container runs unwrapped because its image can't be looked up
	ReasonLookupRecovered          Reason = "LookupRecovered"          // a container is wrapped whose earlier lookup failed
	ReasonImageNotPinned           Reason = "ImageNotPinned"           // the node may run another image than the one that was looked up
	ReasonStopSignalUnknown        Reason = "StopSignalUnknown"        // SIGTERM is assumed for a stop signal that can't be looked up
	ReasonToolNotOffered           Reason = "ToolNotOffered"           // the operator offers no tool of this name
	ReasonToolNotAllowed           Reason = "ToolNotAllowed"           // allowed-registries excludes the tool's image from the namespace
	ReasonLogsNotSent              Reason = "LogsNotSent"              // a container's output goes to the cluster's logs only
	ReasonDirectoryNotShared       Reason = "DirectoryNotShared"       // one container alone names a shared directory
	ReasonContainerCountsAsSidecar Reason = "ContainerCountsAsSidecar" // end-sidecars doesn't wait for an unwrapped container
	ReasonHookBeforeProxy          Reason = "HookBeforeProxy"          // a postStart hook runs before the container that wait-for may mean
	ReasonWarningsOmitted          Reason = "WarningsOmitted"          // there are more warnings than a pod gets
)

// maxWarnings is the number of warnings that a pod gets.
const maxWarnings = 16

// warning returns a warning in which quoted text is shortened.
func warning(reason Reason, format string, args ...any) Warning {
	return Warning{Reason: reason, Message: text.Sprintf(format, args...)}
}

// tooManyAnnotations warns of an annotation in our domain for which there is no room.
func tooManyAnnotations(key string) Warning {
	return warning(ReasonNoRoomForAnnotation, "annotation %s is left out: with it, the pod's annotations would have more than %d bytes", key, annotation.MaxTotal)
}

// bounded returns the first maxWarnings warnings, and a warning with the number of those
// omitted.
func bounded(warnings []Warning) []Warning {
	more := len(warnings) - maxWarnings
	if more <= 0 {
		return warnings
	}
	omitted := warning(ReasonWarningsOmitted, "%d more warnings are omitted", more)
	if more == 1 {
		omitted = warning(ReasonWarningsOmitted, "1 more warning is omitted")
	}
	return append(warnings[:maxWarnings:maxWarnings], omitted)
}
