// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/entrypointer/entrypointer/pkg/pod/internal/text"
)

// toolSize is the size of the largest tool in bytes, which the supervisor enforces as it
// copies (installer.MaxTool).
const toolSize = 256 << 20

// commonDirectories are the usual directories of images for programs. A mount of such a
// directory would bring more than tools.
var commonDirectories = []string{"/", "/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin"}

// installTools brings the tools that containers ask for into the pod: as an image volume
// of their image, or as a volume that one init container for each tool fills. It removes
// or converts the leftovers of an earlier call.
func (w *wrapping) installTools(pod *corev1.Pod, wrapped []container, selected []int) error {
	tools := toolsOf(wrapped)
	if len(tools) == 0 && (!hasToolsVolume(pod) || strangeMounter(pod) != "") {
		return nil // a volume of this name is the author's
	}
	directory := w.toolsDirectory(tools)
	var copiers []corev1.Container
	if directory == "" {
		for _, tool := range tools {
			copiers = append(copiers, w.toolContainer(pod, selected, tool))
		}
	}
	repair := func(found, wanted corev1.Container) corev1.Container {
		at := slices.IndexFunc(tools, func(tool Tool) bool { return toolContainerPrefix+tool.Name == wanted.Name })
		return repairedToolContainer(found, wanted, tools[at])
	}
	if err := w.putInitContainers(pod, copiesTool, repair, copiers...); err != nil {
		return err
	}
	if len(tools) == 0 {
		removeTools(pod)
		return nil
	}
	volume := toolsVolume(pod, tools, directory)
	if err := volume.putInto(pod, selected, func(at int) bool { return len(wrapped[at].toolbox.tools) > 0 }); err != nil {
		return err
	}
	if mounter := strangeMounter(pod); mounter != "" {
		return refuse(NameCollision, "adding volume %q: container %q mounts it as well, and only the init containers that copy tools may write to it; use another volume",
			ToolsVolumeName, mounter)
	}
	if volume.EmptyDir != nil && !markSafeToEvict(pod, ToolsVolumeName) {
		w.warn(tooManyAnnotations(safeToEvictAnnotation))
	}
	return nil
}

// toolsOf returns the tools that these containers ask for, each once, sorted by name.
func toolsOf(containers []container) (all []Tool) {
	for _, c := range containers {
		all = append(all, c.toolbox.tools...)
	}
	slices.SortFunc(all, func(a, b Tool) int { return strings.Compare(a.Name, b.Name) })
	return slices.Compact(all)
}

// hasToolsVolume reports whether the pod has a volume that may be ours.
func hasToolsVolume(pod *corev1.Pod) bool {
	at := indexOfVolume(pod, ToolsVolumeName)
	return at >= 0 && mayBeToolsVolume(pod.Spec.Volumes[at].VolumeSource)
}

func mayBeToolsVolume(v corev1.VolumeSource) bool { return v.EmptyDir != nil || v.Image != nil }

// toolsDirectory returns the directory of an image that can be mounted instead of copies,
// "" if there is none. Container runtimes mount only directories, and one at a path. So
// the directory has to contain all of the tools, under their names, and little else.
func (w *wrapping) toolsDirectory(tools []Tool) string {
	if !w.supply.mounts || len(tools) == 0 {
		return ""
	}
	directory := path.Dir(tools[0].Path)
	for _, tool := range tools {
		if tool.Image != tools[0].Image || tool.Path != path.Join(directory, tool.Name) {
			return ""
		}
	}
	if slices.Contains(commonDirectories, directory) {
		return ""
	}
	return directory
}

// copiesTool reports whether an init container copies a tool, or imitates one that does.
func copiesTool(c corev1.Container) bool {
	return strings.HasPrefix(c.Name, toolContainerPrefix) && slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool {
		return m.Name == ToolsVolumeName && m.MountPath == ToolsMountPath
	})
}

