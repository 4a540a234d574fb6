// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod_test

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/pkg/lookup"
	"github.com/entrypointer/entrypointer/pkg/pod"
)

// catalogue answers lookups from a list. lookup.New makes one that asks registries.
type catalogue map[string][]string

func (c catalogue) Lookup(_ context.Context, query lookup.Query) (*lookup.Image, error) {
	cmd, ok := c[query.Image]
	if !ok {
		return nil, &lookup.Error{Query: query, Reason: lookup.NotFound, Err: errors.New("it isn't in the catalogue")}
	}
	return &lookup.Image{Pinned: query.Image, Configs: []lookup.Config{{Platform: "linux/amd64", Cmd: cmd}}}, nil
}

// An operator that makes pods can wrap them itself, without the webhook.
func ExampleInjector() {
	injector := &pod.Injector{
		CopierImage: "registry.example.test/copier@sha256:1111111111111111111111111111111111111111111111111111111111111111",
		Lookup:      catalogue{"nginx": {"nginx", "-g", "daemon off;"}},
	}
	before := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Annotations: map[string]string{
			"entrypointer.dev/inject":      "true",
			"timeout.entrypointer.dev/job": "1h",
		}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{
			{Name: "server", Image: "nginx"},
			{Name: "job", Image: "busybox", Command: []string{"sleep"}, Args: []string{"60"}},
		}},
	}
	result, err := injector.Inject(context.Background(), "team-a", before)
	if err != nil {
		fmt.Println(err) // a *pod.Refusal is for the pod's author
		return
	}
	fmt.Println(result.Outcome, result.Wrapped)
	for _, c := range result.Pod.Spec.Containers {
		fmt.Printf("%s %q\n", c.Command, c.Args)
	}
	fmt.Println(len(pod.Patch(before, result.Pod)), "operations lead there")
	// Output:
	// Injected [server job]
	// [/entrypointer/bin/entrypoint] ["-image-words=3:nginx" "--" "nginx" "-g" "daemon off;"]
	// [/entrypointer/bin/entrypoint] ["-timeout=1h" "--" "sleep" "60"]
	// 10 operations lead there
}

// Pods of other owners are wrapped like Tekton's, without asking.
func ExampleKind() {
	workflows := pod.Kind{
		Owner: "Argo", Label: "workflows.argoproj.io/workflow", Controller: "Workflow",
		Wraps: func(c corev1.Container) bool { return c.Name == "main" },
	}
	injector := &pod.Injector{
		CopierImage: "registry.example.test/copier@sha256:1111111111111111111111111111111111111111111111111111111111111111",
		Kinds:       append(pod.Kinds(), workflows),
	}
	result, err := injector.Inject(context.Background(), "team-a", &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "step", Labels: map[string]string{"workflows.argoproj.io/workflow": "build"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{
			{Name: "wait", Image: "argoexec", Command: []string{"argoexec", "wait"}},
			{Name: "main", Image: "busybox", Command: []string{"make"}},
		}},
	})
	fmt.Println(result.Owner, result.Wrapped, err)
	// Output: Argo [main] <nil>
}
