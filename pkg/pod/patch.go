// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gomodules.xyz/jsonpatch/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// Patch returns the JSON patch (RFC 6902) that leads from the pod before to the pod after
// [Injector.Inject].
//
// Patch compares only what Inject may change, and addresses the elements of lists one by
// one. So it neither removes nor moves fields of a newer API server that are unknown to
// our vendored types, as a generic diff of the two documents would.
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

func (p *patch) remove(path string) {
	*p = append(*p, jsonpatch.NewOperation("remove", path, nil))
}

// changeList leads from one list to another, of which only our elements may have been
// added, removed or changed. It calls kept, if it isn't nil, for other elements. If the
// API server omits the empty list, the first element creates it.
func changeList[T any](p *patch, path string, before, after []T, ours func(T) bool, kept func(at string, before, after T)) {
	if len(before) == 0 && len(after) > 0 {
		p.add(path, after)
		return
	}
	// The list up to i is done; before holds the rest of it.
	for i := 0; i < len(after) || len(before) > 0; {
		at := func() string { return path + "/" + strconv.Itoa(i) }
		is, was := head(after, i, ours), head(before, 0, ours)
		switch {
		case was == anOurs && is != anOurs:
			p.remove(at())
			before = before[1:]
			continue
		case is == anOurs && was != anOurs:
			p.add(at(), after[i]) // an index equal to the length appends
		default:
			if is == anOurs && !equality.Semantic.DeepEqual(before[0], after[i]) {
				*p = append(*p, jsonpatch.NewOperation("replace", at(), after[i]))
			}
			if is == aTheirs && kept != nil {
				kept(at(), before[0], after[i])
			}
			before = before[1:]
		}
		i++
	}
}

// The owner of a list's element.
const (
	nothing = iota
	anOurs
	aTheirs
)

func head[T any](list []T, at int, ours func(T) bool) int {
	switch {
	case at >= len(list):
		return nothing
	case ours(list[at]):
		return anOurs
	default:
		return aTheirs
	}
}

// addedAnnotations are the annotations that may have been added, changed or removed.
var addedAnnotations = []string{StatusAnnotation, safeToEvictAnnotation, ExplanationAnnotation}

func (p *patch) annotations(before, after *corev1.Pod) {
	if len(before.Annotations) == 0 && len(after.Annotations) > 0 {
		p.add("/metadata/annotations", after.Annotations)
		return
	}
	for _, key := range addedAnnotations {
		path := "/metadata/annotations/" + strings.ReplaceAll(key, "/", "~1")
		said, was := before.Annotations[key]
		switch value, is := after.Annotations[key]; {
		case is && said != value || is && !was:
			p.add(path, value)
		case was && !is:
			p.remove(path)
		}
	}
}

func (p *patch) volumes(before, after *corev1.Pod) {
	changeList(p, "/spec/volumes", before.Spec.Volumes, after.Spec.Volumes, func(v corev1.Volume) bool { return isOurVolume(v.Name) }, nil)
}

// isOurVolume reports whether a volume of this name may have been added, changed or
// removed.
func isOurVolume(name string) bool {
	return name == VolumeName || name == ToolsVolumeName || name == TokenVolumeName ||
		strings.HasPrefix(name, secretPrefix) || strings.HasPrefix(name, OrderVolumePrefix) || strings.HasPrefix(name, SharedVolumePrefix)
}

// initContainers finds our init containers added, removed, or restored. In other init
// containers, only the mounts of our volumes may have changed.
func (p *patch) initContainers(before, after *corev1.Pod) {
	ours := func(c corev1.Container) bool {
		return isCopier(c) || copiesTool(c)
	}
	changeList(p, "/spec/initContainers", before.Spec.InitContainers, after.Spec.InitContainers, ours, func(at string, was, is corev1.Container) {
		p.mounts(at, was.VolumeMounts, is.VolumeMounts)
	})
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
	switch {
	case equality.Semantic.DeepEqual(before.StartupProbe, after.StartupProbe):
	case after.StartupProbe == nil:
		p.remove(at + "/startupProbe")
	default:
		p.add(at+"/startupProbe", after.StartupProbe)
	}
	changeList(p, at+"/env", before.Env, after.Env, isPodUID, nil)
	p.mounts(at, before.VolumeMounts, after.VolumeMounts)
}

func (p *patch) mounts(at string, before, after []corev1.VolumeMount) {
	changeList(p, at+"/volumeMounts", before, after, func(m corev1.VolumeMount) bool { return isOurVolume(m.Name) }, nil)
}

// OursAlone returns a pod as it is before its admission with those changes of a pod after
// it that [Patch] finds: what other webhooks and the API server have added, removed or
// moved is left out.
func OursAlone(before, after *corev1.Pod) *corev1.Pod {
	pod := before.DeepCopy()
	for _, key := range addedAnnotations {
		delete(pod.Annotations, key)
		if value, set := after.Annotations[key]; set {
			if pod.Annotations == nil {
				pod.Annotations = map[string]string{}
			}
			pod.Annotations[key] = value
		}
	}
	pod.Spec.Volumes = merged(before.Spec.Volumes, after.Spec.Volumes, func(v corev1.Volume) bool { return isOurVolume(v.Name) })
	pod.Spec.InitContainers = merged(before.Spec.InitContainers, after.Spec.InitContainers, func(c corev1.Container) bool { return isCopier(c) || copiesTool(c) })
	named := map[string]*corev1.Container{}
	for _, c := range allContainers(after) {
		named[c.Name] = c
	}
	for _, c := range allContainers(pod) {
		if found, present := named[c.Name]; present && !isCopier(*c) && !copiesTool(*c) {
			takeOurs(c, *found)
		}
	}
	return pod
}

// takeOurs makes those changes to a container that Patch finds.
func takeOurs(c *corev1.Container, after corev1.Container) {
	if IsWrapped(after) {
		c.Command, c.Args, c.Image, c.StartupProbe = after.Command, after.Args, after.Image, after.StartupProbe
		c.Env = merged(c.Env, after.Env, isPodUID)
	}
	c.VolumeMounts = merged(c.VolumeMounts, after.VolumeMounts, func(m corev1.VolumeMount) bool { return isOurVolume(m.Name) })
}

// merged returns the elements of a list that aren't ours, and ours of another list: those
// that precede all others there come first, and the rest last.
func merged[T any](before, after []T, ours func(T) bool) []T {
	first := 0
	for first < len(after) && ours(after[first]) {
		first++
	}
	theirs := slices.DeleteFunc(slices.Clone(before), ours)
	rest := slices.DeleteFunc(slices.Clone(after[first:]), func(e T) bool { return !ours(e) })
	return slices.Concat(after[:first], theirs, rest)
}
