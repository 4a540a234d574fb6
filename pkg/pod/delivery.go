// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"fmt"
	"path"
	"regexp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/entrypointer/entrypointer/pkg/pod/internal/text"
	"github.com/entrypointer/entrypointer/pkg/spelling"
)

// Delivery is the way in which the supervisor gets into a pod.
type Delivery string

// The deliveries. The zero value is DeliveryInitContainer.
const (
	// DeliveryInitContainer copies the supervisor into an emptyDir, which works everywhere.
	DeliveryInitContainer Delivery = "init-container"
	// DeliveryImageVolume mounts the supervisor's image. It requires Kubernetes 1.35 (earlier
	// versions need the feature gate DeliveryImageVolume), and containerd 2.2 or CRI-O 1.33.
	DeliveryImageVolume Delivery = "image-volume"
	// DeliveryAuto is DeliveryImageVolume for pods that run on ordinary nodes in an ordinary way, and
	// DeliveryInitContainer for all other pods: with a runtime class, or in a user namespace; on
	// a node that the pod names, whatever its taints are; on cordoned nodes, like the
	// pods of DaemonSets; on virtual kubelets. DeliveryAuto requires that all schedulable Linux
	// nodes of the cluster can mount images, except virtual kubelets with their taint.
	DeliveryAuto Delivery = "auto"
	// DeliveryClaim mounts a volume claim of the pod's namespace that holds the supervisor. In a
	// namespace without such a claim ([Injector.ClaimName]), pods get an init container. Pods
	// in a user namespace get an init container as well, because NFS has no id-mapped
	// mounts.
	DeliveryClaim Delivery = "claim"
)

// The label and the taint of virtual kubelets (https://virtual-kubelet.io/docs/setup).
const (
	virtualKubeletLabel = "type"
	virtualKubelet      = "virtual-kubelet"
	// VirtualKubeletTaint repels pods that don't tolerate it from virtual kubelets.
	VirtualKubeletTaint = "virtual-kubelet.io/provider"
)

// imagePath is the directory of the binary in an image that ko builds, without the leading
// slash.
const imagePath = "ko-app"

// The directories of the binaries in a claim. Each has its own directory, which is
// mounted.
const (
	ClaimPath         = "plain/entrypoint"
	ClaimPathWithLogs = "with-logs/entrypoint"
)

// ClaimPrefix begins the name of every claim that holds the supervisor.
const ClaimPrefix = "entrypointer-"

// claimName matches the names of such claims.
var claimName = regexp.MustCompile(`^` + ClaimPrefix + `[0-9a-f]{12}$`)

// A means is how a delivery brings the supervisor into a pod: in a volume.
type means struct {
	Delivery
	// source returns the volume's source. sends reports whether a container of the pod sends
	// its output, for which another build of the supervisor is there.
	source func(i *Injector, pod *corev1.Pod, sends bool) corev1.VolumeSource
	// directory returns the supervisor's directory in the volume, "" for the volume itself.
	directory func(sends bool) string
	// isOurs reports whether a volume of our name may come from a release of ours.
	isOurs func(found corev1.VolumeSource) bool
	// copies reports whether an init container copies the supervisor into the volume.
	copies bool
	// mounts reports whether the images of tools can be mounted as well.
	mounts bool
}

// deliveries are the means of all deliveries. DeliveryAuto has none of its own.
var deliveries = []means{
	{
		Delivery: DeliveryInitContainer, copies: true,
		source: func(_ *Injector, pod *corev1.Pod, _ bool) corev1.VolumeSource {
			return corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: new(resource.MustParse(volumeSize)), Medium: entrypointMedium(pod)}}
		},
		directory: func(bool) string { return "" },
		isOurs:    func(found corev1.VolumeSource) bool { return found.EmptyDir != nil },
	},
	{
		Delivery: DeliveryImageVolume, mounts: true,
		source: func(i *Injector, _ *corev1.Pod, sends bool) corev1.VolumeSource {
			image := i.EntrypointImage
			if sends {
				image = i.Logs.EntrypointImage
			}
			volume, _ := EntrypointVolume(image)
			return volume.VolumeSource
		},
		directory: func(bool) string { return imagePath },
		isOurs:    func(found corev1.VolumeSource) bool { return found.Image != nil },
	},
	{Delivery: DeliveryAuto},
	{
		Delivery: DeliveryClaim,
		source: func(i *Injector, _ *corev1.Pod, _ bool) corev1.VolumeSource {
			return corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: i.ClaimName, ReadOnly: true}}
		},
		directory: func(sends bool) string {
			if sends {
				return path.Dir(ClaimPathWithLogs)
			}
			return path.Dir(ClaimPath)
		},
		isOurs: func(found corev1.VolumeSource) bool {
			return found.PersistentVolumeClaim != nil && claimName.MatchString(found.PersistentVolumeClaim.ClaimName)
		},
	},
}

