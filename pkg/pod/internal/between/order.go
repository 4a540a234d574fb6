// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package between

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/entrypointer/entrypointer/pkg/conditions"
	"github.com/entrypointer/entrypointer/pkg/pod/internal/annotation"
	"github.com/entrypointer/entrypointer/pkg/pod/internal/text"
	"github.com/entrypointer/entrypointer/pkg/spelling"
)

// A dependency is one word of the option depends-on, or of stop-when:
// CONTAINER:CONDITION, with a question mark at the end if the container is optional.
type dependency struct {
	on        string
	condition conditions.Condition
	optional  bool
}

// value returns the value of a dependency's flag.
func (d dependency) value() string { return string(d.condition) + ":" + orderDirectory(d.on) }

// parseDependencies parses a value of the option depends-on.
func parseDependencies(value string) ([]dependency, error) { return parseWords(value, conditions.All) }

// parseWords parses a list of containers with these conditions. No container may appear
// twice.
func parseWords(value string, known conditions.List) ([]dependency, error) {
	wrong := text.CanBe("CONTAINER:CONDITION, several with commas, each container once, and with a question mark behind an optional container; a condition is " + known.String())
	var list []dependency
	named := map[string]bool{}
	for _, word := range text.SplitList(value) {
		name, what, found := strings.Cut(word, ":")
		what, optional := strings.CutSuffix(what, "?")
		if meant := spelling.DidYouMean(what, known.Words()); found && !known.Has(what) && meant != "" {
			return nil, fmt.Errorf("%w%s", wrong, meant)
		}
		if !found || !known.Has(what) || !isContainerName(name) || named[name] {
			return nil, wrong
		}
		named[name] = true
		list = append(list, dependency{on: name, condition: conditions.Condition(what), optional: optional})
	}
	if len(list) == 0 {
		return nil, wrong
	}
	return list, nil
}

// isContainerName reports whether a container can have this name. The name becomes a part
// of a path.
func isContainerName(name string) bool { return len(validation.IsDNS1123Label(name)) == 0 }

// maxOrdered is the number of containers of a pod that can have a place in its order.
const maxOrdered = 128

// An ordering is the graph of a pod's containers that wait for each other, or end with
// each other. A nil ordering has no containers.
type ordering struct {
	names    []string                // of the containers in it, in the pod's order
	waits    map[string][]dependency // by the container that waits
	sees     map[string][]string     // by the container that reads: those whose directories it reads
	tells    map[string]bool         // the containers that have a directory
	probes   map[string][]string     // of those that shall be ready: the flags by which they find out
	stopWhen map[string][]dependency // by the helper that ends with others: when
	stops    map[string]*stop        // by the container that is stopped after others: how
	turns    map[string]bool         // the containers that are stopped in turn: after others, or before
	// finals are the exit codes after which a container isn't restarted, by container; "" if
	// it always is.
	finals map[string]string
	// startups are the flags of the authors' startupProbes of containers that wait.
	startups map[string][]string
	// waitForFlags are the flags of containers that wait for unwrapped containers.
	waitForFlags map[string][]string
	ending       *ending
	pipes        pipes
	// doubtful reports that locks and inotify may not work between the containers.
	doubtful bool
}

func (o *ordering) isWaiter(name string) bool {
	return o != nil && (len(o.waits[name]) > 0 || len(o.waitForFlags[name]) > 0 || o.pipes.has(name))
}

// see notes that a container reads the state of another container.
func (o *ordering) see(reader, other string) {
	if !slices.Contains(o.sees[reader], other) {
		o.sees[reader] = append(o.sees[reader], other)
	}
	o.tells[other] = true
}

func (o *ordering) has(name string) bool { return o != nil && (o.tells[name] || len(o.sees[name]) > 0) }

// flags returns the flags of a container that has a place in the order.
func (o *ordering) flags(name, signal string) (flags []string) {
	if !o.has(name) {
		return nil
	}
	if o.doubtful {
		flags = append(flags, orderHeartbeatFlag+"true")
	}
	if o.tells[name] {
		flags = append(append(flags, orderDirFlag+orderDirectory(name)), o.probes[name]...)
	}
	for _, d := range o.waits[name] {
		flags = append(flags, dependsOnFlag+d.value())
	}
	return slices.Concat(flags, o.pipes.flags[name], o.stopFlags(name, signal))
}

// finalFlags returns, for each container for whose end this container has to look, the
// exit codes after which that one isn't restarted.
func (o *ordering) finalFlags(name string) (flags []string) {
	if o == nil {
		return nil
	}
	var others []string
	for _, d := range slices.Concat(o.waits[name], o.stopWhen[name]) {
		others = append(others, d.on)
	}
	others = append(others, o.pipes.writers[name], o.pipes.readers[name])
	if o.ending != nil && slices.Contains(o.ending.members, name) {
		others = append(others, o.ending.members...)
	}
	said := map[string]bool{name: true}
	for _, other := range others {
		if codes := o.finals[other]; codes != "" && !said[other] {
			flags = append(flags, finalExitCodesFlag+codes+":"+orderDirectory(other))
		}
		said[other] = true
	}
	return flags
}

