// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

// The annotations that users write, and the one that they read.
const (
	// InjectAnnotation opts a namespace in (a [Scope]), asks for a pod ("true"),
	// or opts a pod out ("false"). The label of the same name follows it on
	// namespaces, because API servers select by label only.
	InjectAnnotation = "entrypointer.dev/inject"
	// ContainersAnnotation narrows a pod that asks to the containers named,
	// separated by commas.
	ContainersAnnotation = "entrypointer.dev/containers"
	// DeliveryAnnotation says on a namespace how the supervisor gets into its pods,
	// in the place of the operator's [Policy].
	DeliveryAnnotation = domain + "/delivery"
	// StatusAnnotation holds the Outcome, on pods that are ours. Injected, which
	// stands for AlreadyInjected too, is followed by the Delivery ("Injected by
	// init-container"), PartlyInjected also by the names of the containers that run
	// unwrapped ("PartlyInjected by init-container: a,b"). Where containers wait for
	// each other, the order comes last ("Injected by init-container; order: db -> web").
	StatusAnnotation = "entrypointer.dev/status"
)

// safeToEvictAnnotation lists volumes that are no reason for the cluster
// autoscaler to keep a node
// (https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/FAQ.md).
const safeToEvictAnnotation = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"

// What is added to a pod.
const (
	InitContainerName = "entrypointer-init"
	VolumeName        = "entrypointer-bin"
	// MountPath is where VolumeName is mounted, read-only but for the init container.
	MountPath = "/entrypointer/bin"
	// EntrypointPath is the command of every wrapped container.
	EntrypointPath = MountPath + "/entrypoint"

	ToolsVolumeName = "entrypointer-tools"
	// ToolsMountPath is where ToolsVolumeName is mounted, read-only but for the init
	// containers that copy tools. Each tool is there under its name.
	ToolsMountPath = "/entrypointer/tools"
	// toolContainerPrefix begins the names of these init containers.
	toolContainerPrefix = "entrypointer-tool-"
)

// Owner is whose pods are wrapped.
type Owner string

// The owners.
const (
	Tekton     Owner = "Tekton"     // the pod of a TaskRun
	Knative    Owner = "Knative"    // the pod of a Revision
	Annotation Owner = "Annotation" // any other pod that asks, by itself or by its namespace
)

// Outcome names what was decided about a pod. The log line, the metric label,
// the status annotation and the tests use the same words.
type Outcome string

// The outcomes that admit a pod.
const (
	Injected        Outcome = "Injected"        // changed
	PartlyInjected  Outcome = "PartlyInjected"  // changed, but lookups failed for some containers, which the operator lets run unwrapped
	AlreadyInjected Outcome = "AlreadyInjected" // every container that we would wrap is wrapped
	NotOptedIn      Outcome = "NotOptedIn"      // its namespace didn't opt in, so the API server can't have asked
	NotOurs         Outcome = "NotOurs"         // neither Tekton's nor Knative's, and neither the pod nor its namespace asks
	NothingToWrap   Outcome = "NothingToWrap"   // ours, without a container to wrap
	NotSelected     Outcome = "NotSelected"     // the operator leaves pods of this owner alone
	OptedOut        Outcome = "OptedOut"        // its own annotation says "false"
	Windows         Outcome = "Windows"         // the supervisor is a Linux program
	MirrorPod       Outcome = "MirrorPod"       // the kubelet runs it from a file, whatever we say
	LookupWaived    Outcome = "LookupWaived"    // all lookups failed, and the operator lets such pods run unwrapped
)

// The outcomes that refuse a pod.
const (
	InvalidAnnotation Outcome = "InvalidAnnotation" // an annotation of ours can't be understood
	NameCollision     Outcome = "NameCollision"     // the author's volume, mount or init container is where ours belongs
	NoCommand         Outcome = "NoCommand"         // neither the container nor its image says what to run
	LookupFailed      Outcome = "LookupFailed"      // the image can't be looked up
	LogsNotSent       Outcome = "LogsNotSent"       // a container's output can't be sent, and the operator lets no such pod run
	UnknownCaller     Outcome = "UnknownCaller"     // whoever asks doesn't show an API server's certificate
	InternalError     Outcome = "InternalError"     // a defect of ours
)

// Refusal is the error of a pod that must not run as it is.
type Refusal struct {
	Outcome Outcome
	Err     error
}

// Error says what is wrong and what to do about it.
func (r *Refusal) Error() string { return r.Err.Error() }

// Unwrap returns the cause.
func (r *Refusal) Unwrap() error { return r.Err }
