// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package between

import (
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/pkg/conditions"
	"github.com/entrypointer/entrypointer/pkg/pod/internal/annotation"
	"github.com/entrypointer/entrypointer/pkg/pod/internal/text"
)

const (
	// defaultGrace is the grace period of a pod that sets none, in seconds
	// (https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/apis/core/v1/defaults.go).
	defaultGrace = corev1.DefaultTerminationGracePeriodSeconds
	// maxReads is the number of directories that the containers of a pod read in all: the
	// mounts and flags for more directories would exceed the size that an API server
	// stores.
	maxReads = 8192
)

// A stop describes how a container is stopped after the containers that depend on it.
type stop struct {
	after    []string      // those that depend on it, in the pod's order
	share    time.Duration // of the grace period: how long it is held back at most
	delay    time.Duration // by which a preStop hook that only sleeps delays its signal
	grace    time.Duration // of the pod
	together bool          // the kubelet stops it with the whole pod only, and may tell it first
	alive    []string      // flags of its livenessProbe, after whose success the same holds
}

// parseStopWhen parses a value of the option stop-when.
func parseStopWhen(value string) ([]dependency, error) { return parseWords(value, conditions.Ends) }

// checkStopWhen refuses helpers that can't end with the work.
func (o *ordering) checkStopWhen(noEnd string, policies map[string]*restartPolicy) error {
	for _, name := range o.names {
		if len(o.stopWhen[name]) == 0 {
			continue
		}
		refuseEnd := func(format string, args ...any) error {
			return text.Errorf("reading annotation %s.%s/%s: "+format, append([]any{StopWhen, annotation.Domain, name}, args...)...)
		}
		if all := policies[name].withAll; all != "" {
			return refuseEnd("container %q would be started again, because a rule of container %q restarts all containers of the pod; use action Restart", name, all)
		}
		if policies[name].restarts[0] {
			advice := "set restartPolicy: OnFailure or Never, of the pod or of that container"
			if noEnd != "" {
				advice = noEnd
			}
			return refuseEnd("container %q would be started again and again, because it is restarted after a success; %s", name, advice)
		}
		for _, d := range o.stopWhen[name] {
			watched := policies[d.on]
			switch why := watched.prevents(d.condition, o.doubtful); {
			case d.on == name:
				return refuseEnd("container %q can't end when it has ended itself; name the containers that it helps", name)
			case watched.mode != "":
				return refuseEnd("by %s: exec, container %q has no supervisor that reports its end; remove one of them", watched.mode, d.on)
			case why != nil:
				return refuseEnd("container %q can't end when %q is %s: %w", name, d.on, string(d.condition), why)
			}
		}
	}
	return nil
}

// stopInReverse stops each container after the containers that depend on it, and the
// reader of a pipe after its writer. For this, both read each other's directories, both
// need a supervisor, and the pod needs a grace period.
func (o *ordering) stopInReverse(pod *corev1.Pod, among containers, policies map[string]*restartPolicy) error {
	grace := graceOf(pod)
	line := newStopOrder(o.names)
	after := func(name, first string) {
		if grace <= 0 || policies[first].mode != "" || policies[name].mode != "" || !line.add(name, first) {
			return
		}
		if o.stops[name] == nil {
			o.stops[name] = newStop(among.byName[name], o.isWaiter(name) || waitsForURLs(pod, name))
		}
		o.stops[name].after = append(o.stops[name].after, first)
		o.see(name, first)
		o.turns[name], o.turns[first] = true, true
	}
	for _, writer := range o.names {
		if reader := o.pipes.readers[writer]; reader != "" {
			after(reader, writer)
		}
	}
	for _, waiter := range o.names {
		for _, name := range o.serving(waiter, policies) {
			after(name, waiter)
		}
	}
	level, highest := o.stopLevels()
	for name, s := range o.stops {
		s.share, s.delay, s.grace = shareOf(grace, level[name], highest+1), preStopSleep(among.byName[name]), grace
		// A container without a preStop hook gets its signal at once, and reports it.
		if !slices.ContainsFunc(s.after, func(waiter string) bool { return hasPreStop(among.byName[waiter]) }) {
			s.together, s.alive = false, nil
		}
	}
	reads := 0
	for _, others := range o.sees {
		reads += len(others)
	}
	if reads > maxReads {
		return text.Errorf("reading annotations %s.%s/CONTAINER: the containers of the pod would read %d directories of each other, and %d is the most; reduce the dependencies between them",
			DependsOn, annotation.Domain, reads, maxReads)
	}
	return nil
}

