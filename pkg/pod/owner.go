// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// owner is a kind of pod that we know how to wrap.
type owner struct {
	name string
	// wraps says whether the container is the user's.
	wraps func(corev1.Container) bool
}

// byLabel are the owners that mark their pods by a label. The values of these
// labels are names, so their presence is what counts. Tenants can add labels to
// their pods, so where both are present, the kind of controller decides.
var byLabel = []struct {
	label, controller string
	owner
}{
	// Steps only: Tekton stops a sidecar by patching its image to one in which
	// our binary would keep it alive, and reads its log sidecar by protocol.
	{"tekton.dev/taskRun", "TaskRun", owner{"Tekton", func(c corev1.Container) bool { return strings.HasPrefix(c.Name, "step-") }}},
	{"serving.knative.dev/revision", "ReplicaSet", owner{"Knative", func(c corev1.Container) bool { return c.Name != "queue-proxy" && !isProxy(c) }}},
}

// proxies are containers that other webhooks inject. Whoever injects one
// manages it too: by its PID 1, its image's entrypoint or its preStop hook.
var proxies = map[string]bool{
	"istio-proxy":         true,
	"linkerd-proxy":       true,
	"kuma-sidecar":        true,
	"consul-dataplane":    true,
	"vault-agent":         true,
	"daprd":               true,
	"otc-container":       true, // OpenTelemetry operator
	"gke-gcsfuse-sidecar": true,
}

func isProxy(c corev1.Container) bool { return proxies[c.Name] }

// classify answers whose pod it is and which containers are wrapped, as
// indexes into spec.containers. An outcome other than "" ends the matter.
func (i *Injector) classify(pod *corev1.Pod) (selected []int, ownerName string, _ Outcome, _ error) {
	inject, set := pod.Annotations[InjectAnnotation]
	if set && inject != "true" && inject != "false" {
		return nil, "", "", refuse(InvalidAnnotation, "reading annotation %s: %q is neither \"true\" nor \"false\"", InjectAnnotation, inject)
	}
	if inject == "false" && !i.Policy.ForbidOptOut {
		return nil, "", OptedOut, nil
	}
	own, ok, err := ownerOf(pod)
	switch {
	case err != nil:
		return nil, "", "", err
	case !ok:
		return nil, "", NotOurs, nil
	case isWindows(pod):
		return nil, own.name, Windows, nil
	case isMirror(pod):
		return nil, own.name, MirrorPod, nil
	}
	for index, c := range pod.Spec.Containers {
		if own.wraps(c) {
			selected = append(selected, index)
		}
	}
	if len(selected) == 0 {
		return nil, own.name, NothingToWrap, nil
	}
	return selected, own.name, "", nil
}

func ownerOf(pod *corev1.Pod) (owner, bool, error) {
	if marked, ok := markedBy(pod); ok {
		return marked, true, nil
	}
	if pod.Annotations[InjectAnnotation] != "true" {
		return owner{}, false, nil
	}
	names, narrowed := pod.Annotations[ContainersAnnotation]
	if !narrowed {
		return owner{"Annotation", func(c corev1.Container) bool { return !isProxy(c) }}, true, nil
	}
	chosen, err := chosenContainers(pod, names)
	if err != nil {
		return owner{}, false, err
	}
	return owner{"Annotation", func(c corev1.Container) bool { return slices.Contains(chosen, c.Name) }}, true, nil
}

func markedBy(pod *corev1.Pod) (marked owner, ok bool) {
	controller := metav1.GetControllerOf(pod)
	for _, known := range byLabel {
		if _, labelled := pod.Labels[known.label]; !labelled {
			continue
		}
		if !ok || controller != nil && controller.Kind == known.controller {
			marked, ok = known.owner, true
		}
	}
	return marked, ok
}

func chosenContainers(pod *corev1.Pod, names string) ([]string, error) {
	var chosen []string
	for name := range strings.SplitSeq(names, ",") {
		name = strings.TrimSpace(name)
		if !slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == name }) {
			return nil, refuse(InvalidAnnotation, "reading annotation %s: the pod has no container %q in spec.containers; name some of its own, separated by commas", ContainersAnnotation, name)
		}
		chosen = append(chosen, name)
	}
	return chosen, nil
}

func isWindows(pod *corev1.Pod) bool {
	if pod.Spec.OS != nil {
		return pod.Spec.OS.Name == corev1.Windows
	}
	return pod.Spec.NodeSelector[corev1.LabelOSStable] == string(corev1.Windows)
}

func isMirror(pod *corev1.Pod) bool {
	_, ok := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return ok
}

func refuse(outcome Outcome, format string, args ...any) *Refusal {
	return &Refusal{Outcome: outcome, Err: fmt.Errorf(format, args...)}
}
