// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/pkg/lookup"
	"github.com/entrypointer/entrypointer/pkg/pod"
)

func TestTheOriginalArgvFollowsTheDashes(t *testing.T) {
	huge := strings.Repeat("x", 130<<10) // beyond what Linux allows as one string; not ours to judge
	known := images{
		"both":       image([]string{"/entry", "-v"}, []string{"cmd", "arg"}),
		"cmd-only":   image(nil, []string{"sh"}),
		"entry-only": image([]string{"/entry"}, nil),
		"undone":     image([]string{""}, []string{"sh", "-c", ""}),
		"two-empty":  image([]string{"", ""}, []string{"sh"}),
		"empty-cmd":  image([]string{"/entry"}, []string{""}),
		"only-empty": image(nil, []string{""}),
		"dollars":    image([]string{"/bin/sh", "-c", "echo $HOME $(NAME) $$"}, []string{"$1"}),
	}
	for name, test := range map[string]struct {
		container corev1.Container
		want      []string
	}{
		"command alone drops CMD":                 {corev1.Container{Image: "both", Command: []string{"run"}}, []string{"run"}},
		"command and args":                        {corev1.Container{Image: "both", Command: []string{"run"}, Args: []string{"a", "b"}}, []string{"run", "a", "b"}},
		"a command needs no registry":             {corev1.Container{Image: "unknown", Command: []string{"run"}}, []string{"run"}},
		"args replace CMD":                        {corev1.Container{Image: "both", Args: []string{"a"}}, []string{"/entry", "-v", "a"}},
		"args alone, without ENTRYPOINT":          {corev1.Container{Image: "cmd-only", Args: []string{"ls"}}, []string{"ls"}},
		"nothing set":                             {corev1.Container{Image: "both"}, []string{"/entry", "-v", "cmd", "arg"}},
		"nothing set, CMD only":                   {corev1.Container{Image: "cmd-only"}, []string{"sh"}},
		"nothing set, ENTRYPOINT only":            {corev1.Container{Image: "entry-only"}, []string{"/entry"}},
		"empty lists count as unset":              {corev1.Container{Image: "both", Command: []string{}, Args: []string{}}, []string{"/entry", "-v", "cmd", "arg"}},
		"an empty string is an argument":          {corev1.Container{Image: "both", Command: []string{"run", ""}}, []string{"run", ""}},
		"an empty ENTRYPOINT is none":             {corev1.Container{Image: "undone"}, []string{"sh", "-c", ""}},
		"args instead of an empty ENTRYPOINT":     {corev1.Container{Image: "undone", Args: []string{"ls"}}, []string{"ls"}},
		"an ENTRYPOINT of two empty strings":      {corev1.Container{Image: "two-empty"}, []string{"", "", "sh"}},
		"an empty CMD is an argument":             {corev1.Container{Image: "empty-cmd"}, []string{"/entry", ""}},
		"an empty CMD alone":                      {corev1.Container{Image: "only-empty"}, []string{""}},
		"a command of one empty string":           {corev1.Container{Image: "both", Command: []string{""}, Args: []string{"a"}}, []string{"", "a"}},
		"dollars of the image are doubled":        {corev1.Container{Image: "dollars"}, []string{"/bin/sh", "-c", "echo $$HOME $$(NAME) $$$$", "$$1"}},
		"dollars of the author are not":           {corev1.Container{Image: "dollars", Command: []string{"echo"}, Args: []string{"$(NAME)", "$$", "$HOME"}}, []string{"echo", "$(NAME)", "$$", "$HOME"}},
		"dollars of both, each by its rule":       {corev1.Container{Image: "dollars", Args: []string{"$(NAME)"}}, []string{"/bin/sh", "-c", "echo $$HOME $$(NAME) $$$$", "$(NAME)"}},
		"dashes and flags of the author's":        {corev1.Container{Image: "both", Command: []string{"--", "-mode", "exec", "--"}}, []string{"--", "-mode", "exec", "--"}},
		"newlines, unicode and a very large word": {corev1.Container{Image: "both", Command: []string{"a\nb", "ü🚀", huge}}, []string{"a\nb", "ü🚀", huge}},
	} {
		t.Run(name, func(t *testing.T) {
			test.container.Name = "c"
			wrapped := inject(t, newInjector(known), asking(test.container)).Pod.Spec.Containers[0]
			require.Equal(t, []string{pod.EntrypointPath}, wrapped.Command)
			require.Equal(t, test.want, behindDashes(t, wrapped.Args))
			if len(test.container.Command) > 0 {
				require.Equal(t, "--", wrapped.Args[0])
			}
		})
	}
}