// A supply is what a delivery brings into a pod.
type supply struct {
	*means
	volume corev1.Volume
	mount  corev1.VolumeMount // in the containers that run the supervisor
	copier string             // the image of the init container that fills the volume, "" for none
}

// supplyFor returns what brings the supervisor into a pod. sends reports whether a container
// of the pod sends its output.
func (i *Injector) supplyFor(pod *corev1.Pod, sends bool) supply {
	delivery := i.Policy.Delivery
	switch {
	case delivery == "", delivery == DeliveryAuto && isExtraordinary(pod), delivery == DeliveryClaim && (i.ClaimName == "" || hasUserNamespace(pod)):
		delivery = DeliveryInitContainer
	case delivery == DeliveryAuto:
		delivery = DeliveryImageVolume
	}
	s := supply{means: &deliveries[slices.IndexFunc(deliveries, func(m means) bool { return m.Delivery == delivery })]}
	s.volume, s.mount = EntrypointVolume("")
	s.volume.VolumeSource, s.mount.SubPath = s.source(i, pod, sends), s.directory(sends)
	switch {
	case s.copies && sends:
		s.copier = i.Logs.CopierImage
	case s.copies:
		s.copier = i.CopierImage
	}
	return s
}

// isOurs reports whether a volume of our name may come from a release of ours.
func isOurs(found corev1.VolumeSource) bool {
	return slices.ContainsFunc(deliveries, func(m means) bool { return m.isOurs != nil && m.isOurs(found) })
}

// EntrypointVolume returns the volume of the supervisor's image for [DeliveryImageVolume], and
// its mount for the containers that run [EntrypointPath].
func EntrypointVolume(image string) (corev1.Volume, corev1.VolumeMount) {
	return corev1.Volume{Name: VolumeName, VolumeSource: corev1.VolumeSource{
			Image: &corev1.ImageVolumeSource{Reference: image, PullPolicy: corev1.PullIfNotPresent},
		}},
		corev1.VolumeMount{Name: VolumeName, MountPath: MountPath, SubPath: imagePath, ReadOnly: true}
}

// Deliveries returns all deliveries.
func Deliveries() []Delivery {
	all := make([]Delivery, len(deliveries))
	for at, m := range deliveries {
		all[at] = m.Delivery
	}
	return all
}

// ParseDelivery parses the name of a delivery.
func ParseDelivery(name string) (Delivery, error) {
	var known []string
	for _, m := range deliveries {
		if string(m.Delivery) == name {
			return m.Delivery, nil
		}
		known = append(known, string(m.Delivery))
	}
	return "", fmt.Errorf("%q is none of %q%s", text.Shortened(name), known, spelling.DidYouMean(name, known))
}

// NamespaceDelivery returns the delivery that a namespace's annotation sets, "" without
// the annotation.
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

// isExtraordinary reports whether a pod may run on an extraordinary node, or in an
// extraordinary way: see [DeliveryAuto].
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

// tolerates reports whether a pod tolerates some taint of a key. The taint's value and
// effect on a node are unknown here.
func tolerates(pod *corev1.Pod, key string) bool {
	return slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool {
		return t.Key == key || t.Key == "" && t.Operator == corev1.TolerationOpExists
	})
}

// selectsVirtualKubelets reports whether a pod requires the label of virtual kubelets.
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
