// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod_test

import (
	"flag"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

// stepOf is a TaskRun's pod with one step, as Tekton starts it with these flags.
func stepOf(flags ...string) *corev1.Pod {
	p := asking(corev1.Container{Name: "step-a", Image: "busybox", Command: []string{"/tekton/bin/entrypoint"}, Args: append(flags, "-entrypoint", "true", "--")})
	p.Labels = map[string]string{"tekton.dev/taskRun": "t"}
	p.Annotations = map[string]string{}
	return p
}

// flagsOf are the supervisor's own in the first container.
func flagsOf(result pod.Result) []string {
	args := result.Pod.Spec.Containers[0].Args
	return args[:slices.Index(args, "--")]
}

func TestAStepIsHandedOverAccordingToTektonsArgs(t *testing.T) {
	for name, test := range map[string]struct{ args, want []string }{
		"a first step": {
			[]string{"-wait_file", "/tekton/downward/ready", "-wait_file_content", "-post_file", "/tekton/run/0/out"},
			[]string{"-wait-content=/tekton/downward/ready", "-wait-abort=/tekton/downward/ready.err", "-hold=1s", "-post-file=/tekton/run/0/out"},
		},
		"a later step": {
			[]string{"-wait_file", "/tekton/run/0/out", "-post_file", "/tekton/run/1/out", "-results", "a,b"},
			[]string{"-wait-file=/tekton/run/0/out", "-wait-abort=/tekton/run/0/out.err", "-hold=1s", "-post-file=/tekton/run/1/out"},
		},
		"joined, with two dashes": {
			[]string{"--wait_file=/a/out", "--post_file=/b/out", "--when_expressions", `[{"input":"-wait_file"}]`},
			[]string{"-wait-file=/a/out", "-wait-abort=/a/out.err", "-hold=1s", "-post-file=/b/out"},
		},
		"several files": {
			[]string{"-wait_file", "/a,/b"},
			[]string{"-wait-file=/a", "-wait-abort=/a.err", "-wait-file=/b", "-wait-abort=/b.err", "-hold=1s"},
		},
		"a switch with a value":  {[]string{"-wait_file=/a", "-wait_file_content=false"}, []string{"-wait-file=/a", "-wait-abort=/a.err", "-hold=1s"}},
		"the last of a name":     {[]string{"-wait_file=/a", "-wait_file=/b"}, []string{"-wait-file=/b", "-wait-abort=/b.err", "-hold=1s"}},
		"a value that's a flag":  {[]string{"-stdout_path", "-wait_file", "-wait_file", "/a"}, []string{"-wait-file=/a", "-wait-abort=/a.err", "-hold=1s"}},
		"a breakpoint":           {[]string{"-wait_file=/a", "-post_file=/b", "-breakpoint_on_failure"}, []string{"-wait-either=/a", "-hold=1s", "-start-failure-file=/b"}},
		"credentials":            {[]string{"-basic-git=s=https://x", "-wait_file=/a", "-post_file=/b"}, []string{"-wait-unless-shared=HOME", "-wait-file=/a", "-wait-abort=/a.err", "-hold=1s", "-post-file=/b"}},
		"nothing to wait for":    {[]string{"-post_file", "/b"}, []string{"-post-file=/b"}},
		"a flag we don't know":   {[]string{"-wait_file", "/a", "-new", "x"}, nil},
		"a word among the flags": {[]string{"-wait_file", "/a", "init"}, nil},
		"a relative path":        {[]string{"-wait_file", "a"}, nil},
		"a variable":             {[]string{"-wait_file", "/$(A)"}, nil},
		"a switch that isn't":    {[]string{"-wait_file", "/a", "-wait_file_content=maybe"}, nil},
		"an empty path":          {[]string{"-wait_file", "/a,"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			p := stepOf(test.args...)
			result := inject(t, newInjector(nil), p)
			got := flagsOf(result)
			require.Equal(t, test.want, append([]string(nil), got...))
			step := result.Pod.Spec.Containers[0]
			require.Equal(t, slices.Concat(p.Spec.Containers[0].Command, p.Spec.Containers[0].Args), step.Args[len(got)+1:], "to the byte")
			require.Equal(t, pod.AlreadyInjected, inject(t, newInjector(nil), result.Pod).Outcome)
		})
	}
}

func TestAStepThatSeesTheCancellationWakesForIt(t *testing.T) {
	p := stepOf("-wait_file", "/tekton/run/0/out")
	p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "tekton-internal-downward", MountPath: "/tekton/downward"}}
	require.Equal(t, []string{"-wait-file=/tekton/run/0/out", "-wait-abort=/tekton/run/0/out.err", "-wait-abort-content=/tekton/downward/cancel", "-hold=1s"},
		flagsOf(inject(t, newInjector(nil), p)))
}

