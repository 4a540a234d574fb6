// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// TestUsersThatDifferTalkThroughASharedDirectory has two users, neither of which is
// root, write to a directory, read what the other one has written, and talk by a FIFO
// that one of them has made there.
func TestUsersThatDifferTalkThroughASharedDirectory(t *testing.T) {
	t.Parallel()
	namespace := optedInNamespace(t)
	asUser := func(c corev1.Container, user int64) corev1.Container {
		c.SecurityContext = &corev1.SecurityContext{
			RunAsUser: &user, RunAsGroup: &user, RunAsNonRoot: new(true), ReadOnlyRootFilesystem: new(true), AllowPrivilegeEscalation: new(false),
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		}
		return c
	}
	p := orderedPod("shares", map[string]string{
		"shared-directory/writer": "talk", "shared-directory/reader": "talk", "depends-on/reader": "writer:started",
	},
		asUser(busybox(t, "writer", "sh", "-ec", `cd /entrypointer/shared/talk; mkfifo -m 666 pipe; id -u >mine
			echo hello >pipe; until [ -s theirs ]; do sleep 0.1; done; cat theirs`), 1234),
		asUser(busybox(t, "reader", "sh", "-ec", `cd /entrypointer/shared/talk; until [ -s mine ]; do sleep 0.1; done
			stat -c %a .; cat pipe mine; id -u >partial; mv partial theirs`), 5678),
	)
	p.Spec.RestartPolicy = corev1.RestartPolicyNever
	created := createPod(t, namespace, p)
	done := waitUntilDone(t, namespace, created.Name)
	require.Equal(t, corev1.PodSucceeded, done.Status.Phase, containerStates(done))
	require.Equal(t, []string{"777", "hello", "1234"}, strings.Fields(printed(t, namespace, p.Name, "reader")))
	require.Equal(t, "5678\n", printed(t, namespace, p.Name, "writer"))
}

// TestAGroupOfThePodOwnsItsSharedDirectories has the kubelet give the directory to the
// pod's fsGroup, and what is made there belongs to that group.
func TestAGroupOfThePodOwnsItsSharedDirectories(t *testing.T) {
	t.Parallel()
	namespace := optedInNamespace(t)
	p := orderedPod("grouped", map[string]string{"shared-directory/a": "data", "shared-directory/b": "data", "depends-on/b": "a:completed"},
		busybox(t, "a", "sh", "-ec", "umask 007; echo hello >/entrypointer/shared/data/file"),
		busybox(t, "b", "sh", "-ec", "stat -c %g /entrypointer/shared/data/file; cat /entrypointer/shared/data/file"))
	p.Spec.RestartPolicy = corev1.RestartPolicyNever
	p.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: new(int64(4321))}
	for i, user := range []int64{1234, 5678} {
		p.Spec.Containers[i].SecurityContext = &corev1.SecurityContext{RunAsUser: &user}
	}
	created := createPod(t, namespace, p)
	done := waitUntilDone(t, namespace, created.Name)
	require.Equal(t, corev1.PodSucceeded, done.Status.Phase, containerStates(done))
	require.Equal(t, []string{"4321", "hello"}, strings.Fields(printed(t, namespace, p.Name, "b")))
}
