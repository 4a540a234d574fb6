// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"path"
	"testing"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/test/neighbours"
)

// The proxies and agents are those of other projects, which take minutes to compile the first
// time: hack/e2e-part.sh leaves this test out.
func TestAJobCompletesBesideNeighboursOfOtherProjects(t *testing.T) {
	t.Parallel()
	for _, n := range neighbours.All() {
		t.Run(n.Name, func(t *testing.T) {
			t.Parallel()
			image, helper := moduleImage(t, path.Join("test/neighbours", n.Module), n.Program), ""
			if n.Helper != "" {
				helper = moduleImage(t, ".", "./"+path.Join("test/neighbours", n.Helper))
			}
			namespace := optedInNamespace(t)
			_, err := cluster.Kube.CoreV1().ConfigMaps(namespace).Create(t.Context(), n.ConfigMap(), metav1.CreateOptions{})
			require.NoError(t, err)
			p := n.Pod(busybox(t, "main", "wget", "-q", "-O", "/dev/null", n.Ready), image, helper)
			ended := completes(t, namespace, &batchv1.Job{
				ObjectMeta: metav1.ObjectMeta{Name: n.Name}, Spec: batchv1.JobSpec{BackoffLimit: new(int32(0)), Template: template(p)},
			})
			requireWrapped(t, &ended, "main")
			for _, s := range ended.Status.ContainerStatuses {
				require.NotNil(t, s.State.Terminated, s.Name)
				require.Zero(t, s.State.Terminated.ExitCode, s.Name)
				require.Zero(t, s.RestartCount, s.Name)
			}
			require.NotContains(t, logs(t, namespace, ended.Name, "main"), "shutting down a sidecar")
		})
	}
}
