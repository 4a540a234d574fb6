// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"crypto/sha256"
	"encoding/hex"
	"math"
	"path"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/entrypointer/entrypointer/pkg/pod/internal/text"
)

// Names and paths that are added to a pod whose output is sent.
const (
	// TokenVolumeName is the volume with the token by which the log service identifies
	// the pod.
	TokenVolumeName = "entrypointer-token"
	// TokenMountPath is the mount path of that volume in the containers that send.
	TokenMountPath = "/entrypointer/token"
	// secretPrefix begins the names of volumes with Secrets that a container has as its
	// environment: a pod's spec doesn't name the keys of these Secrets.
	secretPrefix = "entrypointer-secret-"
	// secretsMountPath has one directory for each such volume.
	secretsMountPath = "/entrypointer/secrets"
	// tokenFile is the name of the token's file in TokenMountPath.
	tokenFile = "token"
	// tokenSeconds is the lifetime of a token. The kubelet renews the token earlier.
	tokenSeconds int64 = 3600
)

// addLogsContext adds what the options of logs depend on, and notes why the output of a
// container can't be sent that asks for it.
func (w *wrapping) addLogsContext(c *container, to *optionContext) {
	asks := slices.ContainsFunc(c.settings, setting.asksForLogs)
	to.isServer = isServer(w.pod.Pod, c.Container)
	to.fallsBack = c.TerminationMessagePolicy == corev1.TerminationMessageFallbackToLogsOnError && !slices.ContainsFunc(c.settings, setting.leavesStatus)
	switch why := w.whyNotSent(c.Container); {
	case why == "":
		to.logs, to.sends = func() []string { return w.logs(c.Container) }, asks
	case asks:
		c.unsent = why
	}
}

// asksForLogs reports whether the output is to be sent.
func (s setting) asksForLogs() bool { return s.Name == "logs" && s.value != "off" }

// leavesStatus reports whether the status becomes the termination message.
func (s setting) leavesStatus() bool { return s.Name == "termination-message" && s.value == "true" }

// logs returns the flags of a container whose output is sent.
func (w *wrapping) logs(c *corev1.Container) []string {
	flags := []string{
		logsToFlag + text.Escape(w.Logs.Address), logsCAFlag + w.Logs.CA, logsTokenFlag + TokenMountPath + "/" + tokenFile,
		logsContainerFlag + text.Escape(c.Name), logsGraceFlag + grace(w.pod.Pod).String(),
	}
	if w.Logs.IP != "" {
		flags = append(flags, logsIPFlag+w.Logs.IP)
	}
	for _, label := range logLabels(w.pod.Pod) {
		flags = append(flags, logsLabelFlag+text.Escape(label))
	}
	for _, name := range secretVariables(c) {
		flags = append(flags, maskEnvFlag+text.Escape(name))
	}
	flags = append(flags, maskFilesFlag+TokenMountPath+"/"+tokenFile)
	for _, secret := range secretEnvironments(c) {
		flags = append(flags, maskFilesFlag+secretsMountPath+"/"+text.Escape(secret))
	}
	for _, path := range secretPaths(w.pod.Pod, c) {
		flags = append(flags, maskFilesFlag+text.Escape(path))
	}
	return flags
}

// whyNotSent returns why the output of a container can't be sent, "" if it can.
func (w *wrapping) whyNotSent(c *corev1.Container) string {
	switch {
	case w.Logs == nil:
		return "no log service is installed: the operator installs it with ko apply -f config/logs"
	case w.pod.Spec.ServiceAccountName == "":
		return "its pod has no service account, whose token identifies the pod: the API server's admission plugin ServiceAccount gives pods a service account"
	case c.TTY:
		return "it has a terminal (tty: true), which takes the command's output"
	}
	return ""
}

// isServer reports whether a container is restarted whenever it has ended.
func isServer(pod *corev1.Pod, c *corev1.Container) bool {
	policy := string(pod.Spec.RestartPolicy)
	if c.RestartPolicy != nil {
		policy = string(*c.RestartPolicy)
	}
	return policy != string(corev1.RestartPolicyNever) && policy != string(corev1.RestartPolicyOnFailure)
}

// grace returns the time from SIGTERM to SIGKILL.
func grace(pod *corev1.Pod) time.Duration {
	seconds := int64(corev1.DefaultTerminationGracePeriodSeconds)
	if said := pod.Spec.TerminationGracePeriodSeconds; said != nil {
		seconds = min(max(*said, 0), math.MaxInt32)
	}
	return time.Duration(seconds) * time.Second
}

// sends reports whether a wrapped container sends its output.
func sends(c corev1.Container) bool {
	for _, arg := range c.Args {
		if arg == "--" {
			return false
		}
		if strings.HasPrefix(arg, logsFlag) {
			return true
		}
	}
	return false
}

// anySends reports whether a container of a pod sends its output.
func anySends(pod *corev1.Pod) bool { return slices.ContainsFunc(pod.Spec.Containers, sends) }

