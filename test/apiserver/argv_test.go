// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/third_party/forked/golang/expansion"

	"github.com/entrypointer/entrypointer/pkg/lookup"
	"github.com/entrypointer/entrypointer/pkg/pod"
)

// Whatever the author and the image say, the supervised process gets the argv
// that the container's own process would have got: each token after the
// kubelet's own expansion, and none more or less.
//
// Lists are written as one string, their elements separated by NUL, which no
// argument can contain.
func FuzzArgv(f *testing.F) {
	for _, seed := range [][4]string{
		{"", "", "/entry\x00-v", "cmd\x00arg"},
		{"", "a\x00b", "/entry", "cmd"},
		{"run", "", "/entry", "cmd"},
		{"run\x00$(NAME)", "$$(NAME)\x00$\x00$$$(NAME)", "/entry", "cmd"},
		{"", "$(NAME)", "/bin/sh\x00-c\x00echo $HOME $(NAME) $$ $$(NAME) $(", "$1"},
		{"", "$(NAME", "$", "$$\x00$(NAME)\x00$(MISSING)"},
		{"", "", "", "sh"},
		{"", "x", "", "sh"},
		{"", "", "", ""},
		{"--\x00-mode=exec", "--\x00--", "--\x00-arg=x", "-platform=x"},
		{"a\nb\x00ü🚀", "\x00", "--\x00\x00", "\n"},
		{strings.Repeat("x", 130<<10), "", "", ""},
	} {
		f.Add(seed[0], seed[1], seed[2], seed[3], "value of $(NAME) $$")
	}
	f.Fuzz(func(t *testing.T, command, args, entrypoint, cmd, value string) {
		c := corev1.Container{Name: "c", Image: "app", Command: list(command), Args: list(args)}
		configs := []lookup.Config{{Platform: "linux/amd64", Entrypoint: list(entrypoint), Cmd: list(cmd)}}
		env := map[string]string{"NAME": value, "HOME": "/root"}
		requireSameArgv(t, c, configs, env)

		// The same of an index, whose other image says the opposite.
		configs = append(configs, lookup.Config{Platform: "linux/arm64/v8", Entrypoint: list(cmd), Cmd: list(entrypoint)})
		requireSameArgv(t, c, configs, env)
	})
}

// One empty string can't be written as a list of the fuzz target's.
func TestOneEmptyStringMeansWhatItMeansUnwrapped(t *testing.T) {
	lists := [][]string{nil, {""}, {"", ""}, {"x"}}
	for _, entrypoint := range lists {
		for _, cmd := range lists {
			for _, command := range lists {
				for _, args := range lists {
					c := corev1.Container{Name: "c", Image: "app", Command: command, Args: args}
					requireSameArgv(t, c, []lookup.Config{{Platform: "linux/amd64", Entrypoint: entrypoint, Cmd: cmd}}, nil)
				}
			}
		}
	}
}

func requireSameArgv(t *testing.T, c corev1.Container, configs []lookup.Config, env map[string]string) {
	t.Helper()
	result, err := newWebhook(lookup.Image{Configs: configs}).Inject(t.Context(), "tenant", &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{pod.InjectAnnotation: "true"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{c}},
	})
	nothing := slices.ContainsFunc(configs, func(config lookup.Config) bool { return len(plainArgv(c, config, env)) == 0 })
	if nothing {
		var refusal *pod.Refusal
		require.ErrorAs(t, err, &refusal)
		require.Equal(t, pod.NoCommand, refusal.Outcome)
		return
	}
	require.NoError(t, err)
	for _, config := range configs {
		require.Equal(t, plainArgv(c, config, env), supervisedArgv(t, result.Pod.Spec.Containers[0], config.Platform, env))
	}
}

// plainArgv is what a container runtime starts without us: the kubelet expands
// what the pod says, and the runtime adds what the pod leaves to the image
// (containerd's internal/cri/opts WithProcessArgs).
func plainArgv(c corev1.Container, image lookup.Config, env map[string]string) []string {
	command, args := expanded(c, env)
	if len(command) == 0 {
		if len(args) == 0 {
			args = image.Cmd
		}
		if !slices.Equal(image.Entrypoint, []string{""}) {
			command = image.Entrypoint
		}
	}
	return slices.Concat(command, args)
}

// expanded does what the kubelet does (its ExpandContainerCommandAndArgs), with its own algorithm.
func expanded(c corev1.Container, env map[string]string) (command, args []string) {
	mapping := expansion.MappingFuncFor(env)
	for _, token := range c.Command {
		command = append(command, expansion.Expand(token, mapping))
	}
	for _, token := range c.Args {
		args = append(args, expansion.Expand(token, mapping))
	}
	return command, args
}

// supervisedArgv is what the supervisor starts: what its flags say of the
// platform that it runs on, and what is behind the dashes.
func supervisedArgv(t *testing.T, c corev1.Container, platform string, env map[string]string) []string {
	t.Helper()
	command, args := expanded(c, env)
	require.Equal(t, []string{pod.EntrypointPath}, command)
	dashes := slices.Index(args, "--")
	require.GreaterOrEqual(t, dashes, 0)

	var argv []string
	chosen := false
	for _, flag := range args[:dashes] {
		name, value, ok := strings.Cut(flag, "=")
		require.True(t, ok, flag)
		switch name {
		case "-platform":
			chosen = value == platform
		case "-arg":
			if chosen {
				argv = append(argv, value)
			}
		case "-image-words": // has no effect
		default:
			require.Fail(t, "a flag that nobody asked for", flag)
		}
	}
	return slices.Concat(argv, args[dashes+1:])
}

func list(joined string) []string {
	if joined == "" {
		return nil
	}
	return strings.Split(strings.ToValidUTF8(joined, "?"), "\x00")
}