func TestTurnedOffTheHandOffIsTektons(t *testing.T) {
	args := []string{"-wait_file", "/a", "-post_file", "/b"}
	off := map[string]string{"hand-off": "false"}
	for name, prepare := range map[string]func(*pod.Injector, *corev1.Pod){
		"by the operator":      func(i *pod.Injector, _ *corev1.Pod) { i.Defaults = []pod.Defaults{{}, {Values: off}} },
		"by the namespace":     func(i *pod.Injector, _ *corev1.Pod) { i.Defaults = []pod.Defaults{{Values: off}} },
		"by the TaskRun":       func(_ *pod.Injector, p *corev1.Pod) { annotated(p, "entrypointer.dev/hand-off", "false") },
		"for one of its steps": func(_ *pod.Injector, p *corev1.Pod) { annotated(p, "hand-off.entrypointer.dev/step-a", "false") },
		"not by another default": func(i *pod.Injector, p *corev1.Pod) {
			i.Defaults = []pod.Defaults{{Values: map[string]string{"hand-off": "true"}}}
			annotated(p, "entrypointer.dev/hand-off", "false")
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, injector := stepOf(args...), newInjector(nil)
			prepare(injector, p)
			result := inject(t, injector, p)
			require.Equal(t, slices.Concat([]string{"--", "/tekton/bin/entrypoint"}, p.Spec.Containers[0].Args), result.Pod.Spec.Containers[0].Args)
		})
	}
}

func TestAReplacedSupervisorReportsOnlyThatTheCommandWasNotStarted(t *testing.T) {
	p := annotated(stepOf("-wait_file", "/a", "-post_file", "/b"), "entrypointer.dev/mode", "exec")
	require.Equal(t, []string{"-mode=exec", "-wait-file=/a", "-wait-abort=/a.err", "-start-failure-file=/b"}, flagsOf(inject(t, newInjector(nil), p)))
}

func TestTurnedOffTheEntrypointTellsOfItsOwnFailures(t *testing.T) {
	p := annotated(stepOf("-wait_file", "/a", "-post_file", "/b"), "entrypointer.dev/hand-off", "false", "entrypointer.dev/before-start", "./hook")
	require.Equal(t, "-start-failure-file=/b", flagsOf(inject(t, newInjector(nil), p))[0])
}

func TestOnlyTektonsStepsAreHandedOver(t *testing.T) {
	p := asking(running("a", "/tekton/bin/entrypoint", "-wait_file", "/a"))
	require.Empty(t, flagsOf(inject(t, newInjector(nil), p)))
	result := inject(t, newInjector(nil), annotated(p, "entrypointer.dev/hand-off", "true"))
	require.Len(t, result.Warnings, 1)
	require.Contains(t, result.Warnings[0].Message, "annotation entrypointer.dev/hand-off has no effect on a pod that asks by annotation")
}

// FuzzStep has any args of a step kept to the byte, and no flag of ours name a
// path that isn't among them.
func FuzzStep(f *testing.F) {
	for _, seed := range []string{
		"-wait_file\n/a\n-post_file\n/b", "--wait_file=/a,/b\n-wait_file_content", "-wait_file\n--\n/a", "-wait_file", "x\n-wait_file=/a", "-breakpoint_on_failure=t\n-post_file=/b", "", "-", "--",
	} {
		f.Add(seed)
	}
	injector := newInjector(nil)
	f.Fuzz(func(t *testing.T, lines string) {
		args := strings.Split(lines, "\n")
		p := stepOf()
		p.Spec.Containers[0].Args = args
		result := inject(t, injector, p)
		flags := flagsOf(result)
		require.Equal(t, append([]string{"--", "/tekton/bin/entrypoint"}, args...), result.Pod.Spec.Containers[0].Args[len(flags):])
		for _, flag := range flags {
			if _, path, _ := strings.Cut(flag, "="); flag != "-wait-unless-shared=HOME" && flag != "-hold=1s" {
				require.Contains(t, lines, strings.TrimSuffix(path, ".err"))
			}
		}
	})
}

// tektonWaits is what package flag makes of a step's args, with the flags that
// Tekton's entrypoint has (its cmd/entrypoint/main.go), false if it would
// refuse them or do something else than to run a step.
func tektonWaits(args []string) (waitFiles string, content bool, postFile string, breakpoint, credentials, ok bool) {
	flags := flag.NewFlagSet("entrypoint", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&waitFiles, "wait_file", "", "")
	flags.BoolVar(&content, "wait_file_content", false, "")
	flags.StringVar(&postFile, "post_file", "", "")
	flags.BoolVar(&breakpoint, "breakpoint_on_failure", false, "")
	flags.Duration("timeout", 0, "")
	for _, name := range []string{"debug_before_step", "enable_spire", "compress_termination_message"} {
		flags.Bool(name, false, "")
	}
	for _, name := range []string{"basic-git", "ssh-git", "basic-docker", "docker-config", "docker-cfg"} {
		flags.Func(name, "", func(string) error { credentials = true; return nil })
	}
	for _, name := range []string{
		"entrypoint", "termination_path", "results", "step_results", "when_expressions", "stdout_path", "stderr_path", "on_error",
		"step_metadata_dir", "result_from",
	} {
		flags.String(name, "", "")
	}
	if end := slices.Index(args, "--"); end > 0 {
		args = args[:end] // as Tekton does before it parses them (cmd/entrypoint/args.go)
	}
	err := flags.Parse(args)
	return waitFiles, content, postFile, breakpoint, credentials, err == nil && flags.NArg() == 0
}