// compileOrder builds the graph from the pod's annotations, and refuses a graph that
// can't be satisfied.
func (b *builder) compileOrder() (*ordering, error) {
	if !b.Ordered {
		return nil, nil //nolint:nilnil // there is no graph
	}
	o := &ordering{
		waits: map[string][]dependency{}, sees: map[string][]string{}, tells: map[string]bool{}, probes: map[string][]string{},
		stopWhen: map[string][]dependency{}, stops: map[string]*stop{}, turns: map[string]bool{}, finals: map[string]string{},
		pipes:    pipes{writers: map[string]string{}, readers: map[string]string{}, flags: map[string][]string{}},
		doubtful: b.OwnKernels,
	}
	among := containersOf(b.Pod)
	for _, c := range b.Object.Spec.Containers {
		var err error
		if o.waits[c.Name], err = among.resolve(DependsOn, c.Name, parseDependencies, "be kept waiting"); err != nil {
			return nil, err
		}
		if o.stopWhen[c.Name], err = among.resolve(StopWhen, c.Name, parseStopWhen, "be ended"); err != nil {
			return nil, err
		}
		for _, d := range slices.Concat(o.waits[c.Name], o.stopWhen[c.Name]) {
			o.see(c.Name, d.on)
			if d.condition == conditions.Ready {
				o.probes[d.on] = nil // check determines the probe
			}
		}
	}
	if err := b.compilePipes(o, among); err != nil {
		return nil, err
	}
	for _, c := range b.Object.Spec.Containers {
		if o.has(c.Name) {
			o.names = append(o.names, c.Name)
		}
	}
	b.noteUnusedProbes(o)
	if len(o.names) == 0 {
		return nil, nil //nolint:nilnil // there is no graph
	}
	if len(o.names) > maxOrdered {
		return nil, text.Errorf("reading annotations %s.%s/CONTAINER and %s.%s/CONTAINER: %d containers of the pod would have a place in its order, and %d is the most; have fewer of them wait",
			DependsOn, annotation.Domain, StopWhen, annotation.Domain, len(o.names), maxOrdered)
	}
	return o, b.check(o, among)
}

// The containers are the set of containers in which dependencies are resolved.
type containers struct {
	pod      *corev1.Pod
	owner    Owner
	byName   map[string]*corev1.Container
	before   map[string]bool // init containers
	sidecars map[string]bool // those of them that run on, as native sidecars
	wrapped  map[string]bool // those that get the supervisor
}

// containersOf returns the containers of a pod.
func containersOf(of Pod) containers {
	pod := of.Object
	among := containers{pod: pod, owner: of.Owner, byName: map[string]*corev1.Container{}, before: map[string]bool{}, sidecars: map[string]bool{}, wrapped: map[string]bool{}}
	for at := range pod.Spec.Containers {
		c := &pod.Spec.Containers[at]
		among.byName[c.Name] = c
	}
	for _, c := range pod.Spec.InitContainers {
		among.before[c.Name] = true
		among.sidecars[c.Name] = c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
	}
	for _, index := range of.Wrapped {
		among.wrapped[pod.Spec.Containers[index].Name] = true
	}
	return among
}

// resolve returns the containers of the pod that an option of a container names, nil if
// the option isn't set. A container without a supervisor can't be treated so.
func (among containers) resolve(option, container string, parse func(string) ([]dependency, error), treated string) (found []dependency, _ error) {
	key := annotation.For(option, container)
	value, set := among.pod.Annotations[key]
	if !set {
		return nil, nil
	}
	all, err := parse(value)
	if len(all) > maxOrdered {
		return nil, text.Errorf("reading annotation %s: it names %d containers, and %d is the most", key, len(all), maxOrdered)
	}
	if err != nil {
		return nil, text.Errorf("reading annotation %s: %q is wrong; %w", key, value, err)
	}
	if !among.wrapped[container] {
		return nil, text.Errorf("reading annotation %s: container %q can't %s, because %w", key, container, treated, among.whyUnwrapped(container))
	}
	for _, d := range all {
		_, present := among.byName[d.on]
		switch {
		case among.wrapped[d.on]:
			found = append(found, d)
		case present:
			return nil, text.Errorf("reading annotation %s: container %q doesn't report its state, because %w", key, d.on, among.whyUnwrapped(d.on))
		case among.sidecars[d.on] && option == StopWhen:
			return nil, text.Errorf("reading annotation %s: %q is a native sidecar, which ends after all containers; remove it from the annotation", key, d.on)
		case among.sidecars[d.on] && d.condition == conditions.Started:
			// The kubelet starts no other container before it.
		case among.sidecars[d.on]:
			return nil, text.Errorf("reading annotation %s: %q is a native sidecar, which has no supervisor and ends after all containers; wait for it to be started, give it a startupProbe, for which Kubernetes waits, or wait for its URL by %s",
				key, d.on, WaitFor)
		case among.before[d.on]:
			return nil, text.Errorf("reading annotation %s: %q is an init container: the kubelet starts no other container before it; remove it from the annotation", key, d.on)
		case !d.optional:
			return nil, annotation.Absent(among.pod, key, d.on)
		}
	}
	return found, nil
}

// whyUnwrapped returns why a container of the pod isn't wrapped.
func (among containers) whyUnwrapped(name string) error {
	switch _, narrowed := among.pod.Annotations[annotation.Containers]; {
	case slices.Contains(among.owner.Containers, name):
		return fmt.Errorf("%s is %s's own, and isn't wrapped", name, among.owner.Name)
	case narrowed:
		return errors.New("it isn't wrapped; add it to annotation " + annotation.Containers)
	default:
		return errors.New("it isn't wrapped: proxies that other webhooks add are left alone")
	}
}

// noteUnusedProbes notes each ready-when for which no container waits.
func (b *builder) noteUnusedProbes(o *ordering) {
	for _, c := range b.Object.Spec.Containers {
		key := annotation.For(ReadyWhen, c.Name)
		_, asked := o.probes[c.Name]
		if _, set := b.Object.Annotations[key]; set && !asked {
			b.note(NoEffect, "annotation %s has no effect: no container depends on %q being ready", key, c.Name)
		}
	}
}
