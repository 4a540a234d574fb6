// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"path"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/crane"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/pkg/pod"
	"github.com/entrypointer/entrypointer/test/framework"
)

// imageOf is an image of such entries, and of what they are in.
func imageOf(t *testing.T, name string, program []byte, entries ...tar.Header) string {
	t.Helper()
	made := empty.Image
	if len(entries) > 0 {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for _, entry := range entries {
			require.NoError(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: path.Dir(entry.Name) + "/", Mode: 0o755}))
			if entry.Typeflag == tar.TypeReg {
				entry.Size = int64(len(program))
			}
			require.NoError(t, w.WriteHeader(&entry))
			if entry.Typeflag == tar.TypeReg {
				_, err := w.Write(program)
				require.NoError(t, err)
			}
		}
		require.NoError(t, w.Close())
		layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil })
		require.NoError(t, err)
		made, err = mutate.AppendLayers(made, layer)
		require.NoError(t, err)
	}
	config, err := made.ConfigFile()
	require.NoError(t, err)
	platform := nodePlatform(t)
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Config = platform.OS, platform.Architecture, v1.Config{User: "0:0"}
	made, err = mutate.ConfigFile(made, config)
	require.NoError(t, err)
	return pushedTo(t, testRepository(t, "hostile-tool-"+name), made)
}

// What an image can have at the path of a tool. Its init container ends, and says why.
func TestWhateverAnImageHasAtAToolsPathThePodEndsAndSaysWhy(t *testing.T) {
	built, err := crane.Pull(image(t, "ko://github.com/entrypointer/entrypointer/examples/ni"), crane.WithContext(t.Context()), crane.WithPlatform(nodePlatform(t)))
	require.NoError(t, err)
	program := fileOf(t, built, "ko-app/ni")
	at := func(kind byte, leads string) tar.Header {
		return tar.Header{Typeflag: kind, Name: "t/it", Linkname: leads, Mode: 0o755, Devmajor: 1, Devminor: 5}
	}
	elsewhere := tar.Header{Typeflag: tar.TypeReg, Name: "t/program", Mode: 0o755}
	foreign := bytes.Clone(program)
	foreign[18] ^= 0xff // e_machine in its ELF header
	cases := []struct {
		name    string
		program []byte
		entries []tar.Header
		says    string // "" if the tool runs
	}{
		{"pipe", nil, []tar.Header{at(tar.TypeFifo, "")}, "is a pipe, a socket or a device, not a program"},
		{"device", nil, []tar.Header{at(tar.TypeChar, "")}, "is a pipe, a socket or a device, not a program"},
		{"directory", nil, []tar.Header{at(tar.TypeDir, "")}, "is a directory, not a program"},
		{"loop", nil, []tar.Header{at(tar.TypeSymlink, "it")}, "is in a loop of symbolic links"},
		{"dangling", nil, []tar.Header{at(tar.TypeSymlink, "/nowhere")}, `is a symbolic link to "/nowhere", whose target doesn't exist there`},
		{"ours", nil, []tar.Header{at(tar.TypeSymlink, "/proc/self/fd/0")}, "not a program"},
		{"absolute", program, []tar.Header{elsewhere, at(tar.TypeSymlink, "/t/program")}, ""},
		{"foreign", foreign, []tar.Header{at(tar.TypeReg, "")}, "exec format error"},
		{"missing", nil, []tar.Header{{Typeflag: tar.TypeReg, Name: "t/other", Mode: 0o755}}, "isn't in image"},
	}
	tools := make([]pod.Tool, len(cases))
	for i, c := range cases {
		tools[i] = pod.Tool{Name: c.name, Image: imageOf(t, c.name, c.program, c.entries...), Path: "/t/it"}
	}
	offerTools(t, framework.InitContainer, tools...)
	namespace := optedInNamespace(t)
	for _, c := range cases {
		p := askingPod(c.name, busybox(t, "main", "/entrypointer/tools/"+c.name, "said"))
		p.Annotations["entrypointer.dev/tools"] = c.name
		createPod(t, namespace, p)
	}
	for _, c := range cases {
		done := waitUntilDone(t, namespace, c.name)
		if c.says == "" {
			require.Equal(t, corev1.PodSucceeded, done.Status.Phase, "%s: %s", c.name, containerStates(done))
			require.Contains(t, logs(t, namespace, c.name, "main"), "said")
			continue
		}
		require.Equal(t, corev1.PodFailed, done.Status.Phase, c.name)
		var said string
		if end := done.Status.InitContainerStatuses[1].State.Terminated; end != nil && end.ExitCode != 0 {
			said = end.Message
		} else {
			said = logs(t, namespace, c.name, "main")
		}
		require.Contains(t, said, c.says, c.name)
	}
}