// FuzzStepAsPackageFlag has us understand a step's args as the program does
// that is started with them, or not at all.
func FuzzStepAsPackageFlag(f *testing.F) {
	for _, seed := range []string{
		"-wait_file\n/a\n-post_file\n/b", "--wait_file=/a,/b\n-wait_file_content", "-wait_file\n--\n/a", "-wait_file", "x\n-wait_file=/a",
		"-breakpoint_on_failure=t\n-post_file=/b", "-breakpoint_on_failure\nfalse\n-post_file\n/b", "-stdout_path\n--\n-post_file\n/b", "--\n-post_file\n/b",
		"-timeout=x\n-wait_file=/a", "-enable_spire=maybe\n-wait_file=/a", "-wait_file_content=\n-wait_file=/a", "---post_file=/a", "-=\n-post_file=/a",
		"-post_file=/a\n-post_file=", "-help\n-post_file=/a", "-post_file=/a\n-", "-post_file=/a\n", "-on_error=-post_file\n-post_file=/a=b", "-wait_file=",
		"-basic-git=a=b\n-wait_file=/a", "-ssh-git\n-wait_file\n-wait_file=/a",
	} {
		f.Add(seed)
	}
	injector := newInjector(nil)
	f.Fuzz(func(t *testing.T, lines string) {
		args := strings.Split(lines, "\n")
		p := stepOf()
		p.Spec.Containers[0].Args = args
		got := flagsOf(inject(t, injector, p))
		if len(got) == 0 {
			return // Tekton waits, as ever
		}
		waitFiles, content, postFile, breakpoint, credentials, ok := tektonWaits(args)
		require.True(t, ok, "Tekton's entrypoint would refuse them")
		var want []string
		if waitFiles != "" {
			if credentials {
				want = append(want, "-wait-unless-shared=HOME")
			}
			for path := range strings.SplitSeq(waitFiles, ",") {
				switch {
				case content:
					want = append(want, "-wait-content="+path, "-wait-abort="+path+".err")
				case breakpoint:
					want = append(want, "-wait-either="+path)
				default:
					want = append(want, "-wait-file="+path, "-wait-abort="+path+".err")
				}
			}
			want = append(want, "-hold=1s")
		}
		if postFile != "" {
			want = append(want, map[bool]string{false: "-post-file=", true: "-start-failure-file="}[breakpoint]+postFile)
		}
		require.Equal(t, want, got)
	})
}

// TestAnOptionIsRefusedForAStepThatItDoesNotSuit, and left out there as a default.
func TestAnOptionIsRefusedForAStepThatItDoesNotSuit(t *testing.T) {
	twoSteps := func() *corev1.Pod {
		p := stepOf("-post_file", "/tekton/run/0/out")
		second := *p.Spec.Containers[0].DeepCopy()
		second.Name, second.Args = "step-b", []string{"-on_error", "continue", "-termination_path", "/tekton/termination", "-entrypoint", "true", "--"}
		p.Spec.Containers = append(p.Spec.Containers, second)
		return p
	}
	for _, test := range []struct{ option, value, unsuited, suited, why string }{
		{"timeout", "1s", "step-b", "step-a", "the step has onError: continue"},
		{"success-exit-codes", "3", "step-a", "step-b", "set onError: continue in the step, or name the last step (success-exit-codes.entrypointer.dev/NAME)"},
	} {
		for _, key := range []string{"entrypointer.dev/" + test.option, test.option + ".entrypointer.dev/" + test.unsuited} {
			_, err := newInjector(nil).Inject(t.Context(), "tenant", annotated(twoSteps(), key, test.value))
			requireRefused(t, err, pod.InvalidAnnotation, "reading annotation "+key, `container "`+test.unsuited+`"`, test.why)
		}
		inject(t, newInjector(nil), annotated(twoSteps(), test.option+".entrypointer.dev/"+test.suited, test.value))

		injector := newInjector(nil)
		injector.Defaults = []pod.Defaults{{Source: "operator", Values: map[string]string{test.option: test.value}}}
		flag := "-" + test.option + "=" + test.value
		for _, c := range inject(t, injector, twoSteps()).Pod.Spec.Containers {
			require.Equal(t, c.Name == test.suited, slices.Contains(c.Args, flag), c.Name)
		}
	}
}

func TestATimeoutIsAmongTheResultsOfAStep(t *testing.T) {
	p := annotated(stepOf("-termination_path", "/tekton/termination"), "entrypointer.dev/timeout", "1s")
	require.Contains(t, flagsOf(inject(t, newInjector(nil), p)), "-timeout-result=/tekton/termination")
	p = annotated(stepOf("-unknown"), "entrypointer.dev/timeout", "1s")
	require.NotContains(t, strings.Join(flagsOf(inject(t, newInjector(nil), p)), " "), "-timeout-result")
}
