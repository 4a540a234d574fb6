// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/pkg/spelling"
)

// Delivery is how the supervisor gets into a pod.
type Delivery string

// The deliveries. The zero value is InitContainer.
const (
	// InitContainer copies the supervisor into an emptyDir, which works everywhere.
	InitContainer Delivery = "init-container"
	// ImageVolume mounts the supervisor's image. Kubernetes has such volumes from
	// 1.35 on (before, behind the feature gate ImageVolume), and containerd from 2.2,
	// CRI-O from 1.33 on.
	ImageVolume Delivery = "image-volume"
	// Auto is ImageVolume for pods that ordinary nodes run, and InitContainer for
	// those that may run elsewhere, or in another way: with a runtime class, or in a
	// user namespace; on a node that the pod names, whatever its taints are; on
	// cordoned nodes, as the pods of DaemonSets do; on virtual kubelets. It is for
	// clusters all of whose schedulable Linux nodes can mount images, but for virtual
	// kubelets with their taint.
	Auto Delivery = "auto"
	// Claim mounts a volume claim of the pod's namespace that holds the supervisor.
	// Where there is none ([Injector.Claim]), pods get an init container, and so do
	// those in a user namespace: NFS has no id-mapped mounts.
	Claim Delivery = "claim"
)

// The label and the taint of nodes that no kubelet runs
// (https://virtual-kubelet.io/docs/setup).
const (
	virtualKubeletLabel = "type"
	virtualKubelet      = "virtual-kubelet"
	// VirtualKubeletTaint keeps pods that don't tolerate it away from virtual kubelets.
	VirtualKubeletTaint = "virtual-kubelet.io/provider"
)

var deliveries = []Delivery{InitContainer, ImageVolume, Auto, Claim}

// ParseDelivery reads the name of a delivery.
func ParseDelivery(name string) (Delivery, error) {
	if !slices.Contains(deliveries, Delivery(name)) {
		known := make([]string, len(deliveries))
		for i, d := range deliveries {
			known[i] = string(d)
		}
		return "", fmt.Errorf("%q is none of %q%s", shortened(name), known, spelling.DidYouMean(name, known))
	}
	return Delivery(name), nil
}

// NamespaceDelivery is what the annotation of a namespace says of the delivery, ""
// if it has none.
func NamespaceDelivery(annotations map[string]string) (Delivery, error) {
	name, set := annotations[DeliveryAnnotation]
	if !set {
		return "", nil
	}
	delivery, err := ParseDelivery(name)
	if err != nil {
		return "", fmt.Errorf("annotation %s: %w", DeliveryAnnotation, err)
	}
	return delivery, nil
}

// deliveryFor is how the supervisor gets into this pod.
func (i *Injector) deliveryFor(pod *corev1.Pod) Delivery {
	switch p := i.Policy; {
	case p.Delivery == "", p.Delivery == Auto && isExtraordinary(pod), p.Delivery == Claim && (i.Claim == "" || hasUserNamespace(pod)):
		return InitContainer
	case p.Delivery == Auto:
		return ImageVolume
	default:
		return p.Delivery
	}
}

// isExtraordinary reports whether a pod may run elsewhere than on an ordinary node,
// or otherwise than most pods do: see [Auto].
func isExtraordinary(pod *corev1.Pod) bool {
	spec := &pod.Spec
	return spec.RuntimeClassName != nil && *spec.RuntimeClassName != "" ||
		hasUserNamespace(pod) ||
		spec.NodeName != "" ||
		tolerates(pod, corev1.TaintNodeUnschedulable) || tolerates(pod, VirtualKubeletTaint) ||
		selectsVirtualKubelets(pod)
}

func hasUserNamespace(pod *corev1.Pod) bool {
	return pod.Spec.HostUsers != nil && !*pod.Spec.HostUsers
}

// tolerates reports whether a pod tolerates some taint of a key. Which value and
// effect the taint has on a node isn't known here.
func tolerates(pod *corev1.Pod, key string) bool {
	return slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool {
		return t.Key == key || t.Key == "" && t.Operator == corev1.TolerationOpExists
	})
}

// selectsVirtualKubelets reports whether a pod asks for nodes with the label of
// virtual kubelets, among others perhaps.
func selectsVirtualKubelets(pod *corev1.Pod) bool {
	if pod.Spec.NodeSelector[virtualKubeletLabel] == virtualKubelet {
		return true
	}
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.NodeAffinity == nil {
		return false
	}
	affinity := pod.Spec.Affinity.NodeAffinity
	var terms []corev1.NodeSelectorTerm
	if required := affinity.RequiredDuringSchedulingIgnoredDuringExecution; required != nil {
		terms = slices.Clone(required.NodeSelectorTerms)
	}
	for _, preferred := range affinity.PreferredDuringSchedulingIgnoredDuringExecution {
		terms = append(terms, preferred.Preference)
	}
	return slices.ContainsFunc(terms, func(term corev1.NodeSelectorTerm) bool {
		return slices.ContainsFunc(term.MatchExpressions, func(r corev1.NodeSelectorRequirement) bool {
			return r.Key == virtualKubeletLabel && r.Operator == corev1.NodeSelectorOpIn && slices.Contains(r.Values, virtualKubelet)
		})
	})
}
