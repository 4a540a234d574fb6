// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/internal/capture"
	"github.com/entrypointer/entrypointer/pkg/pod"
)

// flagsOf returns the flags with which the container of a pod with these annotations is
// started, nil if admission refuses the pod. The variable EMPTY, which args may refer
// to, is empty.
func flagsOf(t testing.TB, labels, annotations map[string]string, c corev1.Container) []string {
	t.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Labels: labels, Annotations: annotations}}
	p.Spec.Containers = []corev1.Container{c}
	const digest = "@sha256:1111111111111111111111111111111111111111111111111111111111111111"
	injector := &pod.Injector{CopierImage: "copier" + digest, Tools: []pod.Tool{{Name: "ni", Image: "registry.example/ni" + digest, Path: "/ni"}}}
	result, err := injector.Inject(t.Context(), "tenant", p)
	if err != nil {
		var refusal *pod.Refusal
		require.ErrorAs(t, err, &refusal)
		return nil
	}
	var args []string
	for _, arg := range result.Pod.Spec.Containers[0].Args {
		// The kubelet expands args in this order: "$$(EMPTY)" isn't expanded.
		args = append(args, strings.NewReplacer("$$", "$", "$(EMPTY)", "").Replace(arg))
	}
	return args
}

func asksToBeWrapped(pairs ...string) map[string]string {
	annotations := map[string]string{pod.InjectAnnotation: "true"}
	for i := 0; i+1 < len(pairs); i += 2 {
		annotations[pairs[i]] = pairs[i+1]
	}
	return annotations
}

// FuzzTheSupervisorAcceptsAdmittedAnnotations checks that admission refuses all values
// that the supervisor would refuse. At admission, a user still sees the error.
func FuzzTheSupervisorAcceptsAdmittedAnnotations(f *testing.F) {
	all := pod.Options()
	for at, o := range all {
		f.Add(uint8(at), o.Example, "", "/dev/termination-log")
	}
	for _, seed := range [][2]string{
		{"env", "$(EMPTY)=1"},
		{"env", "A=$(EMPTY)"},
		{"env", "$$(EMPTY)=1"},
		{"unset-env", "$(EMPTY)"},
		{"env-file", "/$(EMPTY)"},
		{"success-exit-codes", " 3 , 4"},
		{"timeout", "+1.5h"},
		{"timeout", "1µs"},
		{"pause", "before-start\nbefore-start"},
		{"before-start", `["a\u0000"]`},
		{"before-start", `["--","--"]`},
		{"termination-message", "true"},
		{"status-file", "/$(EMPTY)"},
	} {
		at := slices.IndexFunc(all, func(o pod.Option) bool { return o.Name == seed[0] })
		f.Add(uint8(at), seed[1], "", "relative")
		f.Add(uint8(at), seed[1], "exec", "")
	}
	f.Fuzz(func(t *testing.T, which uint8, value, mode, terminationPath string) {
		if strings.Contains(terminationPath, "\x00") { // nor can the API server have such a path
			return
		}
		option := all[int(which)%len(all)].Name
		step := corev1.Container{
			Name: "step-a", Image: "busybox", Command: []string{"/tekton/bin/entrypoint"}, Args: []string{"-wait_file", "/a", "-post_file", "/b", "--"},
			TerminationMessagePath: terminationPath,
		}
		annotations := asksToBeWrapped("entrypointer.dev/mode", mode, "entrypointer.dev/"+option, value)
		if mode == "" {
			delete(annotations, "entrypointer.dev/mode")
			annotations["entrypointer.dev/"+option] = value
		}
		for _, labels := range []map[string]string{nil, {"tekton.dev/taskRun": "t"}} {
			args := flagsOf(t, labels, annotations, step)
			if args == nil {
				continue
			}
			opts, err := parse(args)
			require.NoError(t, err)
			require.Equal(t, slices.Concat(step.Command, step.Args), opts.argv)
		}
	})
}

// exampleContainers are the containers of a pod in which each option's example can have its
// effect: the examples name some of them.
var exampleContainers = []string{"app", "migrate", "db", "test", "istio"}

// A setting is the example of an option, for a container or, if container is "", for a pod.
type setting struct {
	pod.Option
	container string
}