// toolContainer returns the init container that runs the supervisor in the tool's image,
// which needs to contain only the tool. Like the init container that copies the
// supervisor, it asks for nothing that the pod lacks without it.
func (w *wrapping) toolContainer(pod *corev1.Pod, selected []int, tool Tool) corev1.Container {
	return corev1.Container{
		Name:            toolContainerPrefix + tool.Name,
		Image:           tool.Image,
		ImagePullPolicy: corev1.PullIfNotPresent,
		Command:         []string{EntrypointPath},
		WorkingDir:      "/", // the image's user may not be allowed to enter the image's directory
		Args:            []string{"copy", text.Escape(tool.Path), ToolsMountPath + "/" + tool.Name, tool.Image},
		Resources:       initResources(pod, selected),
		VolumeMounts:    append([]corev1.VolumeMount{w.supply.mount, {Name: ToolsVolumeName, MountPath: ToolsMountPath}}, insteadOfToken(pod, ToolsVolumeName)...),
		SecurityContext: toolSecurityContext(pod, selected),
		// The API server's defaults, so that a second call finds nothing to change.
		TerminationMessagePath:   corev1.TerminationMessagePathDefault,
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
	}
}

// repairedToolContainer is [repaired] for an init container that copies a tool.
func repairedToolContainer(found, wanted corev1.Container, tool Tool) corev1.Container {
	c := repaired(found, wanted, path.Dir(ToolsMountPath), tool.Path)
	if user := c.SecurityContext.RunAsUser; user != nil && *user == nonRootUser {
		c.SecurityContext.RunAsUser = wanted.SecurityContext.RunAsUser // the injector chose the user
	}
	return c
}

// toolSecurityContext sets the user for the tool's image: the image may set root or no
// user, both of which the kubelet would refuse. The user is the pod's, or that of a
// container, which an OpenShift SCC has chosen or accepted.
func toolSecurityContext(pod *corev1.Pod, selected []int) *corev1.SecurityContext {
	context := initSecurityContext(pod)
	if of := pod.Spec.SecurityContext; of != nil && of.RunAsUser != nil {
		return context
	}
	user := nonRootUser
	for _, index := range selected {
		of := pod.Spec.Containers[index].SecurityContext
		if of != nil && of.RunAsUser != nil && *of.RunAsUser != 0 {
			user = *of.RunAsUser
			break
		}
	}
	context.RunAsUser = &user
	return context
}

// isToolsMount reports whether a mount makes the tools executable in a container, and not
// writable.
func isToolsMount(m corev1.VolumeMount) bool {
	return m.Name == ToolsVolumeName && m.MountPath == ToolsMountPath && m.ReadOnly
}

// removeTools removes the volume, and its mounts from all containers.
func removeTools(pod *corev1.Pod) {
	for _, c := range allContainers(pod) {
		c.VolumeMounts = slices.DeleteFunc(c.VolumeMounts, isToolsMount)
	}
	pod.Spec.Volumes = slices.DeleteFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == ToolsVolumeName && mayBeToolsVolume(v.VolumeSource) })
}

// strangeMounter returns the name of a container that mounts the volume in a way that
// isn't ours.
func strangeMounter(pod *corev1.Pod) string {
	for _, c := range allContainers(pod) {
		for _, m := range c.VolumeMounts {
			if m.Name == ToolsVolumeName && !isToolsMount(m) && !copiesTool(*c) {
				return c.Name
			}
		}
	}
	return ""
}

// toolsVolume returns the volume of the tools: an image, of which a directory is mounted, or
// an emptyDir.
func toolsVolume(pod *corev1.Pod, tools []Tool, directory string) programVolume {
	v := programVolume{
		Volume:  corev1.Volume{Name: ToolsVolumeName},
		mount:   corev1.VolumeMount{Name: ToolsVolumeName, MountPath: ToolsMountPath, SubPath: strings.TrimPrefix(directory, "/"), ReadOnly: true},
		isOurs:  mayBeToolsVolume,
		isMount: isToolsMount,
	}
	if directory != "" {
		v.Image = &corev1.ImageVolumeSource{Reference: tools[0].Image, PullPolicy: corev1.PullIfNotPresent}
		return v
	}
	// One additional tool, while a copy replaces the copy of an earlier try.
	size := resource.NewQuantity(int64(len(tools)+1)*toolSize, resource.BinarySI)
	v.EmptyDir = &corev1.EmptyDirVolumeSource{SizeLimit: size, Medium: toolsMedium(pod)}
	return v
}
