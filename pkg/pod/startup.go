// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// A container that waits has a startupProbe of ours: until its command runs, the kubelet
// neither kills it nor calls it ready. Kubernetes allows one. That of its author becomes
// flags of the supervisor, which tries it from the command's start on, and says by ours
// how it stands.

// startedCommand asks the supervisor whether the command of its container has been
// started, and whether its startupProbe has succeeded.
var startedCommand = []string{EntrypointPath, "started"}

// compileStartupProbes makes flags of the startupProbes of containers that wait.
func (w *wrapping) compileStartupProbes(selected []int) error {
	for _, at := range selected {
		c := &w.pod.Spec.Containers[at]
		if !w.order.isWaiter(c.Name) || c.StartupProbe == nil {
			continue
		}
		if w.order.startups == nil {
			w.order.startups = map[string][]string{}
		}
		if isOurProbe(c.StartupProbe) {
			w.order.startups[c.Name] = formerStartupFlags(c)
			continue
		}
		flags, err := startupFlagsOf(c, w.pod)
		if err == nil {
			err = w.keepsParent(c)
		}
		if err != nil {
			return refuse(InvalidAnnotation, "having container %q wait: it has a startupProbe that shall begin with its command, and the supervisor can't try it: %w; change it, or remove it and let the failureThreshold of the livenessProbe allow for the start",
				c.Name, err)
		}
		w.order.startups[c.Name] = flags
	}
	return nil
}

// keepsParent is why a container has no entrypoint that could try a probe, nil if it has.
func (w *wrapping) keepsParent(c *corev1.Container) error {
	l, err := w.lifeOf(c)
	if err == nil && l.mode != "" {
		err = fmt.Errorf("by %s: exec, the command takes its place", l.mode)
	}
	return err
}

// startupFlagsOf has the times of a probe beside what it asks. What the API server would
// default is left to the supervisor, whose defaults are the same.
func startupFlagsOf(c *corev1.Container, pod *corev1.Pod) ([]string, error) {
	p := c.StartupProbe
	flags, err := probeFlags(c, p, startupProbe)
	if err != nil {
		return nil, err
	}
	if p.InitialDelaySeconds > 0 {
		flags = append(flags, startupDelayFlag+seconds(p.InitialDelaySeconds))
	}
	if p.PeriodSeconds > 0 {
		flags = append(flags, startupPeriodFlag+seconds(p.PeriodSeconds))
	}
	if p.FailureThreshold > 0 {
		flags = append(flags, startupFailuresFlag+strconv.Itoa(int(p.FailureThreshold)))
	}
	grace := pod.Spec.TerminationGracePeriodSeconds
	if p.TerminationGracePeriodSeconds != nil {
		grace = p.TerminationGracePeriodSeconds
	}
	if grace != nil {
		least := max(time.Duration(min(*grace, math.MaxInt32))*time.Second, time.Millisecond)
		flags = append(flags, startupGraceFlag+least.String())
	}
	return flags, nil
}

// formerStartupFlags are those that an earlier look at the pod has made of a probe.
func formerStartupFlags(c *corev1.Container) (flags []string) {
	if _, wrapped := wrappedArgvArgs(*c); !wrapped {
		return nil
	}
	for _, arg := range c.Args[:slices.Index(c.Args, "--")] {
		if strings.HasPrefix(arg, startupFlags) {
			flags = append(flags, arg)
		}
	}
	return flags
}

// alignStartupProbe has a container that waits neither killed by its other probes nor
// called ready until its command runs.
func alignStartupProbe(c *corev1.Container, pod *corev1.Pod, waits bool) {
	wanted := &corev1.Probe{
		ProbeHandler:     corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: slices.Clone(startedCommand)}},
		PeriodSeconds:    startupPeriod(pod),
		TimeoutSeconds:   5,
		SuccessThreshold: 1, // what the API server would default
		FailureThreshold: math.MaxInt32,
	}
	switch {
	case !waits && c.StartupProbe != nil && isOurProbe(c.StartupProbe):
		c.StartupProbe = nil
	case waits && !equality.Semantic.DeepEqual(c.StartupProbe, wanted):
		c.StartupProbe = wanted
	}
}

// startupPeriod is how often the kubelet asks, in seconds. Each time takes tens of
// milliseconds of the node's CPU time (docs/benchmarks.md). Of a server, it adds to the
// time until it is ready; nobody waits for a Job's pod to be.
func startupPeriod(pod *corev1.Pod) int32 {
	if policy := pod.Spec.RestartPolicy; policy == corev1.RestartPolicyOnFailure || policy == corev1.RestartPolicyNever {
		return 10
	}
	return 1
}

// isOurProbe reports whether a startupProbe asks what ours does.
func isOurProbe(p *corev1.Probe) bool {
	return p.Exec != nil && slices.Equal(p.Exec.Command, startedCommand)
}
