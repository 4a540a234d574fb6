// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/crane"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/stretchr/testify/require"
	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/pkg/pod"
	"github.com/entrypointer/entrypointer/test/framework"
)

// toolImage is an image of one file, examples/ni, that names root as its user.
func toolImage(t *testing.T, name, file string) string {
	t.Helper()
	built, err := crane.Pull(image(t, "ko://github.com/entrypointer/entrypointer/examples/ni"), crane.WithContext(t.Context()), crane.WithPlatform(nodePlatform(t)))
	require.NoError(t, err)
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(archived(t, file, fileOf(t, built, "ko-app/ni")))), nil
	})
	require.NoError(t, err)
	made, err := mutate.AppendLayers(empty.Image, layer)
	require.NoError(t, err)
	config, err := made.ConfigFile()
	require.NoError(t, err)
	platform := nodePlatform(t)
	config = config.DeepCopy()
	config.OS, config.Architecture = platform.OS, platform.Architecture
	config.Config = v1.Config{User: "0:0", WorkingDir: "/private"}
	made, err = mutate.ConfigFile(made, config)
	require.NoError(t, err)
	return pushedTo(t, testRepository(t, "tool-"+name), made)
}

// archived are the bytes of an archive of a program, in directories for all, and
// one that is root's.
func archived(t *testing.T, file string, program []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	require.NoError(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "private/", Mode: 0o700}))
	for dir := path.Dir(file); dir != "."; dir = path.Dir(dir) {
		require.NoError(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755}))
	}
	require.NoError(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: file, Mode: 0o755, Size: int64(len(program))}))
	_, err := w.Write(program)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.Bytes()
}

func fileOf(t *testing.T, image v1.Image, file string) []byte {
	t.Helper()
	files := mutate.Extract(image)
	defer files.Close()
	for r := tar.NewReader(files); ; {
		header, err := r.Next()
		require.NoError(t, err, "looking for %q", file)
		if strings.TrimPrefix(header.Name, "/") == file {
			content, err := io.ReadAll(r)
			require.NoError(t, err)
			return content
		}
	}
}

// offerTools has the operator offer tools, until the end of the test.
func offerTools(t *testing.T, delivery string, tools ...pod.Tool) {
	t.Helper()
	if delivery == framework.ImageVolume {
		needsImageVolumes(t)
	}
	configureForNow(t, framework.DeliveryKey, delivery)
	var offer strings.Builder
	for _, tool := range tools {
		fmt.Fprintf(&offer, "%s: {image: %q, path: %q}\n", tool.Name, tool.Image, tool.Path)
	}
	configureForNow(t, "tools", offer.String())
	namespace := optedInNamespace(t)
	asks := askingPod("asks", busybox(t, "main", "true"))
	asks.Annotations["entrypointer.dev/tools"] = tools[0].Name
	eventually(t, time.Minute, "the injector to know the tools", func() error {
		seen, err := wouldBecome(t, namespace, asks)
		if err == nil && framework.Delivery(seen) != delivery {
			err = errors.New("the delivery is the other")
		}
		return err
	})
}