// settings returns where the example of an option can be.
func settings(o pod.Option) (all []setting) {
	if slices.Contains(o.Levels(), pod.OnPod) {
		return []setting{{o, ""}}
	}
	for _, name := range exampleContainers {
		all = append(all, setting{o, name})
	}
	return all
}

// admitted returns what admission makes of a pod with these settings, nil if it refuses the
// pod, and whether it finds no setting without effect. The supervisor must accept all
// command lines.
func admitted(t *testing.T, owner pod.Owner, settings ...setting) (_ *corev1.PodSpec, effective bool) {
	t.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Annotations: asksToBeWrapped()}}
	p.Spec.RestartPolicy, p.Spec.ServiceAccountName = corev1.RestartPolicyOnFailure, "default"
	if owner != pod.Tekton {
		p.Annotations[pod.ContainersAnnotation] = strings.Join(exampleContainers[:4], ",") // istio is a sidecar that ends by itself
	}
	for _, name := range exampleContainers {
		c := corev1.Container{Name: name, Image: "busybox", Command: []string{"x"}, TerminationMessagePath: "/dev/termination-log"}
		if owner == pod.Tekton {
			p.Labels = map[string]string{"tekton.dev/taskRun": "t"}
			c.Name = "step-" + name
			c.Command, c.Args = []string{"/tekton/bin/entrypoint"}, []string{"-wait_file", "/a", "-post_file", "/b", "--"}
		}
		p.Spec.Containers = append(p.Spec.Containers, c)
	}
	for _, s := range settings {
		key := "entrypointer.dev/" + s.Name
		if s.container != "" {
			key = s.Name + ".entrypointer.dev/" + s.container
		}
		p.Annotations[key] = s.Example
	}
	const digest = "@sha256:1111111111111111111111111111111111111111111111111111111111111111"
	injector := &pod.Injector{
		CopierImage: "copier" + digest,
		Tools:       []pod.Tool{{Name: "ni", Image: "registry.example/ni" + digest, Path: "/ni"}, {Name: "yq", Image: "registry.example/yq" + digest, Path: "/yq"}},
		Logs: &pod.LogService{
			Address: "https://logs.entrypointer-logs.svc", CA: "sha256:" + strings.Repeat("0", 64), Audience: "logs",
			CopierImage: "copier-with-logs" + digest, EntrypointImage: "entrypoint-with-logs" + digest,
		},
	}
	result, err := injector.Inject(t.Context(), "tenant", p)
	if err != nil {
		var refusal *pod.Refusal
		require.ErrorAs(t, err, &refusal)
		return nil, false
	}
	for _, c := range result.Pod.Spec.Containers {
		if c.Args == nil {
			continue
		}
		availableOutput = capture.New()
		_, err := parse(c.Args)
		require.NoError(t, err, "%q of %v", c.Args, p.Annotations)
	}
	without := func(w pod.Warning) bool { return w.Reason == pod.ReasonAnnotationHasNoEffect }
	return &result.Pod.Spec, !slices.ContainsFunc(result.Warnings, without)
}

// TestEveryOptionHasItsEffect, because an example that is parsed without an effect is
// useless. Some have one only beside the example of another option.
func TestEveryOptionHasItsEffect(t *testing.T) {
	t.Cleanup(func() { availableOutput = nil })
	beside := [][]setting{nil}
	for _, other := range pod.Options() {
		for _, s := range settings(other) {
			beside = append(beside, []setting{s})
		}
	}
	hasEffect := func(owner pod.Owner, o pod.Option) bool {
		for _, others := range beside {
			if len(others) > 0 && others[0].Name == o.Name {
				continue
			}
			without, _ := admitted(t, owner, others...) // nil if the other one needs this one
			for _, s := range settings(o) {
				if with, effective := admitted(t, owner, append(others, s)...); effective && !reflect.DeepEqual(with, without) {
					return true
				}
			}
		}
		return false
	}
	for _, o := range pod.Options() {
		has := slices.ContainsFunc(o.Owners(), func(owner pod.Owner) bool { return hasEffect(owner, o) })
		require.True(t, has, o.Name)
	}
}
