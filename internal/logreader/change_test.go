// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package logreader

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/entrypointer/entrypointer/internal/logs/api"
)

// MayChange implements api.Permissions.
func (fakeAuthenticator) MayChange(_ context.Context, _ api.User, _, _, namespace, _ string) error {
	if namespace != "tenant" {
		return api.ErrMayNotChange
	}
	return nil
}

// deleted deletes the logs of an object, and returns what was done by pod.
func (c *cluster) deleted(object, container string, dryRun bool) (did map[string]string, err error) {
	c.t.Helper()
	did = map[string]string{}
	err = c.client.Delete(c.t.Context(), named(c.t, object), container, dryRun, func(d Deletion) { did[d.Pod] = d.Message })
	return did, err
}

func TestTheLogsOfARunAreDeletedPodByPod(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.gone = true
	c.labelled("build-pod", 0, labels.Set{"tekton.dev/taskRun": "build"})
	c.labelled("build-pod-retry1", 1, labels.Set{"tekton.dev/taskRun": "build"})
	c.labelled("other-pod", 2, labels.Set{"tekton.dev/taskRun": "other"})

	did, err := c.deleted("taskrun/build", "", true)
	require.NoError(t, err)
	require.Len(t, did, 2)
	_, names := c.listed(PodsOptions{})
	require.Equal(t, "other-pod build-pod-retry1 build-pod", names, "that was a dry run")
	_, err = c.deleted("taskrun/build", "none", false)
	require.ErrorContains(t, err, "none")

	require.NoError(t, c.client.Hold(t.Context(), named(t, "taskrun/build")))
	pods, _ := c.listed(PodsOptions{})
	require.Equal(t, []bool{false, true, true}, []bool{pods.Pods[0].Held, pods.Pods[1].Held, pods.Pods[2].Held})
	_, err = c.deleted("taskrun/build", "main", false)
	require.ErrorContains(t, err, "release them first")
	require.NoError(t, c.client.Release(t.Context(), named(t, "taskrun/build")))
	require.ErrorContains(t, c.client.Release(t.Context(), named(t, "taskrun/build")), "aren't held")

	did, err = c.deleted("taskrun/build", "main", false)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"build-pod": "deleted 1 streams with 13 bytes", "build-pod-retry1": "deleted 1 streams with 20 bytes"}, did)
	_, names = c.listed(PodsOptions{})
	require.Equal(t, "other-pod", names)
	_, err = c.deleted("taskrun/build", "", false)
	require.ErrorContains(t, err, "the log service has no logs")
	did, err = c.deleted("pod/other-pod", "", false)
	require.NoError(t, err)
	require.Len(t, did, 1)
	_, err = c.deleted("pod/other-pod", "", false)
	require.ErrorContains(t, err, "there are no logs")
}

func TestWhoMayNotDeleteIsToldTheRole(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.client.Namespace = "elsewhere"
	_, err := c.deleted("pod/a", "", false)
	require.ErrorContains(t, err, "you need the ClusterRole entrypointer-log-deletion")
	require.ErrorContains(t, c.client.Hold(t.Context(), named(t, "pod/a")), "you need the ClusterRole entrypointer-log-deletion")
}
