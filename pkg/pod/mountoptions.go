// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

const (
	// mountOptionsField is a field of mounts that our vendored types don't know. It is alpha
	// in Kubernetes 1.37 (VolumeBindMountOptions in
	// https://github.com/kubernetes/kubernetes/blob/v1.37.2/pkg/features/kube_features.go).
	mountOptionsField = "bindMountOptions"
	// noExec keeps programs in a mount from being started. The other options, nosuid and
	// nodev, have no effect on the supervisor and on tools.
	noExec = "noexec"
)

// A podOfMounts is the part of a pod that has the options of its mounts.
type podOfMounts struct {
	Spec struct {
		InitContainers, Containers []struct {
			Name         string
			VolumeMounts []struct {
				corev1.VolumeMount
				BindMountOptions []string
			}
		}
	}
}

// CheckMountOptions refuses a pod if the supervisor or a tool can't be started because of
// an option of its mount: document is the pod as it was sent, in JSON, and result what
// [Injector.Inject] has decided about it. The author of a template may have set the option,
// or a policy or a webhook that has changed the pod after it was wrapped. Such an option
// isn't removed, because a cluster's policy may require it.
func CheckMountOptions(document []byte, result Result) error {
	if result.Delivery == "" || !bytes.Contains(document, []byte(mountOptionsField)) {
		return nil
	}
	var sent podOfMounts
	if err := json.Unmarshal(document, &sent); err != nil {
		return fmt.Errorf("reading %s of the pod's mounts: %w", mountOptionsField, err)
	}
	for _, c := range slices.Concat(sent.Spec.InitContainers, sent.Spec.Containers) {
		for _, m := range c.VolumeMounts {
			// Mounts that are written to, by our init containers, need no execution.
			if (isMount(m.VolumeMount) || isToolsMount(m.VolumeMount)) && slices.Contains(m.BindMountOptions, noExec) {
				return refuse(NoExec, "wrapping the pod: container %q mounts volume %q at %q with %s: [%s], so that the programs there can't be started; exclude this volume from the policy or webhook that sets the option, or remove the option from the pod's template",
					c.Name, m.Name, m.MountPath, mountOptionsField, noExec)
			}
		}
	}
	return nil
}
