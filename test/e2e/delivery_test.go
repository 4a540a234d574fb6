// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/pkg/pod"
	"github.com/entrypointer/entrypointer/test/framework"
)

// With an init container, this result would be cut: Kubernetes shares 12 KiB of
// termination messages among a pod's containers, and Tekton's results travel in them.
func TestAnImageVolumeLeavesResultsTheirFullLength(t *testing.T) {
	needsImageVolumes(t)
	configureForNow(t, framework.DeliveryKey, framework.ImageVolume)
	namespace := optedInNamespace(t, "pod-security.kubernetes.io/enforce", "baseline")
	p := askingPod("mounted", busybox(t, "main", "readlink", "/proc/1/exe"))
	eventually(t, time.Minute, "the injector to mount its image", func() error {
		seen, err := wouldBecome(t, namespace, p)
		if err != nil {
			return err
		}
		if framework.Delivery(seen) != framework.ImageVolume {
			return errors.New("it would add an init container")
		}
		return nil
	})
	createPod(t, namespace, p)
	done := waitUntilDone(t, namespace, "mounted")
	require.Equal(t, corev1.PodSucceeded, done.Status.Phase)
	require.Equal(t, "/entrypointer/bin/entrypoint\n", logs(t, namespace, "mounted", "main"))

	run := taskRun("long-result", pipelinev1.TaskSpec{
		Results: []pipelinev1.TaskResult{{Name: "long"}},
		Steps: []pipelinev1.Step{{
			Name: "write", Image: image(t, "busybox:1.37"), Script: "head -c 3000 /dev/zero | tr '\\0' . > $(results.long.path)",
		}},
	})
	plain, _ := runTask(t, plainNamespace(t), run)
	wrapped, its := runTask(t, optedInNamespace(t), run)
	require.Equal(t, []string{pod.EntrypointPath}, its.Spec.Containers[0].Command)
	require.Equal(t, strings.Repeat(".", 3000), plain.Results[0].Value.StringVal)
	require.Equal(t, plain, wrapped)
}