// All that a tenant can write about tools, in bulk, while another creates pods.
func TestTheWorstThatTenantsWriteOfToolsIsBorne(t *testing.T) {
	ni := pod.Tool{Name: "ni", Image: toolImage(t, "ni", "tools/ni"), Path: "/tools/ni"}
	offerTools(t, framework.InitContainer, ni)
	before := restarts(t)
	watching, stop := context.WithCancel(t.Context())
	peak := watchMemory(watching, t)
	hostile, modest := optedInNamespace(t), optedInNamespace(t)
	plain := busybox(t, "main", "true")
	mounted := func(volume, at string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: volume})
			p.Spec.Containers[0].VolumeMounts = append(p.Spec.Containers[0].VolumeMounts, corev1.VolumeMount{Name: volume, MountPath: at})
		}
	}
	asks := func(names string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Annotations["entrypointer.dev/tools"] = names }
	}
	named := func(name string) corev1.Container {
		c := plain
		c.Name = name
		return c
	}
	const listed = `it can be names of tools, 16 at most`
	cases := []struct {
		name   string
		change func(*corev1.Pod)
		says   string // "" if it is admitted
	}{
		{"thousands of names", asks(manyNames(30_000)), listed},
		{"one name, very often", asks(strings.Repeat("ni,", 80_000)), listed},
		{"one long name", asks(strings.Repeat("x", 200_000)), listed},
		{"odd characters", asks("n\u202ei\x01"), listed},
		{"a path", asks("../../bin/sh"), listed},
		{"one that there isn't", asks("nii"), `there is no tool "nii"`},
		{"a mount above", mounted("mine", "/entrypointer"), "mount it elsewhere"},
		{"a mount below", mounted("mine", "/entrypointer/tools/ni"), "mount it elsewhere"},
		{"a mount beside", mounted("mine", "/entrypointer/tools-of-mine"), ""},
		{"our volume", mounted("entrypointer-tools", "/mine"), "entrypointer-tools"},
		{"our container", func(p *corev1.Pod) { p.Spec.Containers = append(p.Spec.Containers, named("entrypointer-tool-ni")) }, "rename it"},
		{"our init container", func(p *corev1.Pod) {
			p.Spec.InitContainers = append(p.Spec.InitContainers, named("entrypointer-tool-ni"))
		}, "rename it"},
		{"a status of its own", func(p *corev1.Pod) { p.Annotations[pod.StatusAnnotation] = "Injected by claim" }, ""},
		{"one asked for by each of many containers", func(p *corev1.Pod) {
			for i := range 200 {
				p.Spec.Containers = append(p.Spec.Containers, named(fmt.Sprint("c", i)))
			}
		}, ""},
	}
	flooded := make(chan error, 1)
	go func() {
		flooded <- inBulk(10*len(cases), func(i int) error {
			c := cases[i%len(cases)]
			p := askingPod("asks", plain)
			p.Annotations["entrypointer.dev/tools"] = "ni"
			c.change(p)
			seen, err := wouldBecome(t, hostile, p)
			switch {
			case c.says == "" && err != nil:
				return fmt.Errorf("%s: %w", c.name, err)
			case c.says == "" && seen.Annotations[pod.StatusAnnotation] != "Injected by init-container":
				return fmt.Errorf("%s: its status is %q", c.name, seen.Annotations[pod.StatusAnnotation])
			case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says) || len(err.Error()) > 4096):
				return fmt.Errorf("%s: it is answered with %.4096s", c.name, fmt.Sprint(err))
			}
			return nil
		})
	}()
	for i := range 10 {
		_, err := wouldBecome(t, modest, askingPod(fmt.Sprint("modest-", i), busybox(t, "main", "true")))
		require.NoError(t, err, "another namespace's pods are admitted meanwhile")
	}
	require.NoError(t, <-flooded)
	stop()
	t.Logf("the injector used %d MiB at most", peak()>>20)
	requireNoReplicaDied(t, before)
	require.Less(t, peak(), int64(halfOfTheLimit))
}

// manyNames are different ones, separated by commas.
func manyNames(n int) string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprint("t", i)
	}
	return strings.Join(names, ",")
}
