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
// neither kills it nor marks it as ready. Kubernetes allows one startupProbe. The
// author's startupProbe becomes flags of the supervisor, which tries it from the
// command's start on, and reports the result through ours.

// startedCommand asks the supervisor whether it has started the command, and whether the
// author's startupProbe has succeeded.
var startedCommand = []string{EntrypointPath, "started"}

// compileStartupProbes turns the startupProbes of containers that wait into flags.
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
			return refuse(InvalidAnnotation, "making container %q wait: its startupProbe has to begin after its command's start, and the supervisor can't run this probe: %w; change the probe, or remove it and let the failureThreshold of the livenessProbe allow for the start",
				c.Name, err)
		}
		w.order.startups[c.Name] = flags
	}
	return nil
}

// keepsParent returns why a container has no supervisor that could try a probe, nil if it
// has one.
func (w *wrapping) keepsParent(c *corev1.Container) error {
	l, err := w.restartPolicyOf(c)
	if err == nil && l.mode != "" {
		err = fmt.Errorf("by %s: exec, the command takes its place", l.mode)
	}
	return err
}

// startupFlagsOf returns the flags of a probe, with its times. Fields with the API
// server's default values get no flags, because the supervisor has the same defaults.
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

// formerStartupFlags returns the flags that an earlier call has made of the author's
// probe.
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

// alignStartupProbe sets the startupProbe of a container that waits. Until the command
// runs, the probe keeps the kubelet from marking the container as ready, and from killing
// it because other probes fail.
func alignStartupProbe(c *corev1.Container, pod *corev1.Pod, waits bool) {
	wanted := &corev1.Probe{
		ProbeHandler:     corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: slices.Clone(startedCommand)}},
		PeriodSeconds:    startupPeriod(pod),
		TimeoutSeconds:   5,
		SuccessThreshold: 1, // the API server's default
		FailureThreshold: math.MaxInt32,
	}
	switch {
	case !waits && c.StartupProbe != nil && isOurProbe(c.StartupProbe):
		c.StartupProbe = nil
	case waits && !equality.Semantic.DeepEqual(c.StartupProbe, wanted):
		c.StartupProbe = wanted
	}
}

// startupPeriod returns the period of the kubelet's probes, in seconds. Each probe takes
// tens of milliseconds of the node's CPU time (docs/benchmarks.md). The period delays the
// readiness of a server; the readiness of a Job's pod doesn't matter.
func startupPeriod(pod *corev1.Pod) int32 {
	if policy := pod.Spec.RestartPolicy; policy == corev1.RestartPolicyOnFailure || policy == corev1.RestartPolicyNever {
		return 10
	}
	return 1
}

// isOurProbe reports whether a startupProbe runs startedCommand.
func isOurProbe(p *corev1.Probe) bool {
	return p.Exec != nil && slices.Equal(p.Exec.Command, startedCommand)
}
