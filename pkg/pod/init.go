// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// nonRootUser is the user of distroless images, for pods that would make the init container root.
const nonRootUser int64 = 65532

// copierPaths decide which program the init container leaves in the volume: the program's
// path in its image, the mount path of the volume, and the path at which the kernel names
// the program's own file. No symbolic link in our image leads there.
var copierPaths = []string{"/" + imagePath, path.Dir(MountPath), "/proc"}

// installCopier adds the init container that fills the volume, or removes it if the
// delivery needs none: it couldn't write into an image.
func (w *wrapping) installCopier(pod *corev1.Pod, selected []int) error {
	var wanted []corev1.Container
	if w.supply.copier != "" {
		wanted = append(wanted, copier(w.supply.copier, pod, selected))
		if !markSafeToEvict(pod, VolumeName) {
			w.warn(tooManyAnnotations(safeToEvictAnnotation))
		}
	}
	return w.putInitContainers(pod, isCopier, func(found, wanted corev1.Container) corev1.Container {
		return repaired(found, wanted, copierPaths...)
	}, wanted...)
}

// putInitContainers adds init containers of ours, in their order and without others
// between them, behind the one that copies the supervisor, which they run. It repairs
// those that are there, and removes the others that isOurs recognises, which an earlier
// call has left.
func (w *wrapping) putInitContainers(pod *corev1.Pod, isOurs func(corev1.Container) bool, repair func(found, wanted corev1.Container) corev1.Container, wanted ...corev1.Container) error {
	for at, c := range wanted {
		for index, found := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
			switch {
			case found.Name != c.Name:
			case !isOurs(found) || index >= len(pod.Spec.InitContainers):
				return refuse(NameCollision, "adding init container %q: the pod has another container of this name, image %q; rename it", found.Name, found.Image)
			default:
				wanted[at] = repair(found, c)
				w.noteAdditions(wanted[at], c)
			}
		}
	}
	at := slices.IndexFunc(pod.Spec.InitContainers, isOurs)
	pod.Spec.InitContainers = slices.DeleteFunc(pod.Spec.InitContainers, isOurs)
	pod.Spec.InitContainers = slices.Insert(pod.Spec.InitContainers, max(at, slices.IndexFunc(pod.Spec.InitContainers, isCopier)+1), wanted...)
	return nil
}

// noteAdditions notes what others have added to an init container of ours, which stays.
func (w *wrapping) noteAdditions(c, wanted corev1.Container) {
	for _, field := range differentFields(c, wanted) {
		if !slices.Contains(w.additions, field) {
			w.additions = append(w.additions, field)
		}
	}
}

// copier returns the init container that copies the supervisor. The container asks for
// no right and no resource that the pod lacks without it.
func copier(image string, pod *corev1.Pod, selected []int) corev1.Container {
	return corev1.Container{
		Name:            InitContainerName,
		Image:           image,
		ImagePullPolicy: corev1.PullIfNotPresent,
		Args:            []string{EntrypointPath},
		Resources:       initResources(pod, selected),
		VolumeMounts:    append([]corev1.VolumeMount{{Name: VolumeName, MountPath: MountPath}}, insteadOfToken(pod, VolumeName)...),
		SecurityContext: initSecurityContext(pod),
		// The API server's defaults, so that a second call finds nothing to change.
		TerminationMessagePath:   corev1.TerminationMessagePathDefault,
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
	}
}

// isCopier reports whether an init container is the one that copies the supervisor, or an
// imitation of it.
func isCopier(c corev1.Container) bool {
	return c.Name == InitContainerName && slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool {
		return m.Name == VolumeName && m.MountPath == MountPath
	})
}

// initResources returns the resources of the wrapped container with the most CPU, as far
// as an init container needs them. A pod's effective request is max(largest init
// container, sum of containers), so that the request stays the same, and with it the QoS
// class and the effect of a quota or a LimitRange.
func initResources(pod *corev1.Pod, selected []int) corev1.ResourceRequirements {
	most := pod.Spec.Containers[selected[0]].Resources
	for _, index := range selected[1:] {
		r := pod.Spec.Containers[index].Resources
		if more := cpu(r); more.Cmp(cpu(most)) > 0 {
			most = r
		}
	}
	wanted := corev1.ResourceRequirements{Requests: onlyBasic(most.Requests), Limits: onlyBasic(most.Limits)}
	for _, c := range pod.Spec.Containers {
		for name := range c.Resources.Limits {
			if isExtended(name) {
				// An explicit zero, because a LimitRange's default could make the
				// container ask for devices.
				setQuantity(&wanted.Requests, name, resource.Quantity{})
				setQuantity(&wanted.Limits, name, resource.Quantity{})
			}
		}
	}
	return wanted
}

// isExtended reports whether a resource is an extended resource, such as a device, whose
// name begins with the domain of its vendor.
func isExtended(name corev1.ResourceName) bool { return strings.Contains(string(name), "/") }

func cpu(r corev1.ResourceRequirements) resource.Quantity {
	if request, ok := r.Requests[corev1.ResourceCPU]; ok {
		return request
	}
	return r.Limits[corev1.ResourceCPU]
}

// onlyBasic leaves out devices and huge pages: an init container would hold a GPU, or
// wait for one.
func onlyBasic(all corev1.ResourceList) corev1.ResourceList {
	var basic corev1.ResourceList
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
		if quantity, ok := all[name]; ok {
			setQuantity(&basic, name, quantity)
		}
	}
	return basic
}

func setQuantity(list *corev1.ResourceList, name corev1.ResourceName, quantity resource.Quantity) {
	if *list == nil {
		*list = corev1.ResourceList{}
	}
	(*list)[name] = quantity
}

// initSecurityContext returns the PodSecurity "restricted" profile in full
// (https://kubernetes.io/docs/concepts/security/pod-security-standards/). runAsUser stays
// unset, so that an OpenShift SCC can choose a user, unless the pod sets 0: the kubelet
// would refuse runAsNonRoot with it.
//
// SELinux options stay unset as well. The pod's options apply anyway, and a container's
// may name a type too narrow to write a file. The container needs none: the kubelet
// relabels an emptyDir for each container that mounts it.
func initSecurityContext(pod *corev1.Pod) *corev1.SecurityContext {
	yes, no := true, false
	context := &corev1.SecurityContext{
		AllowPrivilegeEscalation: &no,
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		ReadOnlyRootFilesystem:   &yes,
		RunAsNonRoot:             &yes,
		SeccompProfile:           &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	if of := pod.Spec.SecurityContext; of != nil && of.RunAsUser != nil && *of.RunAsUser == 0 {
		user := nonRootUser
		context.RunAsUser = &user
	}
	return context
}

// insteadOfToken returns the mount that one of our init containers has in the place of a
// token, which it doesn't need: its own volume, read-only. API servers mount tokens before
// they call webhooks, and again after a webhook has added a container; then the pod has
// changed, and they would ask about it a second time. A pod that says that it gets no
// token needs no such mount.
func insteadOfToken(pod *corev1.Pod, volume string) []corev1.VolumeMount {
	if mounts := pod.Spec.AutomountServiceAccountToken; mounts != nil && !*mounts {
		return nil
	}
	return []corev1.VolumeMount{{Name: volume, MountPath: accountMountPath, ReadOnly: true}}
}
