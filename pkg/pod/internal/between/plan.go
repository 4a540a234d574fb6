// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package between determines what the containers of a pod have to do with each other, as
// docs/between-containers.md and docs/order-reference.md describe it: who waits for whom, who is
// stopped after whom, whose output another one reads, which directories they share, and
// how sidecars end.
//
// [Compile] reads the annotations of a pod, refuses what can't be satisfied, and returns a
// [Plan]. It changes nothing: package pod asks the plan for the flags of each supervisor
// and for the volumes of the pod, and installs them.
//
// The order of containers is a graph: order.go builds it, ordergraph.go has algorithms for
// any such graph, ordercheck.go refuses an order that can't be satisfied, and orderstop.go
// derives the order in which containers stop. ready.go and probe.go turn probes into flags
// of the supervisor, and startup.go gives a container that waits a probe of ours.
// ordervolume.go and shareddirectory.go say which directories a container has.
package between

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/pkg/pod/internal/text"
)

// The options that relate containers to each other.
const (
	DependsOn       = "depends-on"
	StopWhen        = "stop-when"
	ReadyWhen       = "ready-when"
	WaitFor         = "wait-for"
	EndSidecars     = "end-sidecars"
	Stdin           = "stdin"
	SharedDirectory = "shared-directory"
)

// checks parse the values of the options.
var checks = map[string]func(value string) error{
	DependsOn:       func(value string) error { _, err := parseDependencies(value); return err },
	StopWhen:        func(value string) error { _, err := parseStopWhen(value); return err },
	ReadyWhen:       func(value string) error { _, err := parseReadyWhen(value); return err },
	WaitFor:         func(value string) error { _, err := parseWaitFor(value); return err },
	EndSidecars:     func(value string) error { _, err := parseSidecars(value); return err },
	Stdin:           parseStdin,
	SharedDirectory: func(value string) error { _, err := parseSharedDirectories(value); return err },
}

// Check returns the function that checks a value of an option. Its error describes the
// valid values.
func Check(option string) func(value string) error { return checks[option] }

// A Pod is a pod with the decisions on which its plan depends.
type Pod struct {
	// Object is the pod as it was sent.
	Object *corev1.Pod
	// Wrapped are the indexes of the containers that get a supervisor.
	Wrapped []int
	// Owner is the owner of the pod.
	Owner Owner
	// Ordered reports whether containers can wait for each other. The containers of some
	// owners have an order of their own.
	Ordered bool
	// OwnKernels reports whether the containers may have kernels of their own, so that
	// neither locks nor pipes work between them.
	OwnKernels bool
	// Supervisor is the path of the supervisor in a container.
	Supervisor string
	// EndSidecars is the setting of the option end-sidecars, nil without one.
	EndSidecars *Setting
	// Annotated returns the annotation that sets an option for a container, and its value.
	Annotated func(option, container string) (key, value string, set bool)
	// Replaced returns the source of the setting by which the command replaces the
	// supervisor of a container (mode: exec), "" without one.
	Replaced func(container string) (source string)
	// IsProxy reports whether other webhooks add a container of this name.
	IsProxy func(container string) bool
	// Former returns the flags that a container has from an earlier call.
	Former func(corev1.Container) []string
}

// An Owner is what a plan has to know of a pod's owner.
type Owner struct {
	Name       string
	Containers []string // the names of its own containers, which aren't wrapped
	// RestartsAll advises the author of a helper why it is restarted whenever it ends, ""
	// if the author can change that.
	RestartsAll string
}

// A Setting is the value of an option, and its source.
type Setting struct {
	Value  string
	Source string // for errors
	Own    bool   // the pod's own annotation is the source
}

// A Note is about a mistake that doesn't prevent the plan.
type Note struct {
	Kind Kind
	Text string
}

// Kind is the kind of a note.
type Kind int

// The kinds.
const (
	NoEffect           Kind = iota // an annotation changes nothing
	HookBeforeProxy                // a postStart hook runs before the container that wait-for may mean
	CountsAsSidecar                // end-sidecars doesn't wait for an unwrapped container
	DirectoryNotShared             // one container alone names a shared directory
)

// A Plan is what the containers of a pod have to do with each other.
type Plan struct {
	of     Pod
	order  *ordering
	shared sharing
}

// A builder makes a Plan.
type builder struct {
	Pod
	order     *ordering
	shared    sharing
	restarter *string // the result of restartsAll, nil before the first call
	notes     []Note
}

// Compile reads the relations between containers from the pod's annotations, and refuses
// those that are impossible.
func Compile(p Pod) (_ *Plan, _ []Note, err error) {
	b := &builder{Pod: p}
	if b.order, err = b.compileOrder(); err != nil {
		return nil, nil, err
	}
	if err := b.compileWaitFor(); err != nil {
		return nil, nil, err
	}
	if err := b.compileStartupProbes(); err != nil {
		return nil, nil, err
	}
	if err := b.compileEnding(); err != nil {
		return nil, nil, err
	}
	if b.shared, err = b.compileSharing(); err != nil {
		return nil, nil, err
	}
	return &Plan{of: p, order: b.order, shared: b.shared}, b.notes, nil
}

// note notes a mistake. Quoted text is shortened.
func (b *builder) note(kind Kind, format string, args ...any) {
	b.notes = append(b.notes, Note{kind, text.Sprintf(format, args...)})
}

// Flags returns the flags of a container's supervisor. signal is the container's stop signal
// if that isn't SIGTERM, and matters only if NeedsSignal returns true.
func (p *Plan) Flags(container, signal string) []string {
	return slices.Concat(p.order.flags(container, signal), p.order.standaloneFlags(container), p.order.finalFlags(container))
}

// Waits reports whether a container waits before its command starts.
func (p *Plan) Waits(container string) bool { return p.order.isWaiter(container) }

// Needs reports whether a container can't run unwrapped: it has a place in the order, and
// would neither wait nor report, or it would lack a directory.
func (p *Plan) Needs(container string) bool {
	return p.order.mustBeWrapped(container) || p.shared.has(container)
}

// EndsSidecars reports whether the sidecars are ended after the last end of this container
// and of others.
func (p *Plan) EndsSidecars(container string) bool {
	return p.order != nil && p.order.ending != nil && slices.Contains(p.order.ending.members, container)
}

// NeedsSignal reports whether the stop signal of a container matters: the container is
// held back, or others are held back for it, or it is a helper that gets the signal.
func (p *Plan) NeedsSignal(container string) bool {
	return p.order != nil && (p.order.turns[container] || len(p.order.stopWhen[container]) > 0)
}

// Families returns the volumes that containers have in common, in the order in which they
// are added to a pod.
func (p *Plan) Families() []Family {
	return []Family{p.order.family(p.of.Object), p.shared.family()}
}

// String returns the graph in its short form, "" if no container has a place in the order:
// the containers that wait for none, those that wait for them, the helpers, and the pipes,
// as in "migrate, cache -> web; proxy until web; a | b".
func (p *Plan) String() string { return p.order.String() }
