// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/pkg/lookup"
	"github.com/entrypointer/entrypointer/pkg/pod"
)

// asked remembers what it is asked, and answers that there is nothing.
type asked struct{ queries []lookup.Query }

func (a *asked) Lookup(ctx context.Context, query lookup.Query) (*lookup.Image, error) {
	a.queries = append(a.queries, query)
	return images{}.Lookup(ctx, query)
}

const mebibyte = 1 << 20

func TestALookupIsToldOfNoMorePullSecretsThanItTries(t *testing.T) {
	p := asking(corev1.Container{Name: "a", Image: "app"})
	p.Spec.ServiceAccountName = strings.Repeat("s", 253)
	p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: strings.Repeat("x", mebibyte)}}
	for i := range 40_000 {
		p.Spec.ImagePullSecrets = append(p.Spec.ImagePullSecrets, corev1.LocalObjectReference{Name: fmt.Sprint("secret-", i)})
	}
	registry := &asked{}
	_, err := (&pod.Injector{CopierImage: copierImage, Lookup: registry}).Inject(t.Context(), "tenant", p)
	requireRefused(t, err, pod.LookupFailed)
	require.Len(t, registry.queries, 1)
	require.Len(t, registry.queries[0].PullSecrets, 32)
	require.Equal(t, "secret-0", registry.queries[0].PullSecrets[0], "no object has a longer name than 253 characters")
	require.Equal(t, p.Spec.ServiceAccountName, registry.queries[0].ServiceAccount)
}

func TestImpossibleReferencesAreNotLookedUp(t *testing.T) {
	longest := strings.Repeat("h", 253) + ":65535/" + strings.Repeat("r", 255) + ":" + strings.Repeat("t", 128) + "@sha512:" + strings.Repeat("0", 128)
	for name, test := range map[string]struct {
		pod    *corev1.Pod
		reason lookup.Reason
	}{
		"the longest reference": {asking(corev1.Container{Name: "a", Image: longest}), lookup.NotFound},
		"a longer one":          {asking(corev1.Container{Name: "a", Image: strings.Repeat("x", 1025)}), lookup.InvalidReference},
		"one of two mebibytes":  {asking(corev1.Container{Name: "a", Image: strings.Repeat("x", 2*mebibyte)}), lookup.InvalidReference},
		"a service account": {func() *corev1.Pod {
			p := asking(corev1.Container{Name: "a", Image: "app"})
			p.Spec.ServiceAccountName = strings.Repeat("x", 2*mebibyte)
			return p
		}(), lookup.CredentialsError},
	} {
		t.Run(name, func(t *testing.T) {
			registry := &asked{}
			injector := &pod.Injector{CopierImage: copierImage, Lookup: registry}
			_, err := injector.Inject(t.Context(), "tenant", test.pod)
			requireRefused(t, err, pod.LookupFailed, string(test.reason))
			require.Less(t, len(err.Error()), 2048)
			require.Equal(t, test.reason == lookup.NotFound, len(registry.queries) == 1)

			injector.Policy.WaiveFailedLookups = true
			require.Equal(t, pod.LookupWaived, inject(t, injector, test.pod).Outcome)
		})
	}
}

