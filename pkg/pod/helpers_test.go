// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod_test

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/entrypointer/entrypointer/pkg/lookup"
	"github.com/entrypointer/entrypointer/pkg/pod"
)

var update = flag.Bool("update", false, "write golden files instead of comparing with them")

const copierImage = "registry.example.test/copier@sha256:1111111111111111111111111111111111111111111111111111111111111111"

// images stands for a registry: what pkg/pod makes of an answer is tested
// here, how answers come about is tested in pkg/lookup.
type images map[string]lookup.Image

func (i images) Lookup(_ context.Context, query lookup.Query) (*lookup.Image, error) {
	image, ok := i[query.Image]
	if !ok {
		return nil, &lookup.Error{Query: query, Reason: lookup.NotFound, Err: os.ErrNotExist}
	}
	image.Pinned = query.Image + "@sha256:2222222222222222222222222222222222222222222222222222222222222222"
	return &image, nil
}

// image is an image that says the same for one platform.
func image(entrypoint, cmd []string) lookup.Image {
	return lookup.Image{Configs: []lookup.Config{{Platform: "linux/amd64", Entrypoint: entrypoint, Cmd: cmd}}}
}

func newInjector(known images) *pod.Injector {
	return &pod.Injector{CopierImage: copierImage, Lookup: known}
}

// asking returns a pod that asks to be wrapped.
func asking(containers ...corev1.Container) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Annotations: map[string]string{pod.InjectAnnotation: "true"}},
		Spec:       corev1.PodSpec{Containers: containers},
	}
}

// labelled is a pod that asks, with a label, and is controlled by an object of a kind, or
// by none.
func labelled(label, controller string, containers ...corev1.Container) *corev1.Pod {
	p := asking(containers...)
	p.Labels = map[string]string{label: "x"}
	if controller != "" {
		p.OwnerReferences = []metav1.OwnerReference{{Kind: controller, Controller: new(true)}}
	}
	return p
}

func running(name string, argv ...string) corev1.Container {
	return corev1.Container{Name: name, Image: "busybox", Command: argv}
}

// inject wraps the pod, which must be admitted.
func inject(t *testing.T, injector *pod.Injector, p *corev1.Pod) pod.Result {
	t.Helper()
	result, err := injector.Inject(t.Context(), "tenant", p)
	require.NoError(t, err)
	return result
}

// requireGolden compares object, as YAML, with testdata/name.yaml.
func requireGolden(t *testing.T, name string, object any) {
	t.Helper()
	got, err := yaml.Marshal(object)
	require.NoError(t, err)
	path := filepath.Join("testdata", name+".yaml")
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, got, 0o600))
		return
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err, "run the test with -update to write it")
	require.Equal(t, string(want), string(got), "run the test with -update if the change is meant")
}

// requireRepaired forges a wrapped pod, and has the injector make it what it was.
func requireRepaired(t *testing.T, injector *pod.Injector, wrapped *corev1.Pod, forge func(*corev1.Pod)) {
	t.Helper()
	forged := wrapped.DeepCopy()
	forge(forged)
	result := inject(t, injector, forged)
	requireSamePod(t, wrapped, result.Pod, "it is to be as we make it")
	requireSamePod(t, result.Pod, patched(t, forged, result.Pod), "the patch leads elsewhere")
	require.Equal(t, pod.AlreadyInjected, inject(t, injector, result.Pod).Outcome)
}
