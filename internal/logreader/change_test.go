// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package logreader

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/entrypointer/entrypointer/internal/logs/api"
	"github.com/entrypointer/entrypointer/internal/logs/streams"
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

// deletedLines deletes the lines of an object that match, and returns how many by stream, and
// what was printed.
func (c *cluster) deletedLines(object, container, expression string, dryRun bool) (did map[string]int, text string, err error) {
	c.t.Helper()
	did = map[string]int{}
	var out bytes.Buffer
	o := Options{Target: named(c.t, object), Container: container, Printer: NewPrinter(&out), Warnings: io.Discard}
	err = c.client.DeleteLines(c.t.Context(), o, Search{Expression: expression, IgnoreCase: true}, dryRun, func(d LinesDeletion) {
		if d.Err == nil {
			did[d.Of.Pod+"/"+d.Of.Container+"/"+d.Of.Name] = d.Lines
		}
	})
	return did, out.String(), err
}

func TestLinesOfARunAreDeletedThatMatch(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.gone = true
	build := labels.Set{"tekton.dev/taskRun": "build"}
	text := "first\npassword=hunter2\nPASSWORD=hunter3\nlast\npassword: none"
	for _, pod := range []string{"build-pod", "build-pod-retry1"} {
		id, err := c.store.Create(t.Context(), streams.Source{Namespace: "tenant", Pod: pod, PodUID: "uid-" + pod, Container: "main", Start: start(0), Name: "stdout", Labels: build})
		require.NoError(t, err)
		require.NoError(t, c.store.Write(t.Context(), id, 0, []byte(text)))
		c.end(id, int64(len(text)))
	}
	read := func() string {
		text, err := c.printed("taskrun/build", func(o *Options) { o.Printer.Prefix = new(false) })
		require.NoError(t, err)
		return text
	}
	before := read()
	did, shown, err := c.deletedLines("taskrun/build", "", "password=", true)
	require.NoError(t, err)
	require.Equal(t, map[string]int{"build-pod/main/stdout": 2, "build-pod-retry1/main/stdout": 2}, did)
	require.Contains(t, shown, "[pod/build-pod/main] password=hunter2\n[pod/build-pod/main] PASSWORD=hunter3\n")
	require.Equal(t, before, read(), "that was a dry run")

	did, shown, err = c.deletedLines("taskrun/build", "main", "password=", false)
	require.NoError(t, err)
	require.Len(t, did, 2)
	require.Empty(t, shown)
	want := strings.NewReplacer("password=hunter2", "****************", "PASSWORD=hunter3", "****************").Replace(before)
	require.Equal(t, want, read())
	_, _, err = c.deletedLines("taskrun/build", "", "password=", false)
	require.ErrorIs(t, err, ErrNothingFound)
	_, _, err = c.deletedLines("taskrun/other", "", "password=", false)
	require.ErrorContains(t, err, "has no logs")
	did, _, err = c.deletedLines("pod/build-pod", "", "none$", false)
	require.NoError(t, err)
	require.Len(t, did, 1)
	require.Contains(t, read(), "last\n**************")

	require.NoError(t, c.client.Hold(t.Context(), named(t, "taskrun/build")))
	did, _, err = c.deletedLines("taskrun/build", "", "none$", false)
	require.ErrorContains(t, err, "release them first")
	require.Empty(t, did)
}

// A search returns only the beginning of it.
func TestALongLineIsDeletedAsAWhole(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	long := strings.Repeat("x", 200<<10)
	c.stream("p", "main", "1", "stdout", "first\n", long, long+" password=hunter2 ", long, long+"\nlast\n")
	did, _, err := c.deletedLines("pod/p", "main", "^x+ password", false)
	require.NoError(t, err)
	require.Equal(t, map[string]int{"p/main/stdout": 1}, did)
	text, err := c.printed("pod/p", nil)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(text, "first\n***") && strings.HasSuffix(text, "***\nlast\n"))
	require.Zero(t, strings.Count(text, "x")+strings.Count(text, "hunter2"))
	require.Equal(t, 4*200<<10+len(" password=hunter2 "), strings.Count(text, "*"))
}

func TestMoreLinesThanAStreamCanLoseAreAnError(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	var text strings.Builder
	for i := range 1200 {
		_, _ = fmt.Fprintf(&text, "secret\nline %d\n", i)
	}
	c.stream("p", "main", "1", "stdout", text.String())
	_, _, err := c.deletedLines("pod/p", "", "secret", false)
	require.ErrorContains(t, err, "delete all logs of its container instead")
	did, _, err := c.deletedLines("pod/p", "", "secret|line", false)
	require.ErrorContains(t, err, "delete all logs of its container instead", "what touches is one part, and the first thousand are there")
	require.Empty(t, did)
}