// installLogs gives each container that sends a token, and the Secrets to be masked.
func (i *Injector) installLogs(pod *corev1.Pod) error {
	if i.Logs == nil {
		return nil
	}
	for index := range pod.Spec.Containers {
		c := &pod.Spec.Containers[index]
		if !sends(*c) {
			continue
		}
		volumes := []corev1.Volume{i.tokenVolume()}
		mounts := []corev1.VolumeMount{{Name: TokenVolumeName, MountPath: TokenMountPath, ReadOnly: true}}
		for _, secret := range secretEnvironments(c) {
			v := secretVolume(secret)
			volumes = append(volumes, v)
			mounts = append(mounts, corev1.VolumeMount{Name: v.Name, MountPath: secretsMountPath + "/" + secret, ReadOnly: true})
		}
		for at, v := range volumes {
			isOurs := func(found corev1.VolumeSource) bool {
				return (found.Projected != nil) == (v.Projected != nil) && (found.Secret != nil) == (v.Secret != nil)
			}
			if err := putVolume(pod, indexOfVolume(pod, v.Name), v, isOurs); err != nil {
				return err
			}
			ours := mounts[at]
			isMount := func(m corev1.VolumeMount) bool { return m.Name == ours.Name && m.MountPath == ours.MountPath }
			if err := addMounts(c, ours.MountPath, isMount, ours); err != nil {
				return err
			}
		}
	}
	return nil
}

func (i *Injector) tokenVolume() corev1.Volume {
	seconds, mode := tokenSeconds, corev1.ProjectedVolumeSourceDefaultMode
	return corev1.Volume{Name: TokenVolumeName, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		DefaultMode: &mode,
		Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{
			Audience: i.Logs.Audience, ExpirationSeconds: &seconds, Path: tokenFile,
		}}},
	}}}
}

// secretVolume returns the volume of a Secret that a container has in its environment.
// The volume is optional: the environment reports a missing Secret.
func secretVolume(secret string) corev1.Volume {
	mode, optional := corev1.SecretVolumeSourceDefaultMode, true
	sum := sha256.Sum256([]byte(secret))
	return corev1.Volume{Name: secretPrefix + hex.EncodeToString(sum[:5]), VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
		SecretName: secret, DefaultMode: &mode, Optional: &optional,
	}}}
}

// secretEnvironments returns the names of the Secrets that a container has as its
// environment. It leaves out invalid names, which the API server refuses.
func secretEnvironments(c *corev1.Container) (names []string) {
	for _, source := range c.EnvFrom {
		if source.SecretRef != nil && isObjectName(source.SecretRef.Name) && !slices.Contains(names, source.SecretRef.Name) {
			names = append(names, source.SecretRef.Name)
		}
	}
	return names
}

// isObjectName reports whether a Secret can have this name. The name becomes a part of a
// path.
func isObjectName(name string) bool { return len(validation.IsDNS1123Subdomain(name)) == 0 }

// secretVariables returns the variables of a container whose values come from Secrets, or
// from a file that an init container has written, which is there to fetch secrets. Such a
// file isn't mounted in the container, unless its volume is.
func secretVariables(c *corev1.Container) (names []string) {
	for _, variable := range c.Env {
		if from := variable.ValueFrom; from != nil && (from.SecretKeyRef != nil || from.FileKeyRef != nil) {
			names = append(names, variable.Name)
		}
	}
	return names
}

// secretPaths returns the paths at which a container has the content of Secrets, and
// tokens.
func secretPaths(pod *corev1.Pod, c *corev1.Container) (paths []string) {
	for _, mount := range c.VolumeMounts {
		at := indexOfVolume(pod, mount.Name)
		if at < 0 || mount.Name == TokenVolumeName || strings.HasPrefix(mount.Name, secretPrefix) {
			continue // our mounts are masked already
		}
		for _, p := range secretsOf(pod.Spec.Volumes[at]) {
			if mount.SubPath == "" && mount.SubPathExpr == "" {
				p = path.Join(mount.MountPath, p)
			} else {
				p = mount.MountPath // a file, or a directory of them
			}
			if !slices.Contains(paths, p) {
				paths = append(paths, p)
			}
		}
	}
	return paths
}

// secretsDriver is the driver of the Secrets Store,
// https://secrets-store-csi-driver.sigs.k8s.io.
const secretsDriver = "secrets-store.csi.k8s.io"

// secretsOf returns the paths of secrets in a volume, "" for the whole volume.
func secretsOf(v corev1.Volume) (paths []string) {
	switch {
	case v.Secret != nil, v.CSI != nil && v.CSI.Driver == secretsDriver:
		return []string{""}
	case v.Projected == nil:
		return nil
	}
	for _, source := range v.Projected.Sources {
		switch {
		case source.ServiceAccountToken != nil:
			paths = append(paths, source.ServiceAccountToken.Path)
		case source.Secret != nil && source.Secret.Items == nil && onlySecrets(v.Projected.Sources):
			return []string{""}
		case source.Secret != nil:
			for _, item := range source.Secret.Items {
				paths = append(paths, item.Path)
			}
		}
	}
	return paths
}

// onlySecrets reports whether all of these sources are Secrets or tokens: the spec
// doesn't name the keys of a Secret, so that files of other sources can't be told from a
// Secret's.
func onlySecrets(sources []corev1.VolumeProjection) bool {
	return !slices.ContainsFunc(sources, func(s corev1.VolumeProjection) bool { return s.Secret == nil && s.ServiceAccountToken == nil })
}
