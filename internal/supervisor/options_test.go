// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

// TestEveryOptionHasItsEffect, because an example that is parsed without an effect is
// useless.
func TestEveryOptionHasItsEffect(t *testing.T) {
	nothing := defaults()
	nothing.argv = []string{"x"}
	for _, o := range pod.Options() {
		if o.Name == "hand-off" {
			continue // its example turns it off
		}
		if o.Name == "mask-files" || strings.HasPrefix(o.Name, "logs") {
			continue // their flags are those of package capture: cmd/withlogs/entrypoint tests them
		}
		if o.Name == "tools" || o.Name == "shared-directory" {
			continue // their effect is a mount; pkg/pod tests it
		}
		if slices.Contains([]string{"depends-on", "depends-on-timeout", "stop-when", "ready-when", "wait-for", "end-sidecars", "stdin"}, o.Name) {
			continue // they take two containers: TestTheSupervisorAcceptsAdmissionsOrderFlags, TestTheSupervisorAcceptsAdmissionsPipeFlags
		}
		annotations := asksToBeWrapped("entrypointer.dev/"+o.Name, o.Example)
		if o.Name == "tools-in-path" {
			annotations["entrypointer.dev/tools"] = "ni"
		}
		args := flagsOf(t, nil, annotations, corev1.Container{Name: "a", Image: "busybox", Command: []string{"x"}})
		opts, err := parse(args)
		require.NoError(t, err, o.Name)
		require.NotEqual(t, nothing, opts, o.Name)
	}
}
