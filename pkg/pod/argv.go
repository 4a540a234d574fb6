// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/pkg/lookup"
	"github.com/entrypointer/entrypointer/pkg/pod/internal/annotation"
	"github.com/entrypointer/entrypointer/pkg/pod/internal/between"
	"github.com/entrypointer/entrypointer/pkg/pod/internal/text"
)

// lookUpAll looks the images up that determine what containers run, or by which signal they
// stop. No other function asks registries.
func (w *wrapping) lookUpAll(ctx context.Context, containers []container) error {
	unreported := false // whether sidecars wait for the end of a container that runs unwrapped
	for at := range containers {
		c := &containers[at]
		image, err := w.lookUpWords(ctx, c)
		if err != nil {
			return err
		}
		if c.waived != nil {
			unreported = unreported || w.plan.EndsSidecars(c.Name)
			continue
		}
		if w.plan.NeedsSignal(c.Name) {
			c.signal = w.stopSignal(ctx, c, image)
		}
		if image == nil && c.signal == "" {
			continue
		}
		if err := w.makeFlags(c); err != nil { // anew, with what the image has told
			return err
		}
	}
	if unreported {
		return w.keepSidecars(containers)
	}
	return nil
}

// lookUpWords looks up the image of a container if only the image says what it runs, and gives
// the container its words. It returns nil if nothing was looked up, or without success.
func (w *wrapping) lookUpWords(ctx context.Context, c *container) (*lookup.Image, error) {
	if !c.needsImage() {
		return nil, nil
	}
	image, err := w.lookUp(ctx, c.Image)
	if err != nil {
		return nil, w.waive(c, err)
	}
	return image, w.inherit(c, image)
}

// waive lets a container whose lookup has failed run with the words that an earlier call has
// looked up, or unwrapped, unless others need it. It returns the refusal if the container may not.
func (w *wrapping) waive(c *container, err error) error {
	failed, ok := errors.AsType[*lookup.Error](err)
	switch {
	case !ok || !w.Policy.WaiveFailedLookups:
		return c.lookupFailed(err)
	case c.words.image != "":
		w.warn(warning(ReasonImageNotPinned, "container %q runs the command line of image %q, but another webhook has set image %q since, which can't be looked up: %v", c.Name, c.words.image, c.Image, failed))
	case w.plan.Needs(c.Name):
		return c.lookupFailed(err)
	default:
		c.waived = failed
	}
	return nil
}

// needsImage reports whether only the image says what a container runs. A webhook that API
// servers call again may have set another image since the container got the words of its image,
// or the same one, which isn't pinned any more then.
func (c *container) needsImage() bool {
	if c.words.image != "" {
		return !sameImage(c.Image, c.words.image)
	}
	return !c.isWrapped && !c.isKnown
}

func (c *container) lookupFailed(err error) *Refusal {
	hint := ""
	if len(c.Args) > 0 && c.words.image == "" {
		hint = " (the container sets args: only, as kubectl run does without --command)"
	}
	return refuse(LookupFailed, "wrapping container %q: %w%s", c.Name, err, hint)
}

// keepSidecars cancels the end of sidecars: a container that runs unwrapped doesn't report
// its end.
func (w *wrapping) keepSidecars(containers []container) error {
	w.warn(warning(ReasonAnnotationHasNoEffect, "annotation %s/%s of the namespace has no effect: a container that runs unwrapped doesn't report the end of its work", annotation.Domain, between.EndSidecars))
	said := w.warnings
	if err := w.compile(containers, nil); err != nil {
		return err
	}
	w.warnings = said
	for at := range containers {
		if err := w.makeFlags(&containers[at]); err != nil {
			return err
		}
	}
	return nil
}

// inherit gives a container the words of its image, and pins the image: the words must
// match the image that runs, even if the tag moves in between. An image that is never pulled
// isn't pinned: the node has it by this name, and may not know the digest.
func (w *wrapping) inherit(c *container, image *lookup.Image) error {
	own, inherited := c.Args, make([][]string, len(image.Configs))
	if c.words.image != "" {
		own = c.words.own()
	}
	for i, config := range image.Configs {
		inherited[i] = inheritedWords(own, config)
		if len(inherited[i])+len(own) == 0 {
			return refuse(NoCommand, "wrapping container %q: image %q has neither ENTRYPOINT nor CMD for %s; set command: in the container",
				c.Name, c.Image, config.Platform)
		}
	}
	c.words = words{argv: own, image: c.Image}
	if c.ImagePullPolicy != corev1.PullNever {
		c.image, c.words.image = image.Pinned, image.Pinned
	}
	if agree(inherited) {
		c.words.argv, c.words.inherited = slices.Concat(text.EscapeAll(inherited[0]), own), len(inherited[0])
	} else {
		for i, config := range image.Configs {
			c.words.flags = append(c.words.flags, platformFlag+config.Platform)
			for _, token := range inherited[i] {
				c.words.flags = append(c.words.flags, argFlag+text.Escape(token))
			}
		}
	}
	if w.added += sizeOf(c.words.all()); w.added > maxAdded {
		return refuse(NoCommand, "wrapping container %q: the command lines of the images of all containers are longer than %d bytes, which no API server stores; set command: in the container",
			c.Name, maxAdded)
	}
	if c.ImagePullPolicy == corev1.PullNever && image.Digest != "" {
		w.warn(warning(ReasonImageNotPinned, "container %q runs the command line that the registry has for image %q (%s), and the image on the node may differ, because imagePullPolicy is Never; set command: in the container to be sure",
			c.Name, c.Image, image.Digest))
	}
	return nil
}

