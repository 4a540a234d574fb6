// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// repaired returns an init container that was found under our name, with all fields as
// wanted that decide which program ends up in the volume, when, and with which rights.
// Another release may have left the container, another webhook may have changed it, or
// the pod's author may have forged it.
//
// Nothing may be mounted at, above or below the protected paths.
//
// Other fields stay, because undoing the additions that other webhooks make to every
// container would start a fight: a name of the same image at another registry, variables
// (the program is static, so they affect no loader), resources, a user, and mounts
// elsewhere, such as those of tokens and certificates.
func repaired(found, wanted corev1.Container, protected ...string) corev1.Container {
	c := *found.DeepCopy()
	if !sameImage(c.Image, wanted.Image) {
		c.Image = wanted.Image
	}
	c.Command, c.Args, c.WorkingDir = wanted.Command, wanted.Args, wanted.WorkingDir
	c.VolumeMounts = repairedMounts(c.VolumeMounts, withoutTaken(wanted.VolumeMounts, c.VolumeMounts), protected)
	c.VolumeDevices = slices.DeleteFunc(c.VolumeDevices, func(d corev1.VolumeDevice) bool { return endangers(protected, d.DevicePath) })
	c.TerminationMessagePath = wanted.TerminationMessagePath // a mount, too
	c.SecurityContext = confined(c.SecurityContext, wanted.SecurityContext)
	// As a native sidecar, the container would run beside the containers that need its
	// copy, and could run programs of its author's.
	if c.RestartPolicy != nil {
		c.RestartPolicy, c.ResizePolicy = nil, nil
	}
	c.RestartPolicyRules = nil
	c.Lifecycle, c.StartupProbe, c.ReadinessProbe, c.LivenessProbe = nil, nil, nil, nil
	return c
}

// differentFields returns the names of the fields in which two containers differ.
func differentFields(a, b corev1.Container) (names []string) {
	ofA, ofB, fields := reflect.ValueOf(a), reflect.ValueOf(b), reflect.TypeFor[corev1.Container]()
	for i := range fields.NumField() {
		if !equality.Semantic.DeepEqual(ofA.Field(i).Interface(), ofB.Field(i).Interface()) {
			name, _, _ := strings.Cut(fields.Field(i).Tag.Get("json"), ",")
			names = append(names, name)
		}
	}
	return names
}

// repairedMounts keeps the mounts that don't concern protected paths, and each of our
// mounts once, in its place.
func repairedMounts(found, ours []corev1.VolumeMount, protected []string) []corev1.VolumeMount {
	return withMounts(found, ours, func(m corev1.VolumeMount) bool {
		named := slices.ContainsFunc(ours, func(wanted corev1.VolumeMount) bool { return m.Name == wanted.Name })
		return !named && !endangers(protected, m.MountPath)
	})
}

// confined returns the found security context, without settings that would give the
// container more rights than wanted.
func confined(found, wanted *corev1.SecurityContext) *corev1.SecurityContext {
	if found == nil {
		return wanted
	}
	c := found.DeepCopy()
	c.AllowPrivilegeEscalation, c.ReadOnlyRootFilesystem, c.RunAsNonRoot = wanted.AllowPrivilegeEscalation, wanted.ReadOnlyRootFilesystem, wanted.RunAsNonRoot
	if c.Privileged != nil && *c.Privileged {
		c.Privileged = nil
	}
	if c.ProcMount != nil && *c.ProcMount != corev1.DefaultProcMount {
		c.ProcMount = nil
	}
	if c.Capabilities == nil || len(c.Capabilities.Add) > 0 || !slices.Contains(c.Capabilities.Drop, "ALL") {
		c.Capabilities = wanted.Capabilities
	}
	if c.SeccompProfile == nil || c.SeccompProfile.Type == corev1.SeccompProfileTypeUnconfined {
		c.SeccompProfile = wanted.SeccompProfile
	}
	if c.AppArmorProfile != nil && c.AppArmorProfile.Type == corev1.AppArmorProfileTypeUnconfined {
		c.AppArmorProfile = nil
	}
	if c.RunAsUser == nil || *c.RunAsUser == 0 {
		c.RunAsUser = wanted.RunAsUser
	}
	return c
}

// withoutTaken leaves out the mount that stands in the place of a token if another volume
// is mounted there: API servers refuse two mounts at one path, and with another mount they
// add no token either. An API server may have mounted a token because a release without
// such a mount has answered before.
func withoutTaken(wanted, found []corev1.VolumeMount) []corev1.VolumeMount {
	ours := func(name string) bool {
		return slices.ContainsFunc(wanted, func(m corev1.VolumeMount) bool { return m.Name == name })
	}
	if !slices.ContainsFunc(found, func(m corev1.VolumeMount) bool { return m.MountPath == accountMountPath && !ours(m.Name) }) {
		return wanted
	}
	return slices.DeleteFunc(slices.Clone(wanted), func(m corev1.VolumeMount) bool { return m.MountPath == accountMountPath })
}
