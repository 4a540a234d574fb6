// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"context"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/pkg/lookup"
	"github.com/entrypointer/entrypointer/pkg/pod/internal/between"
)

// Injector wraps pods. It is safe for concurrent use.
type Injector struct {
	// CopierImage is the image of the init container, pinned by digest.
	CopierImage string
	// EntrypointImage is the image that is mounted if the Policy says so, pinned by
	// digest. It contains the binary at /ko-app/entrypoint.
	EntrypointImage string
	// ClaimName is the name of the claim that is mounted if the Policy says so, in the pod's
	// namespace; "" if there is none. The claim holds this release's binaries at
	// [ClaimPath] and [ClaimPathWithLogs].
	ClaimName string
	// Lookup looks up the images of containers that set no command. If it is nil, pods
	// with such containers are refused.
	Lookup lookup.Lookuper
	// Kinds are the pods that are wrapped without asking; nil means [Kinds].
	Kinds []Kind
	// AllPods wraps all pods, unless a pod opts out.
	AllPods bool
	// Copiers are the images, pinned by digest, of the pods that fill claims. AllPods
	// leaves out pods that run only these images: other pods get their supervisor from
	// them.
	Copiers []string
	// Tools are the tools that pods may ask for. No two have the same name, and each
	// passes its Check.
	Tools []Tool
	// ToolRegistries restricts the tools of namespaces by the registries of their images.
	// The zero value allows all.
	ToolRegistries lookup.AllowList
	// Logs is the log service, nil without one.
	Logs *LogService
	// Version, if it isn't empty, ends the status annotation: the version of the injector.
	Version string
	// Policy is the operator's policy.
	Policy Policy
	// Defaults are options for pods that don't set them. Earlier elements take
	// precedence.
	Defaults []Defaults
}

// Result describes the decision on an admitted pod.
type Result struct {
	Outcome Outcome
	// Owner is empty if the pod is NotOurs.
	Owner Owner
	// Pod is the pod to admit: a changed copy, or the original pod if there is nothing to
	// change.
	Pod *corev1.Pod
	// Delivery is the way in which the supervisor gets into the pod, empty for a pod
	// without it.
	Delivery Delivery
	// Wrapped names the containers that this call has wrapped.
	Wrapped []string
	// Unwrapped names the containers that run unwrapped, because the lookups of their
	// images failed and the Policy waives failed lookups.
	Unwrapped []string
	// Order is the graph of the containers that wait for each other, in its short form,
	// empty without such containers.
	Order string
	// Additions names the fields in which others have added to our init containers, as the
	// API calls them, without those that were repaired: they may tell why an API server has
	// asked again.
	Additions []string
	// Warnings are for the creator of the pod. [Messages] formats them for an API server.
	Warnings []Warning
}

// Inject decides on a pod that is about to be created in namespace, and wraps it. It
// doesn't change the pod itself. An error that is a *Refusal is meant for the pod's
// author.
func (i *Injector) Inject(ctx context.Context, namespace string, pod *corev1.Pod) (Result, error) {
	selected, kind, outcome, err := i.classify(pod)
	if err != nil {
		return Result{}, err
	}
	warnings, err := checkAnnotations(pod, kind, outcome)
	if err != nil {
		return Result{}, err
	}
	result := Result{Outcome: outcome, Pod: pod}
	if outcome == "" {
		w := i.newWrapping(namespace, pod, kind)
		if result, err = w.wrapSelected(ctx, selected); err != nil {
			return Result{}, err
		}
		warnings = append(warnings, w.warnings...)
	}
	result.Owner, result.Warnings = kind.Owner, append(warnings, labelsWithoutEffect(pod)...)
	result = result.withStatus(i.Version)
	result.Warnings = bounded(result.Warnings)
	return result, nil
}

// A wrapping is the state of the work on one pod.
type wrapping struct {
	*Injector
	namespace string
	pod       *corev1.Pod // as it was sent
	kind      *Kind
	delivery  Delivery
	plan      *between.Plan
	added     int // bytes, see maxAdded
	// signalsTook is the time that lookups of stop signals have taken so far.
	signalsTook  time.Duration
	additions    []string // see Result
	warnings     []Warning
	toolboxes    map[string]*toolbox    // of the containers, by their names
	asked        map[string]*toolbox    // by the sources of the settings
	requirements map[string]requirement // by the sources of the settings
	stepDirs     *[]string              // see startFlags; nil before the first look
}

func (i *Injector) newWrapping(namespace string, pod *corev1.Pod, kind *Kind) *wrapping {
	return &wrapping{
		Injector: i, namespace: namespace, pod: pod, kind: kind, delivery: i.Policy.deliveryFor(pod, i.ClaimName),
		toolboxes: map[string]*toolbox{}, asked: map[string]*toolbox{}, requirements: map[string]requirement{},
	}
}

// wrapSelected wraps the selected containers of a copy of the pod.
func (w *wrapping) wrapSelected(ctx context.Context, selected []int) (Result, error) {
	if err := w.compile(selected, true); err != nil {
		return Result{}, err
	}
	result := Result{Pod: w.pod.DeepCopy(), Order: w.plan.String()}
	var wrapped []int
	for _, index := range selected {
		c := &result.Pod.Spec.Containers[index]
		now, err := w.wrap(ctx, c)
		if failed := w.waived(c.Name, err); failed != nil {
			w.warnings = append(w.warnings, warning(ReasonLookupFailed, "container %q runs without its supervisor: %v", c.Name, failed))
			result.Unwrapped = append(result.Unwrapped, c.Name)
			continue
		}
		if err != nil {
			return Result{}, err
		}
		wrapped = append(wrapped, index)
		unsent, err := w.unsent(*c)
		if err != nil {
			return Result{}, err
		}
		if now {
			result.Wrapped = append(result.Wrapped, c.Name)
			w.warnings = slices.Concat(w.warnings, afterAll(w.pod, c.Name), unsent)
			w.warnOfTools(c.Name)
		}
	}
	w.warnOfUnmetRequirements()
	if len(wrapped) == 0 {
		result.Outcome = LookupWaived
		return result, nil
	}
	if err := w.keepSidecars(ctx, result.Pod, selected, wrapped, result.Unwrapped); err != nil {
		return Result{}, err
	}
	if err := w.install(result.Pod, wrapped); err != nil {
		return Result{}, err
	}
	result.Delivery, result.Additions = w.delivery, w.additions
	switch {
	case len(result.Unwrapped) > 0:
		result.Outcome = PartlyInjected
	case len(Patch(w.pod, result.Pod)) == 0:
		result.Outcome = AlreadyInjected
	default:
		result.Outcome = Injected
	}
	return result, nil
}

// waived returns the failed lookup for which the container runs unwrapped. It returns nil
// for containers that can't run unwrapped, because others need them.
func (w *wrapping) waived(container string, err error) *lookup.Error {
	failed, ok := errors.AsType[*lookup.Error](err)
	if !ok || !w.Policy.WaiveFailedLookups || w.plan.Needs(container) {
		return nil
	}
	return failed
}
