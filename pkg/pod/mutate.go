// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/pkg/lookup"
)

// Injector wraps pods. It is safe for concurrent use.
type Injector struct {
	// CopierImage is the image of the init container, pinned by digest.
	CopierImage string
	// Lookup is asked for images of containers that set no command.
	Lookup lookup.Lookuper
	// Policy is the operator's.
	Policy Policy
}

// Policy is what an operator decides for all pods. The zero value is the default.
type Policy struct {
	// ForbidOptOut wraps pods even if their own annotation says "false".
	ForbidOptOut bool
	// WaiveFailedLookups admits a pod unwrapped, with a warning, when one of
	// its images can't be looked up. Otherwise such a pod is refused.
	WaiveFailedLookups bool
}

// Result is what became of a pod that is admitted.
type Result struct {
	Outcome Outcome
	// Owner is "Tekton", "Knative", "Annotation", or empty if the pod is NotOurs.
	Owner string
	// Pod is the pod as it shall be: a changed copy if Outcome is Injected,
	// the pod itself otherwise.
	Pod *corev1.Pod
	// Wrapped names the containers that were wrapped now.
	Wrapped []string
	// Warnings are for whoever created the pod.
	Warnings []string
}

// Inject decides on a pod that is about to be created in namespace, and wraps
// it. The pod itself is left as it is. An error that is a *Refusal is meant for
// the pod's author.
func (i *Injector) Inject(ctx context.Context, namespace string, pod *corev1.Pod) (Result, error) {
	selected, ownerName, outcome, err := i.classify(pod)
	if err != nil {
		return Result{}, err
	}
	if outcome != "" {
		return Result{Outcome: outcome, Owner: ownerName, Pod: pod}, nil
	}
	changed := pod.DeepCopy()
	wrapped, err := i.wrap(ctx, namespace, changed, selected)
	var failed *lookup.Error
	if errors.As(err, &failed) && i.Policy.WaiveFailedLookups {
		return Result{Outcome: LookupWaived, Owner: ownerName, Pod: pod, Warnings: []string{
			fmt.Sprintf("entrypointer: this pod runs without its supervisor: %v", failed),
		}}, nil
	}
	if err != nil {
		return Result{}, err
	}
	if err := i.install(changed, selected); err != nil {
		return Result{}, err
	}
	if len(wrapped) == 0 && Same(pod, changed) {
		return Result{Outcome: AlreadyInjected, Owner: ownerName, Pod: pod}, nil
	}
	if changed.Annotations == nil {
		changed.Annotations = map[string]string{}
	}
	changed.Annotations[StatusAnnotation] = string(Injected)
	return Result{Outcome: Injected, Owner: ownerName, Pod: changed, Wrapped: wrapped}, nil
}

// wrap rewrites the selected containers that aren't wrapped yet and returns their names.
func (i *Injector) wrap(ctx context.Context, namespace string, pod *corev1.Pod, selected []int) ([]string, error) {
	var names []string
	for _, index := range selected {
		c := &pod.Spec.Containers[index]
		if err := checkMounts(*c); err != nil {
			return nil, err
		}
		if isWrapped(*c) {
			continue
		}
		var image *lookup.Image
		if needsLookup(*c) {
			var err error
			if image, err = i.Lookup.Lookup(ctx, queryFor(namespace, pod, c.Image)); err != nil {
				return nil, &Refusal{Outcome: LookupFailed, Err: fmt.Errorf("wrapping container %q: %w", c.Name, err)}
			}
		}
		args, err := wrappedArgs(*c, image)
		if err != nil {
			return nil, err
		}
		if image != nil {
			// What runs shall be what was looked up, even if the tag moves in between.
			c.Image = image.Pinned
		}
		c.Command = []string{EntrypointPath}
		c.Args = args
		if !slices.ContainsFunc(c.VolumeMounts, isOurMount) {
			c.VolumeMounts = append(c.VolumeMounts, ourMount)
		}
		names = append(names, c.Name)
	}
	return names, nil
}

// isWrapped reads off the container's structure, which decides what will run,
// and not off any annotation, which a tenant could forge. Flags that we would
// not have set make it somebody else's.
func isWrapped(c corev1.Container) bool {
	if !slices.Equal(c.Command, []string{EntrypointPath}) || !slices.ContainsFunc(c.VolumeMounts, isOurMount) {
		return false
	}
	end := slices.Index(c.Args, "--")
	return end >= 0 && !slices.ContainsFunc(c.Args[:end], func(flag string) bool {
		return !strings.HasPrefix(flag, platformFlag) && !strings.HasPrefix(flag, argFlag)
	})
}

// ourMount is how a wrapped container gets at the entrypoint.
var ourMount = corev1.VolumeMount{Name: VolumeName, MountPath: MountPath, ReadOnly: true}

// isOurMount ignores what an API server or another webhook may have defaulted.
func isOurMount(m corev1.VolumeMount) bool {
	return m.Name == ourMount.Name && m.MountPath == ourMount.MountPath && m.ReadOnly && m.SubPath == "" && m.SubPathExpr == ""
}

// checkMounts refuses a mount of the author's that would hide ours or be hidden by it.
func checkMounts(c corev1.Container) error {
	for _, m := range c.VolumeMounts {
		if !isOurMount(m) && (within(MountPath, m.MountPath) || within(m.MountPath, MountPath)) {
			return refuse(NameCollision, "wrapping container %q: its volume %q is mounted at %q, where volume %q belongs, read-only (%s); mount it elsewhere",
				c.Name, m.Name, m.MountPath, VolumeName, MountPath)
		}
	}
	return nil
}

// within says whether p is dir or lies in it.
func within(p, dir string) bool {
	p, dir = path.Clean(p), path.Clean(dir)
	return p == dir || dir == "/" || strings.HasPrefix(p, dir+"/")
}

func queryFor(namespace string, pod *corev1.Pod, image string) lookup.Query {
	query := lookup.Query{Image: image, Namespace: namespace, ServiceAccount: pod.Spec.ServiceAccountName}
	for _, secret := range pod.Spec.ImagePullSecrets {
		query.PullSecrets = append(query.PullSecrets, secret.Name)
	}
	return query
}
