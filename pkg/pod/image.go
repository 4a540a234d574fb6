// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/pkg/lookup"
	"github.com/entrypointer/entrypointer/pkg/pod/internal/between"
	"github.com/entrypointer/entrypointer/pkg/pod/internal/text"
)

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

// noteStopSignal determines the signal by which the kubelet stops a container: the signal
// of its spec, or else of its image, which is nil if it hasn't been looked up. A
// container that already has its place in the order has the signal among its flags, from
// an earlier call.
func (w *wrapping) noteStopSignal(ctx context.Context, c *corev1.Container, image *lookup.Image, already bool) {
	if !w.plan.NeedsSignal(c.Name) {
		return
	}
	former, placed := between.FormerSignal(c.Args)
	signal := ""
	switch {
	case c.Lifecycle != nil && c.Lifecycle.StopSignal != nil:
		signal, _ = lookup.ParseStopSignal(string(*c.Lifecycle.StopSignal))
	case already && placed:
		signal, _ = lookup.ParseStopSignal(former)
	case image != nil:
		signal = w.signalOf(c, image)
	case w.Lookup != nil:
		image, err := w.lookUpSignal(ctx, c.Image)
		if err != nil {
			w.warnings = append(w.warnings, warning(ReasonStopSignalUnknown, "container %q: the stop signal of image %q can't be looked up (%s), so SIGTERM is assumed; if the signal is another, the pod doesn't stop in order",
				c.Name, c.Image, reasonOf(err)))
			return
		}
		signal = w.signalOf(c, image)
	}
	if !slices.Contains(usualSignals, signal) {
		w.plan.SetSignal(c.Name, signal)
	}
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
func (w *wrapping) signalOf(c *corev1.Container, image *lookup.Image) string {
	signal := image.Configs[0].StopSignal
	if slices.ContainsFunc(image.Configs, func(other lookup.Config) bool { return other.StopSignal != signal }) {
		w.warnings = append(w.warnings, warning(ReasonStopSignalUnknown, "container %q: the platforms of image %q have different stop signals, so SIGTERM is assumed; on platforms with another signal, the pod doesn't stop in order",
			c.Name, c.Image))
		return ""
	}
	return signal
}