func TestAnImageThatWasLookedUpIsPinned(t *testing.T) {
	known := images{"app": image(nil, []string{"app"})}
	wrapped := inject(t, newInjector(known), asking(
		corev1.Container{Name: "looked-up", Image: "app"},
		corev1.Container{Name: "explicit", Image: "app", Command: []string{"app"}},
	)).Pod
	require.Contains(t, wrapped.Spec.Containers[0].Image, "app@sha256:")
	require.Equal(t, []string{"-image-words=1:" + wrapped.Spec.Containers[0].Image, "--", "app"}, wrapped.Spec.Containers[0].Args)
	require.Equal(t, "app", wrapped.Spec.Containers[1].Image, "nothing was read, so nothing has to be pinned")
}

func TestAnImageThatIsNeverPulledIsNotPinned(t *testing.T) {
	read := image(nil, []string{"app"})
	read.Digest = "sha256:2222222222222222222222222222222222222222222222222222222222222222"
	p := asking(corev1.Container{Name: "a", Image: "loaded", ImagePullPolicy: corev1.PullNever})

	result := inject(t, newInjector(images{"loaded": read}), p)
	require.Equal(t, "loaded", result.Pod.Spec.Containers[0].Image, "the node needn't know the digest")
	require.Equal(t, []string{"-image-words=1:loaded", "--", "app"}, result.Pod.Spec.Containers[0].Args)
	require.Len(t, result.Warnings, 1)
	require.Equal(t, pod.ReasonImageNotPinned, result.Warnings[0].Reason)
	require.Contains(t, result.Warnings[0].Message, `container "a" runs the command line that the registry has for image "loaded"`)

	configured := image(nil, []string{"app"})
	require.Empty(t, inject(t, newInjector(images{"loaded": configured}), p).Warnings, "the operator says what is on the nodes")
	for _, policy := range []corev1.PullPolicy{"", corev1.PullIfNotPresent, corev1.PullAlways} {
		p.Spec.Containers[0].ImagePullPolicy = policy
		result := inject(t, newInjector(images{"loaded": read}), p)
		require.Equal(t, "loaded@"+read.Digest, result.Pod.Spec.Containers[0].Image)
		require.Empty(t, result.Warnings)
	}
}

func TestPlatformsThatDisagreeAllGoAlong(t *testing.T) {
	known := images{"app": lookup.Image{Configs: []lookup.Config{
		{Platform: "linux/amd64", Entrypoint: []string{"/amd64", "--", "<$HOME>"}},
		{Platform: "linux/arm64/v8", Entrypoint: []string{"/arm64"}},
	}}}
	wrapped := inject(t, newInjector(known), asking(corev1.Container{Name: "c", Image: "app", Args: []string{"x"}})).Pod
	require.Equal(t, []string{
		"-image-words=0:" + wrapped.Spec.Containers[0].Image,
		"-platform=linux/amd64", "-arg=/amd64", "-arg=--", "-arg=<$$HOME>",
		"-platform=linux/arm64/v8", "-arg=/arm64",
		"--", "x",
	}, wrapped.Spec.Containers[0].Args)
}

func TestAnEmptyEntrypointOfOnePlatformIsNone(t *testing.T) {
	known := images{"app": lookup.Image{Configs: []lookup.Config{
		{Platform: "linux/amd64", Entrypoint: []string{"/app"}},
		{Platform: "linux/arm64", Entrypoint: []string{""}},
	}}}
	wrapped := inject(t, newInjector(known), asking(corev1.Container{Name: "c", Image: "app", Args: []string{"x"}})).Pod
	require.Equal(t, []string{"-platform=linux/amd64", "-arg=/app", "-platform=linux/arm64", "--", "x"}, wrapped.Spec.Containers[0].Args[1:])
}

func TestPlatformsThatAgreeAreOne(t *testing.T) {
	known := images{"app": lookup.Image{Configs: []lookup.Config{
		{Platform: "linux/amd64", Entrypoint: []string{"/app"}, Cmd: []string{"amd64"}},
		{Platform: "linux/arm64", Entrypoint: []string{"/app"}, Cmd: []string{"arm64"}},
	}}}
	wrapped := inject(t, newInjector(known), asking(corev1.Container{Name: "c", Image: "app", Args: []string{"x"}})).Pod
	require.Equal(t, []string{"--", "/app", "x"}, wrapped.Spec.Containers[0].Args[1:],
		"they differ in CMD only, which args replace")
}

func TestAnImageThatSaysNothingIsRefused(t *testing.T) {
	for _, nothing := range []lookup.Image{image(nil, nil), image([]string{""}, nil), image([]string{}, []string{})} {
		_, err := newInjector(images{"scratch": nothing}).Inject(t.Context(), "tenant", asking(corev1.Container{Name: "c", Image: "scratch"}))
		requireRefused(t, err, pod.NoCommand, `image "scratch" has neither ENTRYPOINT nor CMD`, "set command:")
	}
}
