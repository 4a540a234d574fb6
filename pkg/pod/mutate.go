// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/pkg/lookup"
	"github.com/entrypointer/entrypointer/pkg/pod/internal/between"
	"github.com/entrypointer/entrypointer/pkg/pod/internal/text"
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
	result := Result{Outcome: outcome, Owner: kind.Owner, Pod: pod}
	switch outcome {
	case NotOurs:
		result.Warnings = ignoredUnasked(pod)
	case NothingToWrap:
		result.Warnings = nothingToWrapWarnings(pod, kind)
	case "":
		w := i.newWrapping(namespace, pod, kind)
		result, err = w.wrapSelected(ctx, selected)
		if err != nil {
			return Result{}, err
		}
		result.Owner = kind.Owner
		result.Warnings = slices.Concat(w.warnings, ignoredByOwner(pod, kind))
	}
	result.Warnings = append(result.Warnings, labelsWithoutEffect(pod)...)
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
func (w *wrapping) wrapSelected(ctx context.Context, selected []int) (_ Result, err error) {
	if w.warnings, err = checkAnnotations(w.pod, w.kind); err != nil {
		return Result{}, err
	}
	if err = w.compile(selected, true); err != nil {
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

// afterAll warns if the pod's status lists this newly wrapped container as unwrapped.
// That happens if an API server asks again and the registry has answered in the meantime.
// The status could be forged, so it decides nothing.
func afterAll(pod *corev1.Pod, container string) []Warning {
	status := WithoutVersion(pod.Annotations[StatusAnnotation])
	decided, _, _ := strings.Cut(status, orderInStatus)
	_, names, _ := strings.Cut(decided, ": ")
	partly := strings.HasPrefix(status, string(PartlyInjected))
	unwrapped := status == string(LookupWaived) || partly && slices.Contains(strings.Split(names, ","), container)
	if !unwrapped {
		return nil
	}
	return []Warning{warning(ReasonLookupRecovered, "container %q runs under its supervisor after all: the second lookup of its image succeeded", container)}
}

// wrap rewrites the container and returns true, or updates a container that is wrapped
// already.
func (w *wrapping) wrap(ctx context.Context, c *corev1.Container) (bool, error) {
	if err := checkMounts(*c); err != nil {
		return false, err
	}
	argv, already := wrappedArgvArgs(*c)
	if !already && needsLookup(*c) {
		// Refuse an invalid value before the lookup.
		if _, err := w.optionFlags(*c, nil); err != nil {
			return false, err
		}
	}
	var image *lookup.Image
	if !already {
		var err error
		if argv, image, err = w.argvArgsOf(ctx, c); err != nil {
			return false, err
		}
	}
	w.noteStopSignal(ctx, c, image, already)
	flags, err := w.optionFlags(*c, originalArgv(argv))
	if err != nil {
		return false, err
	}
	c.Args = slices.Concat(flags, argv)
	if already {
		return false, nil
	}
	c.Command = []string{EntrypointPath}
	if !slices.ContainsFunc(c.VolumeMounts, isMount) {
		c.VolumeMounts = append(c.VolumeMounts, w.mount(w.pod))
	}
	return true, nil
}

// argvArgsOf returns the container's argvArgs. If the image had to be looked up,
// argvArgsOf also returns the image, pinned: the argv must match the image that runs,
// even if the tag moves in between. An image that is never pulled isn't pinned: the node
// has it by this name, and may not know the digest.
func (w *wrapping) argvArgsOf(ctx context.Context, c *corev1.Container) ([]string, *lookup.Image, error) {
	if !needsLookup(*c) {
		argv, err := argvArgs(*c, nil)
		return argv, nil, err
	}
	image, err := w.lookUp(ctx, c.Image)
	if err != nil {
		hint := ""
		if len(c.Args) > 0 {
			hint = " (the container sets args: only, as kubectl run does without --command)"
		}
		return nil, nil, refuse(LookupFailed, "wrapping container %q: %w%s", c.Name, err, hint)
	}
	argv, err := argvArgs(*c, image)
	if w.added += sizeOf(argv); w.added > maxAdded {
		return nil, nil, refuse(NoCommand, "wrapping container %q: the command lines of the images of all containers are longer than %d bytes, which no API server stores; set command: in the container",
			c.Name, maxAdded)
	}
	if c.ImagePullPolicy != corev1.PullNever {
		c.Image = image.Pinned
	} else if image.Digest != "" {
		w.warnings = append(w.warnings, warning(ReasonImageNotPinned, "container %q runs the command line that the registry has for image %q (%s), and the image on the node may differ, because imagePullPolicy is Never; set command: in the container to be sure",
			c.Name, c.Image, image.Digest))
	}
	return argv, image, err
}

func (w *wrapping) lookUp(ctx context.Context, image string) (*lookup.Image, error) {
	if w.Lookup == nil {
		return nil, fmt.Errorf("the Injector has no Lookup for image %q; set command: in the container, or the Injector's Lookup", text.Shortened(image))
	}
	query, err := queryFor(w.namespace, w.pod, image)
	if err != nil {
		return nil, err
	}
	return w.Lookup.Lookup(ctx, query)
}

// withStatus sets the status annotation, which holds the outcome, on the result's pod. A
// pod that is NotOurs gets the annotation only if it has annotations or labels in our
// domain: its author may wonder why the pod isn't wrapped.
func (r Result) withStatus(version string) Result {
	status := r.status()
	if version != "" {
		status += versionInStatus + version
	}
	if r.Pod.Annotations[StatusAnnotation] == status || r.Outcome == MirrorPod || r.Outcome == NotOurs && !mentionsUs(r.Pod) {
		return r
	}
	pod := *r.Pod
	pod.Annotations = maps.Clone(pod.Annotations)
	if !annotate(&pod, StatusAnnotation, status) {
		r.Warnings = append(r.Warnings, tooManyAnnotations(StatusAnnotation))
	}
	r.Pod = &pod
	return r
}

// orderInStatus precedes the order in the status annotation, and versionInStatus the
// version at its end.
const (
	orderInStatus   = "; order: "
	versionInStatus = "; version: "
)

// WithoutVersion returns the value of a status annotation without the version of the
// injector, which says nothing about the pod.
func WithoutVersion(status string) string {
	if at := strings.LastIndex(status, versionInStatus); at >= 0 {
		return status[:at]
	}
	return status
}

// status returns the value of the status annotation.
func (r Result) status() string {
	var order string
	if r.Order != "" {
		order = orderInStatus + r.Order
	}
	switch r.Outcome {
	case Injected, AlreadyInjected:
		return fmt.Sprintf("%s by %s", Injected, r.Delivery) + order
	case PartlyInjected:
		return fmt.Sprintf("%s by %s: %s", PartlyInjected, r.Delivery, text.Listed(r.Unwrapped, ",")) + order
	case NotOurs:
		return fmt.Sprintf("%s: the pod doesn't ask by %s: \"true\"", NotOurs, InjectAnnotation)
	default:
		return string(r.Outcome)
	}
}
