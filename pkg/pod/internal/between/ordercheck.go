// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package between

import (
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/pkg/conditions"
	"github.com/entrypointer/entrypointer/pkg/exitcodes"
	"github.com/entrypointer/entrypointer/pkg/pod/internal/annotation"
	"github.com/entrypointer/entrypointer/pkg/pod/internal/text"
)

// check refuses an order that can't be satisfied, and completes an order that can.
func (b *builder) check(o *ordering, among containers) error {
	if cycle := o.cycle(); cycle != nil {
		return text.Errorf("reading annotations %s.%s/CONTAINER and %s: these containers wait for each other, and none of them would ever start: %w; remove one of the annotations",
			DependsOn, annotation.Domain, stdinKey("CONTAINER"), errors.New(text.Listed(cycle, arrow)))
	}
	for _, name := range o.names {
		if !isContainerName(name) {
			return text.Errorf("ordering container %q: no container has such a name", name)
		}
	}
	policies, err := b.restartPoliciesOf(o, among)
	if err != nil {
		return err
	}
	for name, p := range policies {
		if p.mode == "" || !slices.Contains(p.restarts[:], true) { // nobody reports the exit code of the others
			o.finals[name] = p.finalCodes()
		}
	}
	if err := o.checkConditions(policies); err != nil {
		return err
	}
	if err := o.checkStopWhen(b.Owner.RestartsAll, policies); err != nil {
		return err
	}
	if err := o.checkPipes(); err != nil {
		return err
	}
	if err := o.checkHooks(b.Object); err != nil {
		return err
	}
	for _, name := range o.names {
		if _, asked := o.probes[name]; !asked {
			continue
		}
		if o.probes[name], err = b.readyFlags(among.byName[name]); err != nil {
			return err
		}
	}
	return o.stopInReverse(b.Object, among, policies)
}

// restartPoliciesOf returns the restart policies of the containers that have a place in
// the order.
func (b *builder) restartPoliciesOf(o *ordering, among containers) (policies map[string]*restartPolicy, err error) {
	policies = map[string]*restartPolicy{}
	for _, name := range o.names {
		if policies[name] != nil { // the API server refuses a duplicate name, but later
			continue
		}
		if policies[name], err = b.restartPolicyOf(among.byName[name]); err != nil {
			return nil, err
		}
	}
	return policies, nil
}

// checkConditions refuses unreliable conditions.
func (o *ordering) checkConditions(policies map[string]*restartPolicy) error {
	for _, name := range o.names {
		for _, d := range o.waits[name] {
			if why := policies[d.on].prevents(d.condition, o.doubtful); why != nil {
				return text.Errorf("reading annotation %s.%s/%s: container %q can't wait for %q to be %s: %w",
					DependsOn, annotation.Domain, name, name, d.on, string(d.condition), why)
			}
		}
	}
	return nil
}

// A restartPolicy describes how a container can end, and whether it is restarted.
type restartPolicy struct {
	mode     string       // the source of mode: exec, "" without
	restarts [1 << 8]bool // by exit code, whether the kubelet starts it again
	withAll  string       // the container of which a rule restarts all of the pod's, "" without
}

// maxRestartRules is how many rules Kubernetes' validation allows a container
// (https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/apis/core/validation/validation.go).
const maxRestartRules = 20

// restartPolicyOf determines the restart policy of a container. The first rule of the container
// that matches takes precedence over the container's policy, and that over the pod's
// (https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#container-restart-rules).
func (b *builder) restartPolicyOf(c *corev1.Container) (*restartPolicy, error) {
	l := restartPolicy{mode: b.Replaced(c.Name), withAll: b.restartsAll()}
	policy := b.Object.Spec.RestartPolicy
	if c.RestartPolicy != nil {
		policy = corev1.RestartPolicy(*c.RestartPolicy)
	}
	for code := range l.restarts {
		// A restart of all containers may follow any end.
		l.restarts[code] = l.withAll != "" || policy != corev1.RestartPolicyNever && (policy != corev1.RestartPolicyOnFailure || code != 0)
	}
	if len(c.RestartPolicyRules) > maxRestartRules {
		return nil, text.Errorf("reading the restartPolicyRules of container %q: there are %d, and Kubernetes allows %d", c.Name, len(c.RestartPolicyRules), maxRestartRules)
	}
	l.applyRules(c.RestartPolicyRules)
	return &l, nil
}