// Warnings, refusals and the status go into logs, events and answers.
func TestQuotesOfAPodAreShort(t *testing.T) {
	huge := strings.Repeat("ü", mebibyte)
	of := func(change func(*corev1.Pod)) *corev1.Pod {
		p := asking(running("a", "x"))
		change(p)
		return p
	}
	for name, p := range map[string]*corev1.Pod{
		"a value":             of(func(p *corev1.Pod) { annotated(p, "entrypointer.dev/timeout", huge) }),
		"another value":       of(func(p *corev1.Pod) { annotated(p, pod.InjectAnnotation, huge) }),
		"a key":               of(func(p *corev1.Pod) { annotated(p, "entrypointer.dev/"+huge, "x") }),
		"a container's key":   of(func(p *corev1.Pod) { annotated(p, "timeout.entrypointer.dev/"+huge, "1h") }),
		"a container":         of(func(p *corev1.Pod) { annotated(p, pod.ContainersAnnotation, huge) }),
		"names of containers": of(func(p *corev1.Pod) { p.Spec.Containers[0].Name = huge; annotated(p, pod.ContainersAnnotation, "b") }),
		"a container without a command": of(func(p *corev1.Pod) {
			p.Spec.Containers[0] = corev1.Container{Name: huge, Image: huge}
		}),
		"a volume": of(func(p *corev1.Pod) {
			p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: huge, MountPath: pod.MountPath + "/" + huge}}
		}),
		"a message": of(func(p *corev1.Pod) { p.Spec.Containers[0].TerminationMessagePath = pod.MountPath + "/" + huge }),
		"an init container": of(func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: pod.InitContainerName, Image: huge}}
		}),
		"a pod that is none": of(func(p *corev1.Pod) { p.Annotations = map[string]string{"entrypointer.dev/" + huge: huge} }),
		"many keys": of(func(p *corev1.Pod) {
			for i := range 40_000 {
				annotated(p, fmt.Sprint("entrypointer.dev/k", i), "x")
			}
		}),
		"many containers": of(func(p *corev1.Pod) {
			for i := range 1000 {
				p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: fmt.Sprint("c", i), Image: huge})
			}
		}),
		"many names": of(func(p *corev1.Pod) {
			for i := range 1000 {
				p.Spec.Containers = append(p.Spec.Containers, running(fmt.Sprint("c", i), "x"))
			}
			annotated(p, pod.ContainersAnnotation, "b")
		}),
	} {
		t.Run(name, func(t *testing.T) {
			injector := newInjector(nil)
			injector.Policy.WaiveFailedLookups = true
			result, err := injector.Inject(t.Context(), "tenant", p)
			if err != nil {
				var refusal *pod.Refusal
				require.ErrorAs(t, err, &refusal)
				require.Less(t, len(err.Error()), 4096)
				require.True(t, utf8.ValidString(err.Error()))
				return
			}
			require.LessOrEqual(t, len(result.Warnings), 17)
			require.Less(t, len(strings.Join(pod.Messages(result.Warnings), "")), 20_000)
			require.Less(t, len(result.Pod.Annotations[pod.StatusAnnotation]), 4096)
		})
	}
}

func TestOmittedWarningsAreCounted(t *testing.T) {
	annotations := map[string]string{}
	for i := range 20 {
		annotations[fmt.Sprint("entrypointer.dev/k", i)] = "x"
	}
	p := asking(running("a", "x"))
	for key, value := range annotations {
		annotated(p, key, value)
	}
	for _, warnings := range [][]pod.Warning{inject(t, newInjector(nil), p).Warnings, pod.IgnoredOnNamespace(annotations)} {
		require.Len(t, warnings, 17)
		require.Equal(t, pod.Warning{Reason: pod.ReasonWarningsOmitted, Message: "4 more warnings are omitted"}, warnings[16])
	}
}

// A value of each container's would make a pod of gigabytes of a request of a
// few mebibytes.
func TestOptionsMakeNoPodThatNoAPIServerStores(t *testing.T) {
	many := func() *corev1.Pod {
		var containers []corev1.Container
		for i := range 20_000 {
			containers = append(containers, running(fmt.Sprint("c", i), "x"))
		}
		return asking(containers...)
	}
	for option, value := range map[string]string{
		"before-start": strings.Repeat("$", 60_000),
		"unset-env":    strings.Repeat("a,", 60_000),
		"env":          "A=1" + strings.Repeat("\n", 120_000),
	} {
		_, err := newInjector(nil).Inject(t.Context(), "tenant", annotated(many(), "entrypointer.dev/"+option, value))
		requireRefused(t, err, pod.InvalidAnnotation, "entrypointer.dev/"+option, "which no API server stores; shorten them")
	}

	verbose := images{"app": image([]string{"/app", strings.Repeat("x", mebibyte)}, nil)}
	p := many()
	for i := range p.Spec.Containers {
		p.Spec.Containers[i] = corev1.Container{Name: p.Spec.Containers[i].Name, Image: "app"}
	}
	_, err := newInjector(verbose).Inject(t.Context(), "tenant", p)
	requireRefused(t, err, pod.NoCommand, "set command:")
}