// newStop returns what the container itself says about its stop. It may wait for others.
func newStop(c *corev1.Container, waits bool) *stop {
	if !stopsWithPodOnly(c, waits) {
		return &stop{}
	}
	return &stop{together: c.LivenessProbe == nil, alive: aliveFlags(c)}
}

// A stopOrder is the order in which containers are stopped. It has no cycle: a reader
// that waits for its writer is stopped after the writer nevertheless.
type stopOrder struct {
	place map[string]int
	// before has a bit for each container that is stopped before the container, directly
	// or through others.
	before [][maxOrdered / 64]uint64
}

func newStopOrder(names []string) *stopOrder {
	s := &stopOrder{place: map[string]int{}, before: make([][maxOrdered / 64]uint64, len(names))}
	for at, name := range names {
		s.place[name] = at
	}
	return s
}

// add has a container be stopped after another one, unless the other one is stopped after
// it already.
func (s *stopOrder) add(name, first string) bool {
	n, f := s.place[name], s.place[first]
	has := func(at, bit int) bool { return s.before[at][bit/64]&(1<<(bit%64)) != 0 }
	if n == f || has(f, n) {
		return false
	}
	for at := range s.before {
		if at != n && !has(at, n) {
			continue
		}
		s.before[at][f/64] |= 1 << (f % 64)
		for word, bits := range s.before[f] {
			s.before[at][word] |= bits
		}
	}
	return true
}

// serving returns the containers that may serve a container until it is stopped: those
// for which it waits, and those for which one of these waits that can end for good
// before.
func (o *ordering) serving(waiter string, policies map[string]*restartPolicy) (names []string) {
	left := []string{waiter}
	for len(left) > 0 {
		next := left[0]
		left = left[1:]
		for _, d := range o.waits[next] {
			if slices.Contains(names, d.on) {
				continue
			}
			names = append(names, d.on)
			if policies[d.on].endsForGood() {
				left = append(left, d.on)
			}
		}
	}
	return names
}

// graceOf returns the time that the pod's containers have to end.
func graceOf(pod *corev1.Pod) time.Duration {
	seconds := int64(defaultGrace)
	if pod.Spec.TerminationGracePeriodSeconds != nil {
		seconds = *pod.Spec.TerminationGracePeriodSeconds
	}
	return time.Duration(min(seconds, math.MaxInt32)) * time.Second
}

// shareOf divides a grace period into as many equal parts as there are levels, and
// returns when the part of a level begins.
func shareOf(grace time.Duration, level, levels int) time.Duration {
	return (grace / time.Duration(levels) * time.Duration(level)).Truncate(time.Millisecond)
}

// stopLevels returns, for each container that is held back, the number of containers that
// have to end one after the other before it, and the highest of these numbers. The graph
// must have no cycle.
func (o *ordering) stopLevels() (level map[string]int, highest int) {
	level = map[string]int{}
	var levelOf func(name string) int
	levelOf = func(name string) int {
		s, held := o.stops[name]
		if known, ok := level[name]; ok || !held {
			return known
		}
		for _, waiter := range s.after {
			level[name] = max(level[name], 1+levelOf(waiter))
		}
		highest = max(highest, level[name])
		return level[name]
	}
	for name := range o.stops {
		levelOf(name)
	}
	return level, highest
}

// stopsWithPodOnly reports whether nothing but a livenessProbe has the kubelet stop this
// container while the others run: no hook or startupProbe of it can fail, and no change of
// its resources restarts it
// (https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/). The startupProbe
// of a container that waits is the supervisor's, which stops the command without a signal
// to itself.
func stopsWithPodOnly(c *corev1.Container, waits bool) bool {
	restarts := func(p corev1.ContainerResizePolicy) bool { return p.RestartPolicy == corev1.RestartContainer }
	hook := c.Lifecycle != nil && c.Lifecycle.PostStart != nil && c.Lifecycle.PostStart.Sleep == nil
	return (c.StartupProbe == nil || waits) && !hook && !slices.ContainsFunc(c.ResizePolicy, restarts)
}

