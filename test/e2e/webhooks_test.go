// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && neighbours

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/entrypointer/entrypointer/test/framework"
)

// The tests with the build tag "neighbours" install other projects on the whole cluster, from
// these projects' own manifests, so they aren't parallel. Compiling the programs takes half an
// hour the first time: "make neighbours-webhooks" runs the tests, and "make e2e" doesn't.

// webhooksModule is the module whose go.mod names the other projects' versions.
const webhooksModule = "test/neighbours/webhooks"

// neighbourLabel is the label of the namespaces whose objects another project's webhooks see.
const neighbourLabel = "e2e.entrypointer.dev/neighbour"

// objectsOf returns the objects in files of another project's module, as change leaves them:
// all but those for which it returns false. The pattern names the files.
func objectsOf(t *testing.T, module, pattern string, change func(*unstructured.Unstructured) bool) (objects []*unstructured.Unstructured) {
	t.Helper()
	directory, err := framework.Run(t.Context(), "go", "-C", webhooksModule, "list", "-m", "-f", "{{.Dir}}", module)
	require.NoError(t, err)
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(directory)), filepath.FromSlash(pattern)))
	require.NoError(t, err)
	require.NotEmpty(t, files, "files %s of %s", pattern, module)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, object := range parsed(t, string(text)) {
			if change == nil || change(object) {
				objects = append(objects, object)
			}
		}
	}
	return objects
}

// parsed returns the objects of a manifest.
func parsed(t *testing.T, manifest string) (objects []*unstructured.Unstructured) {
	t.Helper()
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(manifest), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(object)
		if errors.Is(err, io.EOF) {
			return objects
		}
		require.NoError(t, err)
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}

// apply creates objects that go when the test ends. For a minute, it tries again what API
// servers refuse: they may not know the kinds yet, or webhooks may not answer.
func apply(t *testing.T, objects ...*unstructured.Unstructured) {
	t.Helper()
	var list bytes.Buffer
	for _, object := range objects {
		require.NoError(t, json.NewEncoder(&list).Encode(object))
	}
	file := filepath.Join(t.TempDir(), "objects.json")
	require.NoError(t, os.WriteFile(file, list.Bytes(), 0o600))
	t.Cleanup(func() {
		// Kyverno's namespace takes minutes to go on a busy machine.
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
		defer cancel()
		if _, err := framework.Run(ctx, "kubectl", "delete", "--ignore-not-found", "-f", file); err != nil {
			t.Errorf("deleting what the test has applied: %v", err)
		}
	})
	eventually(t, time.Minute, "objects to be applied", func() error {
		_, err := framework.Run(t.Context(), "kubectl", "apply", "--server-side", "--force-conflicts", "-f", file)
		return err
	})
}

// changeDeployment changes a Deployment in a manifest. One replica is enough for a test.
func changeDeployment(t *testing.T, object *unstructured.Unstructured, change func(*corev1.PodSpec)) {
	t.Helper()
	var deployment appsv1.Deployment
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &deployment))
	deployment.Spec.Replicas = new(int32(1))
	change(&deployment.Spec.Template.Spec)
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&deployment)
	require.NoError(t, err)
	object.Object = content
}

// eachWebhook changes the webhooks of a configuration in a manifest.
func eachWebhook(t *testing.T, object *unstructured.Unstructured, change func(map[string]any)) {
	t.Helper()
	webhooks, found, err := unstructured.NestedSlice(object.Object, "webhooks")
	require.NoError(t, err)
	require.True(t, found, object.GetName())
	for _, webhook := range webhooks {
		change(webhook.(map[string]any))
	}
	require.NoError(t, unstructured.SetNestedSlice(object.Object, webhooks, "webhooks"))
}

// onlyNeighbours has a webhook see the namespaces with the label of tests and nothing else, and
// refuse what it can't answer: with Gatekeeper's defaults, a busy node lets pods pass as they are.
func onlyNeighbours(values ...string) func(map[string]any) {
	return func(webhook map[string]any) {
		expression := map[string]any{"key": neighbourLabel, "operator": "Exists"}
		if len(values) > 0 {
			var in []any
			for _, value := range values {
				in = append(in, value)
			}
			expression["operator"], expression["values"] = "In", in
		}
		webhook["namespaceSelector"] = map[string]any{"matchExpressions": []any{expression}}
		webhook["failurePolicy"], webhook["timeoutSeconds"] = "Fail", int64(10)
		for _, rule := range webhook["rules"].([]any) {
			if rule := rule.(map[string]any); slices.Contains(rule["resources"].([]any), any("*")) {
				rule["scope"] = "Namespaced" // the selector doesn't concern other objects
			}
		}
	}
}

// argsOf returns the words that a wrapped container runs.
func argsOf(t *testing.T, p *corev1.Pod, container string) []string {
	t.Helper()
	at := slices.IndexFunc(p.Spec.Containers, func(c corev1.Container) bool { return c.Name == container })
	require.GreaterOrEqual(t, at, 0, "container %s of pod %s", container, p.Name)
	args := p.Spec.Containers[at].Args
	return args[slices.Index(args, "--")+1:]
}

// requireOnlyLimitedPods sees that a project refuses a pod without a memory limit whose container
// may escalate its privileges, in its own words, where pods are wrapped and where they aren't;
// and that a pod which keeps these rules still keeps them wrapped, and runs.
func requireOnlyLimitedPods(t *testing.T, project, plain, wrapped string, words ...string) {
	t.Helper()
	p := askingPod("unlimited", busybox(t, "main", "true"))
	for _, where := range []string{plain, wrapped} {
		var refusal error
		eventually(t, 2*time.Minute, project+" to refuse the pod", func() error {
			if _, refusal = wouldBecome(t, where, p); refusal == nil {
				return errors.New("it admits the pod")
			}
			return nil
		})
		for _, said := range words {
			require.ErrorContains(t, refusal, said)
		}
	}
	main := &p.Spec.Containers[0]
	main.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")}
	main.SecurityContext = &corev1.SecurityContext{AllowPrivilegeEscalation: new(false)}
	requireWrapped(t, createPod(t, wrapped, p), "main")
	require.Equal(t, corev1.PodSucceeded, waitUntilDone(t, wrapped, "unlimited").Status.Phase)
}
