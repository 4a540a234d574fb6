// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/pkg/lookup"
	"github.com/entrypointer/entrypointer/pkg/pod"
)

// A release is an injector and what else the pods that it wraps look like.
type release struct {
	name     string
	injector *pod.Injector
	flags    []string // before those that carry the argv
}

// inject has the release wrap a pod. Its own flags are put in the place of those that we
// know, and its init container has no mount in the place of a token.
func (r release) inject(t *testing.T, p *corev1.Pod) *corev1.Pod {
	t.Helper()
	wrapped := inject(t, r.injector, p).Pod
	for i, c := range wrapped.Spec.InitContainers {
		if r.flags != nil {
			wrapped.Spec.InitContainers[i].VolumeMounts = slices.DeleteFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == accountPath })
		}
	}
	for i, c := range wrapped.Spec.Containers {
		if slices.Equal(c.Command, []string{pod.EntrypointPath}) && r.flags != nil {
			kept := slices.DeleteFunc(slices.Clone(flagsOfContainer(c)), func(flag string) bool {
				return !strings.HasPrefix(flag, "-platform=") && !strings.HasPrefix(flag, "-arg=") && !strings.HasPrefix(flag, "-image-words=")
			})
			wrapped.Spec.Containers[i].Args = slices.Concat(r.flags, kept, c.Args[slices.Index(c.Args, "--"):])
		}
	}
	return wrapped
}

func flagsOfContainer(c corev1.Container) []string { return c.Args[:slices.Index(c.Args, "--")] }

// releases are some that may answer beside each other, or one after the other.
func releases() (all []release) {
	known := images{
		"app": image([]string{"/app", "--"}, []string{"--", "$(NAME)"}),
		"differs": lookup.Image{Configs: []lookup.Config{
			{Platform: "linux/amd64", Entrypoint: []string{"/amd64", "--", "-arg=--"}},
			{Platform: "linux/arm64", Cmd: []string{"--"}},
		}},
	}
	for _, digest := range []string{"1", "5"} {
		for _, delivery := range []pod.Delivery{pod.DeliveryInitContainer, pod.DeliveryImageVolume} {
			for _, flags := range [][]string{nil, {"-from-the-future=1"}, {"-from-the-future=--", "-mode=exec", "-platforms=x", "-argument=x", "-x="}} {
				all = append(all, release{
					fmt.Sprintf("%s/%s/%d flags", digest, delivery, len(flags)),
					&pod.Injector{
						CopierImage:     "copier@sha256:" + strings.Repeat(digest, 64),
						EntrypointImage: "entrypoint@sha256:" + strings.Repeat(digest, 64),
						Lookup:          known, Policy: pod.Policy{Delivery: delivery},
					},
					flags,
				})
			}
		}
	}
	return all
}

func TestWhicheverReleaseComesLastAPodIsAsItMakesIt(t *testing.T) {
	for name, sent := range map[string]*corev1.Pod{
		"a pod that asks": asking(
			running("a", "x", "--", "-arg=y"), corev1.Container{Name: "b", Image: "app"}, corev1.Container{Name: "c", Image: "differs", Args: []string{"--"}},
		),
		"a TaskRun's": stepOf("-wait_file", "/tekton/run/0/out", "-post_file", "/tekton/run/1/out"),
		"with an init container and a timeout": func() *corev1.Pod {
			p := annotated(asking(running("a", "x"), running("istio-proxy", "y")), "entrypointer.dev/timeout", "1h")
			p.Spec.InitContainers = []corev1.Container{running("theirs", "x")}
			p.Spec.Volumes = []corev1.Volume{{Name: "theirs"}}
			return p
		}(),
	} {
		for _, first := range releases() {
			before := first.inject(t, sent)
			for _, last := range releases() {
				last.flags = nil // it is this one
				story := fmt.Sprintf("%s, %s, then %s", name, first.name, last.name)
				want := last.inject(t, sent)
				result := inject(t, last.injector, before)
				require.Empty(t, result.Wrapped, story)
				requireSamePod(t, &corev1.Pod{Spec: want.Spec}, &corev1.Pod{Spec: result.Pod.Spec}, story)
				requireSamePod(t, result.Pod, patched(t, before, result.Pod), story)
				again := inject(t, last.injector, result.Pod)
				require.Equal(t, pod.AlreadyInjected, again.Outcome, story)
				require.Empty(t, pod.Patch(result.Pod, again.Pod), story)
			}
		}
	}
}

// Whatever the words of an argv and the flags of a release: the argv stays, and
// the flags go.
func FuzzFlagsOfAnotherReleaseGo(f *testing.F) {
	f.Add("timeout", "1h", "--", "-arg=--")
	f.Add("arg", "--", "-platform=x", "")
	f.Add("a-flag", "--", "--", "--")
	f.Add("", "x\x00", "-", "\n--")
	f.Fuzz(func(t *testing.T, name, value, imageWord, word string) {
		if name == "image-words" {
			t.Skip("another test forges it")
		}
		known := images{"differs": lookup.Image{Configs: []lookup.Config{
			{Platform: "linux/amd64", Entrypoint: []string{"/a", imageWord}}, {Platform: "linux/arm64", Entrypoint: []string{imageWord, "/b"}},
		}}}
		sent := asking(running("a", "x", word), corev1.Container{Name: "b", Image: "differs", Args: []string{word}})
		wrapped := inject(t, newInjector(known), sent).Pod
		forged := wrapped.DeepCopy()
		flag := "-" + name + "=" + value
		for i, c := range forged.Spec.Containers {
			forged.Spec.Containers[i].Args = slices.Insert(c.Args, i, flag) // b has its -image-words first
		}
		result := inject(t, newInjector(known), forged)
		ours := name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == "" && name[0] >= 'a'
		for i, c := range result.Pod.Spec.Containers {
			switch {
			case name == "platform" || name == "arg":
				require.Equal(t, forged.Spec.Containers[i].Args, c.Args)
			case ours:
				require.Equal(t, wrapped.Spec.Containers[i].Args, c.Args)
			default: // nobody knows what that was meant to be, so it runs as it would have
				require.Equal(t, slices.Concat([]string{"--", pod.EntrypointPath}, forged.Spec.Containers[i].Args), c.Args)
			}
		}
	})
}
