// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

func TestAnImageThatCanNotBeFoundGivesAnErrorThatOneCanActOn(t *testing.T) {
	t.Parallel()
	namespace := optedInNamespace(t)
	missing := image(t, "no-such-image-of-entrypointer:1")
	d := clockDeployment(t, "hopeless", 1)
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "main", Image: missing}}
	createDeployment(t, namespace, d)

	// A user finds it where a user looks: in the Deployment's status.
	var message string
	eventually(t, patience, "the Deployment to say why it has no pod", func() error {
		d, err := cluster.Kube.AppsV1().Deployments(namespace).Get(t.Context(), "hopeless", metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range d.Status.Conditions {
			if c.Type == "ReplicaFailure" && c.Status == corev1.ConditionTrue {
				message = c.Message
				return nil
			}
		}
		return fmt.Errorf("its conditions are %v", d.Status.Conditions)
	})
	for _, part := range []string{
		fmt.Sprintf("image %q", missing),
		fmt.Sprintf("namespace %q", namespace),
		`container "main"`,
		`of ReplicaSet "hopeless-`,
		"set command: in the container",
	} {
		require.Contains(t, message, part)
	}
}

func TestACommandMakesTheLookupUnnecessary(t *testing.T) {
	t.Parallel()
	namespace := optedInNamespace(t)
	c := corev1.Container{Name: "main", Image: image(t, "no-such-image-of-entrypointer:1"), Command: []string{"anything"}}
	created := createPod(t, namespace, askingPod("unasked", c))
	requireWrapped(t, created, "main")
	require.Equal(t, c.Image, created.Spec.Containers[0].Image)
}

func TestAnImageThatWasLookedUpIsPinned(t *testing.T) {
	t.Parallel()
	namespace := optedInNamespace(t)
	c := busybox(t, "main")
	created := createPod(t, namespace, askingPod("pinned", c))
	main := created.Spec.Containers[0]
	require.True(t, strings.HasPrefix(main.Image, c.Image+"@sha256:"), main.Image)
	require.Equal(t, []string{"-image-words=1:" + main.Image, "--", "sh"}, main.Args, "what busybox runs by itself")
	// A shell at the end of its input has nothing to do.
	require.Equal(t, corev1.PodSucceeded, waitUntilDone(t, namespace, "pinned").Status.Phase)
}

// The kubelet expands $(VAR) in args, but not in what an image says.
func TestTheDollarsOfAnImageAreNotExpanded(t *testing.T) {
	t.Parallel()
	c := corev1.Container{Name: "main", Env: []corev1.EnvVar{{Name: "GREETING", Value: "hello"}}}
	c.Image = pushed(t, "dollars", []string{"printf", "%s|", "$(GREETING)", "$$", "$$(GREETING)"}, []string{"$GREETING", "$$$"})
	plain, wrapped := inBoth(t, askingPod("dollars", c))
	require.Equal(t, "$(GREETING)|$$|$$(GREETING)|$GREETING|$$$|", plain.Log)
	require.Equal(t, plain, wrapped)

	c.Args = []string{"$(GREETING)", "$$"}
	plain, wrapped = inBoth(t, askingPod("dollars-and-args", c))
	require.Equal(t, "$(GREETING)|$$|$$(GREETING)|hello|$|", plain.Log, "args replace CMD")
	require.Equal(t, plain, wrapped)
}

func TestAnImageWhosePlatformsDifferRunsWhatTheOneOfTheNodeSays(t *testing.T) {
	t.Parallel()
	c := corev1.Container{Name: "main", Image: pushedIndex(t, "platforms", map[string][]string{
		nodePlatform(t).String(): {"echo", "this one costs 5$"},
		"linux/mips":             {"echo", "the other one"},
	})}
	namespace := optedInNamespace(t)
	created := createPod(t, namespace, askingPod("platforms", c))
	require.Contains(t, strings.Join(created.Spec.Containers[0].Args, " "), "the other one", "the supervisor gets both, and chooses")
	require.Equal(t, containerResult{ExitCode: 0, Reason: "Completed", Log: "this one costs 5$\n"}, ranMain(t, namespace, "platforms"))
}

func TestAPodWithoutAnythingToRunIsRefused(t *testing.T) {
	t.Parallel()
	namespace := optedInNamespace(t)
	c := corev1.Container{Name: "main", Image: pushed(t, "silent", nil, nil)}
	_, err := cluster.Kube.CoreV1().Pods(namespace).Create(t.Context(), askingPod("silent", c), metav1.CreateOptions{})
	require.ErrorContains(t, err, "has neither ENTRYPOINT nor CMD")
	require.ErrorContains(t, err, "set command:")
	require.NotContains(t, err.Error(), pod.MountPath, "ours is none of the author's business")
}

// Builders write ENTRYPOINT [""] to undo that of a base image.
func TestAnImageWithAnEmptyEntrypointRunsItsCmdAsUnwrapped(t *testing.T) {
	t.Parallel()
	undone := pushed(t, "undone", []string{""}, []string{"echo", "from", "CMD"})
	plain, wrapped := inBoth(t, askingPod("undone", corev1.Container{Name: "main", Image: undone}))
	require.Equal(t, "from CMD\n", plain.Log)
	require.Equal(t, plain, wrapped)
}