// inheritedWords returns the words that the container takes from its image: args always
// replace CMD. An ENTRYPOINT of one empty string counts as none, as in Docker and containerd
// (https://github.com/containerd/containerd/blob/v2.3.5/internal/cri/opts/spec_opts.go):
// builders write it to undo the ENTRYPOINT of a base image. A CMD of one empty string is
// an argument.
func inheritedWords(args []string, config lookup.Config) []string {
	entrypoint := config.Entrypoint
	if len(entrypoint) == 1 && entrypoint[0] == "" {
		entrypoint = nil
	}
	if len(args) > 0 {
		return entrypoint
	}
	return slices.Concat(entrypoint, config.Cmd)
}

func agree(argvs [][]string) bool {
	for _, argv := range argvs[1:] {
		if !slices.Equal(argv, argvs[0]) {
			return false
		}
	}
	return true
}

func (w *wrapping) lookUp(ctx context.Context, image string) (*lookup.Image, error) {
	if w.Lookup == nil {
		return nil, fmt.Errorf("the Injector has no Lookup for image %q; set command: in the container, or the Injector's Lookup", text.Shortened(image))
	}
	query, err := queryFor(w.namespace, w.pod.Pod, image)
	if err != nil {
		return nil, err
	}
	return w.Lookup.Lookup(ctx, query)
}

// maxObjectName is the longest name of an object (a DNS subdomain).
const maxObjectName = 253

// queryFor returns the query for the command line of an image. It fails with a
// *lookup.Error if no registry could answer the query.
func queryFor(namespace string, pod *corev1.Pod, image string) (lookup.Query, error) {
	query := lookup.Query{Image: image, Namespace: namespace, ServiceAccount: pod.Spec.ServiceAccountName}
	if len(image) > lookup.MaxReferenceBytes {
		query.Image = text.Shortened(image)
		return query, &lookup.Error{Query: query, Reason: lookup.InvalidReference, Err: fmt.Errorf("no reference has more than %d characters", lookup.MaxReferenceBytes)}
	}
	if len(query.ServiceAccount) > maxObjectName {
		query.ServiceAccount = text.Shortened(query.ServiceAccount)
		return query, &lookup.Error{Query: query, Reason: lookup.CredentialsError, Err: errors.New("the name of the service account is longer than Kubernetes allows")}
	}
	for _, secret := range pod.Spec.ImagePullSecrets {
		if len(query.PullSecrets) == lookup.MaxPullSecrets {
			break
		}
		if len(secret.Name) <= maxObjectName {
			query.PullSecrets = append(query.PullSecrets, secret.Name)
		}
	}
	return query, nil
}

// signalPatience is the time that a pod waits for lookups of images that are needed only
// for their stop signals. After that, the pod runs without knowing these signals.
const signalPatience = 3 * time.Second

// usualSignals need no flag. The last two can't be held back.
var usualSignals = []string{"", "SIGTERM", "SIGKILL", "SIGSTOP"}

// stopSignal returns the signal by which the kubelet stops a container, "" for a usual one:
// the signal of its spec, or else of its image, which is nil if it hasn't been looked up. A
// container that already has its place in the order has the signal among its flags, from
// an earlier call.
func (w *wrapping) stopSignal(ctx context.Context, c *container, image *lookup.Image) string {
	former, placed := between.FormerSignal(c.Args)
	signal := ""
	switch {
	case c.Lifecycle != nil && c.Lifecycle.StopSignal != nil:
		signal, _ = lookup.ParseStopSignal(string(*c.Lifecycle.StopSignal))
	case image != nil:
		signal = w.signalOf(c, image)
	case c.isWrapped && placed:
		signal, _ = lookup.ParseStopSignal(former)
	case w.Lookup != nil:
		image, err := w.lookUpSignal(ctx, c.Image)
		if err != nil {
			w.warn(warning(ReasonStopSignalUnknown, "container %q: the stop signal of image %q can't be looked up (%s), so SIGTERM is assumed; if the signal is another, the pod doesn't stop in order",
				c.Name, c.Image, reasonOf(err)))
			return ""
		}
		signal = w.signalOf(c, image)
	}
	if slices.Contains(usualSignals, signal) {
		return ""
	}
	return signal
}

// lookUpSignal looks up an image within the rest of the pod's signalPatience.
func (w *wrapping) lookUpSignal(ctx context.Context, image string) (*lookup.Image, error) {
	ctx, cancel := context.WithTimeout(ctx, signalPatience-w.signalsTook)
	defer cancel()
	began := time.Now()
	defer func() { w.signalsTook += time.Since(began) }()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return w.lookUp(ctx, image)
}

// reasonOf returns why a lookup failed, without the advice for an unknown command, which
// doesn't apply here.
func reasonOf(err error) string {
	if failed, ok := errors.AsType[*lookup.Error](err); ok {
		return string(failed.Reason)
	}
	return string(lookup.Timeout)
}

// signalOf returns the stop signal of an image, "" if its platforms disagree.
func (w *wrapping) signalOf(c *container, image *lookup.Image) string {
	signal := image.Configs[0].StopSignal
	if slices.ContainsFunc(image.Configs, func(other lookup.Config) bool { return other.StopSignal != signal }) {
		w.warn(warning(ReasonStopSignalUnknown, "container %q: the platforms of image %q have different stop signals, so SIGTERM is assumed; on platforms with another signal, the pod doesn't stop in order",
			c.Name, cmp.Or(c.image, c.Image)))
		return ""
	}
	return signal
}
