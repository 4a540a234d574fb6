// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package outage

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/internal/config"
	"github.com/entrypointer/entrypointer/pkg/pod"
)

var update = flag.Bool("update", false, "write what the number means, for a number that no release has had")

// A policy of another release would wrap pods in another way.
func TestAnotherWrappingOfPlainPodsHasAnotherNumber(t *testing.T) {
	step := func(name string, args ...string) corev1.Container {
		return corev1.Container{
			Name: "step-" + name, Image: "busybox", Command: []string{"/tekton/bin/entrypoint"}, Args: args, TerminationMessagePath: "/tekton/termination",
			VolumeMounts: []corev1.VolumeMount{
				{Name: "bin", MountPath: "/tekton/bin", ReadOnly: true}, {Name: "run-0", MountPath: "/tekton/run/0"}, {Name: "run-1", MountPath: "/tekton/run/1"},
			},
		}
	}
	first := step("first", "-wait_file", "/tekton/downward/ready", "-wait_file_content", "-post_file", "/tekton/run/0/out", "-termination_path", "/tekton/termination", "-step_metadata_dir", "/tekton/run/0/status", "-entrypoint", "sh", "--")
	first.VolumeMounts = append(first.VolumeMounts, corev1.VolumeMount{Name: "downward", MountPath: "/tekton/downward"})
	second := step("second", "-wait_file", "/tekton/run/0/out", "-post_file", "/tekton/run/1/out", "-termination_path", "/tekton/termination", "-step_metadata_dir", "/tekton/run/1/status", "-entrypoint", "sh", "--")
	emptyDir := func(name string) corev1.Volume {
		return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}
	}
	plain := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "run-pod", Labels: map[string]string{"tekton.dev/taskRun": "run"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "tekton.dev/v1", Kind: "TaskRun", Name: "run", UID: "1", Controller: new(true)}},
		},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{first, second},
			InitContainers: []corev1.Container{{Name: "prepare", Image: "entrypoint", Command: []string{"cp"}}},
			Volumes:        []corev1.Volume{emptyDir("bin"), emptyDir("run-0"), emptyDir("run-1"), {Name: "downward"}},
		},
	}
	result, err := (&pod.Injector{CopierImage: image}).Inject(t.Context(), "tenant", plain)
	require.NoError(t, err)
	have, err := json.MarshalIndent(result.Pod, "", " ")
	require.NoError(t, err)
	file := filepath.Join("testdata", strings.TrimPrefix(config.OutageAnnotation, config.OutagePrefix)+".json")
	if *update {
		require.NoError(t, os.WriteFile(file, append(have, '\n'), 0o600))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), string(have)+"\n", "plain pods are wrapped in another way than the number at the end of %s stands for: raise it, there and in config/outage, and write its file by go test -update", config.OutageAnnotation)
}