// aliveFlags returns the flags by which the supervisor tries the livenessProbe, none if it
// can't. A probe with a grace period of its own isn't used: that time may be over before
// the container's share, if the probe succeeds although the kubelet has given it up.
func aliveFlags(c *corev1.Container) []string {
	if c.LivenessProbe == nil || c.LivenessProbe.TerminationGracePeriodSeconds != nil {
		return nil
	}
	flags, err := probeFlags(c, c.LivenessProbe, livenessProbe)
	if err != nil {
		return nil
	}
	return flags
}

// preStopSleep returns the time by which the kubelet delays the stop signal of a
// container for a preStop hook that only sleeps, 0 if there is none. The time of other
// hooks is unknown.
func preStopSleep(c *corev1.Container) time.Duration {
	if !hasPreStop(c) {
		return 0
	}
	switch hook := c.Lifecycle.PreStop; {
	case hook.Sleep != nil:
		return time.Duration(min(max(hook.Sleep.Seconds, 0), math.MaxInt32)) * time.Second
	case hook.Exec != nil:
		return sleepOf(hook.Exec.Command)
	}
	return 0
}

// sleepOf returns the time of a command that only sleeps, directly or in a shell, in the
// units of sleep(1). It is 0 for other commands.
func sleepOf(argv []string) time.Duration {
	if len(argv) == 3 && slices.Contains([]string{"sh", "bash", "ash", "dash"}, path.Base(argv[0])) && argv[1] == "-c" {
		argv = strings.Fields(argv[2])
	}
	if len(argv) != 2 || path.Base(argv[0]) != "sleep" {
		return 0
	}
	number, unit := argv[1], time.Second
	for suffix, u := range map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour} {
		if before, found := strings.CutSuffix(number, suffix); found {
			number, unit = before, u
			break
		}
	}
	count, err := strconv.ParseFloat(number, 64)
	if err != nil || !(count > 0) {
		return 0
	}
	return time.Duration(min(count*float64(unit), float64(math.MaxInt32)*float64(time.Second)))
}

func hasPreStop(c *corev1.Container) bool { return c.Lifecycle != nil && c.Lifecycle.PreStop != nil }

// stopFlags returns the flags for stopping a container's command, by a signal that is ""
// if it is SIGTERM.
func (o *ordering) stopFlags(name, signal string) (flags []string) {
	for _, d := range o.stopWhen[name] {
		flags = append(flags, stopWhenFlag+d.value())
	}
	if s := o.stops[name]; s != nil {
		for _, waiter := range s.after {
			flags = append(flags, stopAfterFlag+orderDirectory(waiter))
		}
		flags = append(flags, stopShareFlag+s.share.String())
		if s.grace != defaultGrace*time.Second { // which the supervisor has as well
			flags = append(flags, stopGraceFlag+s.grace.String())
		}
		if s.delay > 0 {
			flags = append(flags, stopDelayFlag+s.delay.String())
		}
		if s.together {
			flags = append(flags, stopTogetherFlag+"true")
		}
		flags = append(flags, s.alive...)
	}
	if signal != "" {
		flags = append(flags, stopSignalFlag+signal)
	}
	return flags
}

// helpers returns the containers that end with the work, in the short form: "proxy until
// web".
func (o *ordering) helpers() (list []string) {
	for _, name := range o.names {
		var watched []string
		for _, d := range o.stopWhen[name] {
			watched = append(watched, d.on)
		}
		if watched != nil {
			list = append(list, name+" until "+text.Listed(watched, ", "))
		}
	}
	return list
}

// FormerSignal returns the stop signal in the args of a wrapped container, "" without one,
// and whether the container already has a place in the order, by which a signal that
// matters is among its flags.
func FormerSignal(args []string) (signal string, placed bool) {
	placed = slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(arg, orderDirFlag) })
	for _, arg := range args {
		if arg == "--" {
			break
		}
		if signal, found := strings.CutPrefix(arg, stopSignalFlag); found {
			return signal, placed
		}
	}
	return "", placed
}