// restrictedPod is one that PodSecurity's strictest level admits.
func restrictedPod(name string, c corev1.Container) *corev1.Pod {
	c.SecurityContext = &corev1.SecurityContext{
		AllowPrivilegeEscalation: new(false), RunAsNonRoot: new(true), RunAsUser: new(int64(1234)), ReadOnlyRootFilesystem: new(true),
		Capabilities:   &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	return askingPod(name, c)
}

func TestToolsAreThereForWhoeverAsks(t *testing.T) {
	ni := pod.Tool{Name: "ni", Image: toolImage(t, "ni", "tools/ni"), Path: "/tools/ni"}
	other := pod.Tool{Name: "other", Image: toolImage(t, "other", "usr/bin/renamed"), Path: "/usr/bin/renamed"}
	for _, delivery := range []string{framework.InitContainer, framework.ImageVolume} {
		t.Run(delivery, func(t *testing.T) {
			offerTools(t, delivery, ni, other)
			namespace := newNamespace(t, map[string]string{
				pod.InjectAnnotation: "true", "entrypointer.dev/tools": "ni", "entrypointer.dev/tools-in-path": "true",
			}, "pod-security.kubernetes.io/enforce", "restricted").Name
			createPod(t, namespace, restrictedPod("one", busybox(t, "main", "sh", "-c",
				"/entrypointer/tools/ni by path; ni by name; ls /entrypointer/tools; touch /entrypointer/tools/x || id -u")))
			several := restrictedPod("several", busybox(t, "main", "sh", "-c", "ni 1; other 2"))
			several.Annotations["entrypointer.dev/tools"] = "ni, other"
			several.Spec.AutomountServiceAccountToken = new(true)
			requireTokensOfOthers(t, createPod(t, namespace, several))
			done := waitUntilDone(t, namespace, "one")
			require.Equal(t, corev1.PodSucceeded, done.Status.Phase, containerStates(done))
			require.Equal(t, delivery == framework.ImageVolume, len(done.Spec.InitContainers) == 0)
			require.Equal(t, sorted("/entrypointer/tools/ni: by path\n/entrypointer/tools/ni: by name\nni\n"+
				"touch: /entrypointer/tools/x: Read-only file system\n1234\n"), sorted(logs(t, namespace, "one", "main")))
			done = waitUntilDone(t, namespace, "several")
			require.Equal(t, corev1.PodSucceeded, done.Status.Phase, containerStates(done))
			require.Equal(t, "/entrypointer/tools/ni: 1\n/entrypointer/tools/other: 2\n", logs(t, namespace, "several", "main"))

			examples := optionExample(t, "tools")
			ran := ranTask(t, examples, "tools")
			require.Equal(t, corev1.ConditionTrue, ran.Succeeded, ran.Message)
			require.Equal(t, "/entrypointer/tools/ni: get -p {.name}\n", ran.Steps[0].Log)
			require.Equal(t, "/entrypointer/tools/ni: log info done\n", ran.Steps[1].Log)
			require.Equal(t, "no ni\n", ran.Steps[2].Log)
			p := readyPod(t, examples, "tools")
			require.Contains(t, logs(t, examples, p.Name, "user-container"), "/entrypointer/tools/ni: set started\n")
			require.Equal(t, "/entrypointer/tools/ni: from outside\n", execIn(t, examples, p.Name, "user-container", "/entrypointer/tools/ni", "from", "outside"))
		})
	}
}

// Admission doesn't look into images.
func TestAPathThatIsNotInAToolsImageIsSaidToThePodsOwner(t *testing.T) {
	lost := pod.Tool{Name: "lost", Image: toolImage(t, "ni", "tools/ni"), Path: "/tools/lost"}
	nowhere := pod.Tool{Name: "nowhere", Image: lost.Image, Path: "/nowhere/nowhere"}
	why := `entrypointer: tool lost: path "/tools/lost" isn't in image "` + lost.Image + `": have the operator correct it in the key "tools" of ConfigMap config-entrypointer`
	t.Run(framework.InitContainer, func(t *testing.T) {
		offerTools(t, framework.InitContainer, lost)
		namespace := optedInNamespace(t)
		p := askingPod("lost", busybox(t, "main", "true"))
		p.Annotations["entrypointer.dev/tools"] = "lost"
		createPod(t, namespace, p)
		done := waitUntilDone(t, namespace, "lost")
		require.Equal(t, corev1.PodFailed, done.Status.Phase)
		status := done.Status.InitContainerStatuses[1]
		require.Equal(t, "entrypointer-tool-lost", status.Name)
		require.Equal(t, int32(125), status.State.Terminated.ExitCode)
		require.Contains(t, status.State.Terminated.Message, why)

		run := taskRun("lost", pipelinev1.TaskSpec{Steps: []pipelinev1.Step{{Name: "only", Image: image(t, "busybox:1.37"), Script: "true"}}})
		run.Annotations = map[string]string{"entrypointer.dev/tools": "lost"}
		_, err := cluster.Tekton.TektonV1().TaskRuns(namespace).Create(t.Context(), run, metav1.CreateOptions{})
		require.NoError(t, err)
		failed, err := cluster.WaitForTaskRun(t.Context(), namespace, "lost")
		require.NoError(t, err)
		require.Contains(t, failed.Status.GetCondition("Succeeded").GetMessage(), "entrypointer-tool-lost")
		t.Log(failed.Status.GetCondition("Succeeded").GetMessage())
	})
	t.Run(framework.ImageVolume, func(t *testing.T) {
		offerTools(t, framework.ImageVolume, lost, nowhere)
		namespace := optedInNamespace(t)
		p := askingPod("lost", busybox(t, "main", "/entrypointer/tools/lost"))
		p.Annotations["entrypointer.dev/tools"] = "lost"
		createPod(t, namespace, p)
		done := waitUntilDone(t, namespace, "lost")
		require.Equal(t, int32(127), done.Status.ContainerStatuses[0].State.Terminated.ExitCode)

		p = askingPod("nowhere", busybox(t, "main", "true"))
		p.Annotations["entrypointer.dev/tools"] = "nowhere"
		createPod(t, namespace, p)
		eventually(t, patience, "the kubelet to say why", func() error {
			got, err := cluster.Kube.CoreV1().Pods(namespace).Get(t.Context(), "nowhere", metav1.GetOptions{})
			if err != nil {
				return err
			}
			for _, status := range got.Status.ContainerStatuses {
				if w := status.State.Waiting; w != nil && strings.Contains(w.Message, "nowhere") {
					t.Log(w.Reason, w.Message)
					return nil
				}
			}
			return fmt.Errorf("it says %s", containerStates(got))
		})
	})
}

func TestAToolThatIsNotOfferedIsRefusedWithThoseThatAre(t *testing.T) {
	ni := pod.Tool{Name: "ni", Image: toolImage(t, "ni", "tools/ni"), Path: "/tools/ni"}
	offerTools(t, framework.InitContainer, ni)
	namespace := optedInNamespace(t)
	p := askingPod("asks", busybox(t, "main", "true"))
	p.Annotations["entrypointer.dev/tools"] = "nii"
	_, err := wouldBecome(t, namespace, p)
	require.ErrorContains(t, err, `reading annotation entrypointer.dev/tools: there is no tool "nii"; the operator of entrypointer offers ni`)

	// A namespace's pods run all the same.
	_, err = annotateKey(t.Context(), namespace, "entrypointer.dev/tools", `"nii"`)
	require.NoError(t, err)
	delete(p.Annotations, "entrypointer.dev/tools")
	seen, err := wouldBecome(t, namespace, p)
	require.NoError(t, err)
	requireWrapped(t, seen, "main")

	for value, says := range map[string]string{
		"ni: {image: registry.example/ni:1, path: /ni}": "has no digest",
		"ni: {image: " + ni.Image + ", path: ni}":       "write an absolute path",
		"none: {image: " + ni.Image + ", path: /ni}":    "choose another",
	} {
		_, err := configure(t, "tools", value, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
		require.ErrorContains(t, err, says)
	}
}
