// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"fmt"
	"slices"
	"strings"

	"gomodules.xyz/jsonpatch/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// Patch returns the JSON patch (RFC 6902) that leads from the pod before to
// the pod after [Injector.Inject].
//
// It looks at nothing but what Inject may change, and it addresses the
// elements of lists one by one: fields that a newer API server knows and our
// vendored types don't are neither removed nor moved to another container, as
// a generic diff of the two documents would do.
func Patch(before, after *corev1.Pod) []jsonpatch.Operation {
	var p patch
	p.annotations(before, after)
	p.volumes(before, after)
	p.initContainers(before, after)
	for i := range before.Spec.Containers {
		p.container(i, &before.Spec.Containers[i], &after.Spec.Containers[i])
	}
	return p
}

type patch []jsonpatch.Operation

func (p *patch) add(path string, value any) {
	*p = append(*p, jsonpatch.NewOperation("add", path, value))
}

// replaceIn replaces those of our elements that differ, and adds those that
// before hasn't. A list that the API server would leave out has to be created
// with its first element.
func replaceIn[T any](p *patch, path string, before, after []T, ours func(T) bool) {
	if len(before) == 0 && len(after) > 0 {
		p.add(path, after)
		return
	}
	for i := range before {
		if ours(before[i]) && !equality.Semantic.DeepEqual(before[i], after[i]) {
			*p = append(*p, jsonpatch.NewOperation("replace", fmt.Sprintf("%s/%d", path, i), after[i]))
		}
	}
	for _, element := range after[len(before):] {
		p.add(path+"/-", element)
	}
}

func (p *patch) annotations(before, after *corev1.Pod) {
	if len(before.Annotations) == 0 && len(after.Annotations) > 0 {
		p.add("/metadata/annotations", after.Annotations)
		return
	}
	for _, key := range []string{StatusAnnotation, safeToEvictAnnotation} {
		path := "/metadata/annotations/" + strings.ReplaceAll(key, "/", "~1")
		said, was := before.Annotations[key]
		switch value, is := after.Annotations[key]; {
		case is && said != value || is && !was:
			p.add(path, value)
		case was && !is:
			*p = append(*p, jsonpatch.NewOperation("remove", path, nil))
		}
	}
}

func (p *patch) volumes(before, after *corev1.Pod) {
	replaceIn(p, "/spec/volumes", before.Spec.Volumes, after.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == VolumeName })
}

// initContainers may find ours added at the top, removed, or repaired. Of
// others, only the mount of our volume may have changed.
func (p *patch) initContainers(before, after *corev1.Pod) {
	was, is := before.Spec.InitContainers, after.Spec.InitContainers
	if len(was) == 0 && len(is) > 0 {
		p.add("/spec/initContainers", is)
		return
	}
	if len(is) < len(was) {
		at := initContainerIndex(before)
		*p = append(*p, jsonpatch.NewOperation("remove", fmt.Sprintf("/spec/initContainers/%d", at), nil))
		was = slices.Delete(slices.Clone(was), at, at+1)
	}
	added := len(is) - len(was)
	for i := range was {
		at := fmt.Sprintf("/spec/initContainers/%d", i)
		switch now := is[added+i]; {
		case now.Name != InitContainerName:
			p.mounts(at, was[i].VolumeMounts, now.VolumeMounts)
		case !equality.Semantic.DeepEqual(was[i], now):
			*p = append(*p, jsonpatch.NewOperation("replace", at, now))
		}
	}
	if added > 0 {
		p.add("/spec/initContainers/0", is[0])
	}
}

func (p *patch) container(i int, before, after *corev1.Container) {
	at := fmt.Sprintf("/spec/containers/%d", i)
	if !equality.Semantic.DeepEqual(before.Command, after.Command) {
		p.add(at+"/command", after.Command)
	}
	if !equality.Semantic.DeepEqual(before.Args, after.Args) {
		p.add(at+"/args", after.Args)
	}
	if before.Image != after.Image {
		p.add(at+"/image", after.Image)
	}
	p.mounts(at, before.VolumeMounts, after.VolumeMounts)
}

func (p *patch) mounts(at string, before, after []corev1.VolumeMount) {
	replaceIn(p, at+"/volumeMounts", before, after, func(m corev1.VolumeMount) bool { return m.Name == VolumeName })
}