// applyRules notes the restarts of rules. No rule prevents a restart.
func (p *restartPolicy) applyRules(rules []corev1.ContainerRestartRule) {
	for _, rule := range rules {
		if rule.ExitCodes == nil {
			continue
		}
		var named [1 << 8]bool
		for _, code := range rule.ExitCodes.Values {
			named[uint8(code)] = named[uint8(code)] || code >= 0 && int(code) < len(named) //nolint:gosec // G115: a code that is none changes nothing
		}
		for code := range p.restarts {
			if named[code] == (rule.ExitCodes.Operator == corev1.ContainerRestartRuleOnExitCodesOpIn) {
				p.restarts[code] = true
			}
		}
	}
}

// finalCodes returns the exit codes after which the container isn't restarted, "" if it
// always is.
func (p *restartPolicy) finalCodes() string {
	var final [len(p.restarts)]bool
	for code, restarts := range p.restarts {
		final[code] = !restarts
	}
	return exitcodes.Of(&final).String()
}

// endsForGood reports whether the kubelet doesn't restart the container after some end.
func (p *restartPolicy) endsForGood() bool { return slices.Contains(p.restarts[:], false) }

// prevents returns why a condition is unreliable, nil if it is reliable. Where locks are
// doubtful, a supervisor has to report continuously that the container lives.
func (p *restartPolicy) prevents(what conditions.Condition, doubtful bool) error {
	switch {
	case p.mode != "" && doubtful:
		return fmt.Errorf("by %s: exec, the container has no supervisor that reports its state, as is necessary in a pod with a runtimeClassName; remove one of them", p.mode)
	case p.mode != "" && what != conditions.Started:
		return fmt.Errorf("by %s: exec, the container has no supervisor that reports this condition; wait for it to be started", p.mode)
	case p.withAll != "" && (what == conditions.Completed || what == conditions.Exited):
		return fmt.Errorf("a rule of container %q restarts all containers of the pod, and an end before that can't be told from an end after it; wait for it to be started or ready, or use action Restart", p.withAll)
	case what == conditions.Completed && p.restarts[0]:
		return errors.New("it is restarted after a success, so that it is never completed for long; set restartPolicy: OnFailure or Never, of the pod or of that container, or name another condition")
	case what == conditions.Exited && !p.endsForGood():
		return errors.New("it is restarted whenever it ends, so that it has never ended for long; set restartPolicy: OnFailure or Never, of the pod or of that container, or name another condition")
	}
	return nil
}

// restartsAll returns the container of which a rule restarts all containers of the pod,
// "" if there is none. The volumes survive such a restart (https://kep.k8s.io/5532), so
// that an end before the restart can't be told from an end after it. The result is
// computed once for each pod.
func (b *builder) restartsAll() string {
	if b.restarter != nil {
		return *b.restarter
	}
	b.restarter = new(string)
	for _, containers := range [][]corev1.Container{b.Object.Spec.InitContainers, b.Object.Spec.Containers} {
		if at := slices.IndexFunc(containers, hasRestartAll); at >= 0 {
			*b.restarter = containers[at].Name
			break
		}
	}
	return *b.restarter
}

func hasRestartAll(c corev1.Container) bool {
	return slices.ContainsFunc(c.RestartPolicyRules[:min(len(c.RestartPolicyRules), maxRestartRules)], func(rule corev1.ContainerRestartRule) bool {
		return rule.Action == corev1.ContainerRestartRuleActionRestartAllContainers
	})
}

// checkHooks refuses a postStart hook that prevents the start of a container for which
// its own container waits: the kubelet starts containers in the pod's order, and waits
// for the hook of each before it starts the next.
func (o *ordering) checkHooks(pod *corev1.Pod) error {
	place := map[string]int{}
	for at, c := range pod.Spec.Containers {
		place[c.Name] = at
	}
	for at, c := range pod.Spec.Containers {
		if !hasBlockingHook(c) {
			continue
		}
		var later string
		if o.reaches(c.Name, func(name string) bool { later = name; return place[name] > at }) {
			return text.Errorf("reading annotation %s: container %q has a postStart hook, and Kubernetes doesn't start %q, which comes after it in spec.containers and has to start before it, until the hook has ended; put %q first, or remove the hook",
				o.keyOf(c.Name), c.Name, later, later)
		}
	}
	return nil
}
