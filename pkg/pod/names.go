// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"github.com/entrypointer/entrypointer/pkg/pod/internal/annotation"
	"github.com/entrypointer/entrypointer/pkg/pod/internal/between"
	"github.com/entrypointer/entrypointer/pkg/pod/internal/text"
)

// The annotations that users write, and the status annotation, which they read.
const (
	// InjectAnnotation opts a namespace in (with a [Scope]), asks for a pod to be wrapped
	// ("true"), or opts a pod out ("false"). On namespaces, the label of the same name
	// follows the annotation, because API servers select by label only.
	InjectAnnotation = "entrypointer.dev/inject"
	// ContainersAnnotation restricts the wrapping of a pod that asks to the named
	// containers, separated by commas.
	ContainersAnnotation = annotation.Containers
	// DeliveryAnnotation sets, on a namespace, the delivery for its pods. It takes
	// precedence over the operator's [Policy].
	DeliveryAnnotation = annotation.Domain + "/delivery"
	// StatusAnnotation holds the Outcome, on pods that have an Owner. Injected, which
	// stands for AlreadyInjected too, is followed by the Delivery ("Injected by
	// init-container"). PartlyInjected is followed by the Delivery and the names of the
	// unwrapped containers ("PartlyInjected by init-container: a,b"), and NotOurs by the
	// annotation that asks. If containers wait for each other, the order follows
	// ("Injected by init-container; order: db -> web"), and [Injector.Version] after it.
	StatusAnnotation = "entrypointer.dev/status"
	// MayWaitAnnotation is set by an API server, together with the status [Undecided], on a
	// pod that may wait for the injector.
	MayWaitAnnotation = annotation.Domain + "/may-wait"
	// ExplainAnnotation asks the injector to explain its decision, on a pod that is created
	// by a dry run: its author may not be allowed to read the operator's configuration.
	ExplainAnnotation = annotation.Domain + "/explain"
	// ExplanationAnnotation holds the answer, a list of [Explanation] as JSON.
	ExplanationAnnotation = annotation.Domain + "/explanation"
)

// safeToEvictAnnotation lists volumes that don't prevent the cluster autoscaler from
// draining a node
// (https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/FAQ.md).
const safeToEvictAnnotation = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"

// accountMountPath is the path at which API servers mount the token of a pod's service
// account in each container that has no mount at exactly this path (DefaultAPITokenMountPath in
// https://github.com/kubernetes/kubernetes/blob/v1.36.3/plugin/pkg/admission/serviceaccount/admission.go).
const accountMountPath = "/var/run/secrets/kubernetes.io/serviceaccount"

// The names of options of which the code knows more than their rows say.
const (
	timeoutOption          = "timeout"
	gracePeriodOption      = "grace-period"
	hooksOption            = "before-start"
	exitCodesOption        = "success-exit-codes"
	dependsOnTimeoutOption = "depends-on-timeout"
	toolsOption            = "tools"
	traceOption            = "trace"
	logsWhenFullOption     = "logs-when-full"     // its default depends on the value of logs
	logsFlushOption        = "logs-flush-timeout" // likewise
)

// Names and paths that are added to a pod.
const (
	InitContainerName = "entrypointer-init"
	VolumeName        = "entrypointer-bin"
	// MountPath is the mount path of VolumeName, read-only except in the init container.
	MountPath = "/entrypointer/bin"
	// EntrypointPath is the command of every wrapped container.
	EntrypointPath = MountPath + "/entrypoint"

	ToolsVolumeName = "entrypointer-tools"
	// ToolsMountPath is the mount path of ToolsVolumeName, read-only except in the init
	// containers that copy tools. Each tool is a file there, under the tool's name.
	ToolsMountPath = "/entrypointer/tools"
	// OrderVolumePrefix begins the name of the emptyDir in which a container publishes
	// its state for the containers that depend on it. The rest is the container's name.
	OrderVolumePrefix = between.OrderVolumePrefix
	// OrderMountPath has one directory for each such container, under its name: writable
	// for that container, read-only for the containers that depend on it.
	OrderMountPath = between.OrderMountPath

	// SharedVolumePrefix begins the name of the emptyDir of a shared directory. The rest
	// is the directory's name.
	SharedVolumePrefix = between.SharedVolumePrefix
	// SharedMountPath has one directory for each directory that a container shares, under
	// its name.
	SharedMountPath = between.SharedMountPath

	// podUIDVariable is a variable of the containers whose trace begins with their pod. Their
	// supervisors read it, and don't pass it on.
	podUIDVariable = "ENTRYPOINTER_POD_UID"

	// toolContainerPrefix begins the names of the init containers that copy tools.
	toolContainerPrefix = "entrypointer-tool-"
)

// Outcome names a decision on a pod. The log line, the metric label, the status
// annotation and the tests use the same words.
type Outcome string

// The outcomes that admit a pod.
const (
	Injected        Outcome = "Injected"        // changed
	PartlyInjected  Outcome = "PartlyInjected"  // changed, but lookups failed for some containers, which the operator lets run unwrapped
	AlreadyInjected Outcome = "AlreadyInjected" // every container to wrap is wrapped already
	NotOptedIn      Outcome = "NotOptedIn"      // its namespace didn't opt in, so that no API server can have asked
	NotOurs         Outcome = "NotOurs"         // neither Tekton's nor Knative's, and neither the pod nor its namespace asks
	NothingToWrap   Outcome = "NothingToWrap"   // the pod has an owner, and no container to wrap
	NotSelected     Outcome = "NotSelected"     // the operator excludes pods of this owner
	OptedOut        Outcome = "OptedOut"        // its own annotation says "false"
	Windows         Outcome = "Windows"         // the supervisor is a Linux program
	MirrorPod       Outcome = "MirrorPod"       // the kubelet runs the pod from a file, whatever admission decides
	LookupWaived    Outcome = "LookupWaived"    // all lookups failed, and the operator lets such pods run unwrapped
)

// The outcomes that refuse a pod.
const (
	InvalidAnnotation Outcome = "InvalidAnnotation" // an annotation in our domain has an invalid key or value
	NameCollision     Outcome = "NameCollision"     // the author's volume, mount, init container or variable has the name or the path of ours
	NoCommand         Outcome = "NoCommand"         // neither the container nor its image has a command line that is known
	NoExec            Outcome = "NoExec"            // a mount of ours has the option noexec
	LookupFailed      Outcome = "LookupFailed"      // the image can't be looked up
	LogsNotSent       Outcome = "LogsNotSent"       // a container's output can't be sent, and the operator refuses such pods
	InternalError     Outcome = "InternalError"     // a defect of the injector
)

// The statuses of pods that no injector has decided on. An injector that is asked replaces
// them.
const (
	// Undecided is that of a pod that is refused: none runs with it while an injector is
	// installed.
	Undecided = "Undecided"
	// InjectedByPolicy is that of a plain pod of a TaskRun that an API server has wrapped by
	// itself.
	InjectedByPolicy = string(Injected) + " by " + string(DeliveryInitContainer) + "; by policy"
)

// Refusal is the error of a pod that must not run as it is.
type Refusal struct {
	Outcome Outcome
	Err     error
}

// Error describes the mistake, and how to correct it.
func (r *Refusal) Error() string { return r.Err.Error() }

// Unwrap returns the cause.
func (r *Refusal) Unwrap() error { return r.Err }

// refuse returns a refusal in which quoted text is shortened.
func refuse(outcome Outcome, format string, args ...any) *Refusal {
	return &Refusal{Outcome: outcome, Err: text.Errorf(format, args...)}
}
