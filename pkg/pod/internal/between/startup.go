// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package between

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/entrypointer/entrypointer/pkg/pod/internal/text"
)

// A container that waits has a startupProbe of ours: until its command runs, the kubelet
// neither kills it nor marks it as ready. Kubernetes allows one startupProbe. The
// author's startupProbe becomes flags of the supervisor, which tries it from the
// command's start on, and reports the result through ours.

// startedCommand asks the supervisor whether it has started the command, and whether the
// author's startupProbe has succeeded.
func (p Pod) startedCommand() []string { return []string{p.Supervisor, "started"} }

// compileStartupProbes turns the startupProbes of containers that wait into flags.
func (b *builder) compileStartupProbes() error {
	for _, at := range b.Wrapped {
		c := &b.Object.Spec.Containers[at]
		if !b.order.isWaiter(c.Name) || c.StartupProbe == nil {
			continue
		}
		if b.order.startups == nil {
			b.order.startups = map[string][]string{}
		}
		if b.isOurProbe(c.StartupProbe) {
			b.order.startups[c.Name] = b.formerStartupFlags(c)
			continue
		}
		flags, err := startupFlagsOf(c, b.Object)
		if err == nil {
			err = b.keepsParent(c)
		}
		if err != nil {
			return text.Errorf("making container %q wait: its startupProbe has to begin after its command's start, and the supervisor can't run this probe: %w; change the probe, or remove it and let the failureThreshold of the livenessProbe allow for the start",
				c.Name, err)
		}
		b.order.startups[c.Name] = flags
	}
	return nil
}

// keepsParent returns why a container has no supervisor that could try a probe, nil if it
// has one.
func (b *builder) keepsParent(c *corev1.Container) error {
	l, err := b.restartPolicyOf(c)
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
func (b *builder) formerStartupFlags(c *corev1.Container) (flags []string) {
	for _, arg := range b.Former(*c) {
		if strings.HasPrefix(arg, startupFlags) {
			flags = append(flags, arg)
		}
	}
	return flags
}

// AlignStartupProbe sets the startupProbe of a container that waits, and removes ours from
// a container that doesn't. Until the command runs, the probe keeps the kubelet from
// marking the container as ready, and from killing it because other probes fail.
func (p *Plan) AlignStartupProbe(c *corev1.Container) {
	waits := p.Waits(c.Name)
	wanted := &corev1.Probe{
		ProbeHandler:     corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: p.of.startedCommand()}},
		PeriodSeconds:    startupPeriod(p.of.Object),
		TimeoutSeconds:   5,
		SuccessThreshold: 1, // the API server's default
		FailureThreshold: math.MaxInt32,
	}
	switch {
	case !waits && c.StartupProbe != nil && p.of.isOurProbe(c.StartupProbe):
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
func (p Pod) isOurProbe(probe *corev1.Probe) bool {
	return probe.Exec != nil && slices.Equal(probe.Exec.Command, p.startedCommand())
}
