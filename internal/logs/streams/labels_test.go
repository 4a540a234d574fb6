// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/pkg/loglabels"
)

// labeled returns a source with labels, which are KEY=VALUE.
func labeled(pod string, labels ...string) Source {
	source := Source{Namespace: "tenant", Pod: pod, PodUID: "uid-" + pod, Name: "stdout", Labels: map[string]string{}}
	for _, label := range labels {
		key, value, _ := strings.Cut(label, "=")
		source.Labels[key] = value
	}
	return source
}

func TestStreamsAreListedByTheLabelsOfTheirPods(t *testing.T) {
	directory := t.TempDir()
	one, another := replica(t, directory), replica(t, directory)
	ids := map[string]string{}
	for _, source := range []Source{
		labeled("a", "tekton.dev/taskRun=build", "tekton.dev/pipelineRun=release"),
		labeled("b", "tekton.dev/taskRun=test", "tekton.dev/pipelineRun=release"),
		labeled("c", "tekton.dev/taskRun=build.2"),
		labeled("d"),
	} {
		for range 2 {
			id, err := one.Create(t.Context(), source)
			require.NoError(t, err)
			ids[source.Pod] = id
		}
	}
	for label, want := range map[string]string{
		"tekton.dev/taskRun=build": "a", "tekton.dev/pipelineRun=release": "a b", "tekton.dev/taskRun=build.2": "c",
		"tekton.dev/taskRun=release": "", "serving.knative.dev/service=build": "",
	} {
		key, value, _ := strings.Cut(label, "=")
		list, more, err := another.ListLabel(t.Context(), "tenant", key, value)
		require.NoError(t, err)
		require.False(t, more)
		require.Len(t, list, len(strings.Fields(want)), label)
		for _, l := range list {
			require.Contains(t, want, l.Pod, label)
			require.Equal(t, ids[l.Pod], l.ID)
			require.Equal(t, value, l.Labels[key])
		}
		list, _, err = another.ListLabel(t.Context(), "tenant-2", key, value)
		require.NoError(t, err)
		require.Empty(t, list)
	}
}

func TestLabelsDoNotIdentifyAStream(t *testing.T) {
	s := replica(t, t.TempDir())
	plain, err := s.Create(t.Context(), labeled("a", "tekton.dev/taskRun=build"))
	require.NoError(t, err)
	later, err := s.Create(t.Context(), labeled("a", "tekton.dev/taskRun=test"))
	require.NoError(t, err)
	require.Equal(t, plain, later)
	list, _, err := s.ListLabel(t.Context(), "tenant", "tekton.dev/taskRun", "test")
	require.NoError(t, err)
	require.Empty(t, list, "the labels of the first request are stored")
	list, _, err = s.ListLabel(t.Context(), "tenant", "tekton.dev/taskRun", "build")
	require.NoError(t, err)
	require.Len(t, list, 1)
}

func TestInvalidLabelsAreRefused(t *testing.T) {
	s := replica(t, t.TempDir())
	for _, label := range []string{
		"tekton.dev/taskRun=", "tekton.dev/taskRun=..", "tekton.dev/taskRun=a/b", "tekton.dev/taskRun=-a", "tekton.dev/taskRun=a\n",
		"tekton.dev/taskRun=" + strings.Repeat("x", 64), "app=web", "=x", "../key=x", "tekton.dev/taskrun=x",
	} {
		_, err := s.Create(t.Context(), labeled("a", label))
		require.ErrorIs(t, err, ErrNoLabel, "%q", label)
		key, value, _ := strings.Cut(label, "=")
		_, _, err = s.ListLabel(t.Context(), "tenant", key, value)
		require.ErrorIs(t, err, ErrNoLabel, "%q", label)
	}
	_, _, err := s.ListLabel(t.Context(), "../other", "tekton.dev/taskRun", "a")
	require.ErrorIs(t, err, ErrNoPod)
	many := labeled("a")
	for i := range MaxLabels + 1 {
		many.Labels[strings.Repeat("x", i+1)] = "x"
	}
	_, err = s.Create(t.Context(), many)
	require.ErrorContains(t, err, "9 labels, more than 8")
}

func TestAFailureToIndexALabelIsReported(t *testing.T) {
	good := replica(t, t.TempDir())
	source := labeled("a", "tekton.dev/taskRun=build")
	_, err := newStore(failing{Bucket: good.bucket, create: "labels/"}, good.key).Create(t.Context(), source)
	require.ErrorIs(t, err, errBroken)
	require.ErrorContains(t, err, "labels/tenant/tekton.dev~taskRun/build")
	_, _, err = newStore(failing{Bucket: good.bucket, list: "labels/"}, good.key).ListLabel(t.Context(), "tenant", "tekton.dev/taskRun", "build")
	require.ErrorIs(t, err, errBroken)
	require.ErrorContains(t, err, `listing the streams of label tekton.dev/taskRun=build in namespace "tenant"`)
	_, err = good.Create(t.Context(), source) // the client comes again
	require.NoError(t, err)
	list, _, err := good.ListLabel(t.Context(), "tenant", "tekton.dev/taskRun", "build")
	require.NoError(t, err)
	require.Len(t, list, 1)
}

func TestAPodCanTakeOnlyAShareOfTheInodesOfAVolume(t *testing.T) {
	directory := t.TempDir()
	s := replica(t, directory)
	const most = 40
	s.podStreams = newPodStreams(most)
	all := func(i, j int) Source {
		source := labeled("a")
		source.Start = fmt.Sprint(i)
		for _, key := range loglabels.All()[:MaxLabels] {
			source.Labels[key] = fmt.Sprintf("v%d-%d", i, j)
		}
		return source
	}
	for i := range most {
		id, err := s.Create(t.Context(), all(i, 0))
		require.NoError(t, err)
		require.NoError(t, s.Write(t.Context(), id, 0, []byte("x")))
		require.NoError(t, s.End(t.Context(), id, 1))
	}
	inodes := func() (n int) {
		require.NoError(t, filepath.WalkDir(directory, func(string, os.DirEntry, error) error { n++; return nil }))
		return n
	}
	before := inodes()
	_, err := s.Create(t.Context(), all(most, 0))
	require.ErrorIs(t, err, ErrPodStreams)
	for j := range 10 {
		_, err := s.Create(t.Context(), all(0, 1+j))
		require.NoError(t, err, "it exists")
	}
	require.Equal(t, before, inodes(), "other labels for the same stream cost nothing")
	const inodesOfVolume = 10 << 30 / 16384 // ext4, 10Gi
	perStream := (before + most - 1) / most
	require.Less(t, perStream*MaxPodStreams, inodesOfVolume*3/10, "%d for each stream", perStream)
}
