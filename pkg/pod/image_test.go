// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/pkg/lookup"
	"github.com/entrypointer/entrypointer/pkg/pod"
)

// stoppedBy is an image with a stop signal for each platform.
func stoppedBy(signals ...string) lookup.Image {
	var all lookup.Image
	for _, signal := range signals {
		all.Configs = append(all.Configs, lookup.Config{Platform: "linux/amd64", Entrypoint: []string{"/app"}, StopSignal: signal})
	}
	return all
}

// b waits for c, and a helps.
func TestAContainerWaitsForTheStopSignalOfItsImage(t *testing.T) {
	known := images{"busybox": stoppedBy(""), "nginx": stoppedBy("SIGQUIT", "SIGQUIT"), "kill": stoppedBy("SIGKILL"), "term": stoppedBy("SIGTERM"), "differs": stoppedBy("SIGQUIT", "SIGINT")}
	const held = "-stop-after=@b -stop-share=15s"
	for name, test := range map[string]struct {
		change func(*corev1.Container)
		want   string
		warns  string
	}{
		"of its image":                         {func(c *corev1.Container) { c.Image = "nginx" }, held + " -stop-signal=SIGQUIT", ""},
		"also where only that knows what runs": {func(c *corev1.Container) { c.Image, c.Command = "nginx", nil }, held + " -stop-signal=SIGQUIT", ""},
		"the usual one needs no words":         {func(c *corev1.Container) { c.Image = "term" }, held, ""},
		"a signal that can't be held back":     {func(c *corev1.Container) { c.Image = "kill" }, held, ""},
		"of its spec":                          {func(c *corev1.Container) { c.Lifecycle = &corev1.Lifecycle{StopSignal: new(corev1.SIGUSR1)} }, held + " -stop-signal=SIGUSR1", ""},
		"of its spec, by the number":           {func(c *corev1.Container) { c.Lifecycle = &corev1.Lifecycle{StopSignal: new(corev1.SIGRTMAX)} }, held + " -stop-signal=SIGRTMIN+30", ""},
		"of its spec rather than its image": {func(c *corev1.Container) {
			c.Image = "nginx"
			c.Lifecycle = &corev1.Lifecycle{StopSignal: new(corev1.SIGTERM)}
		}, held, ""},
		"the image has no registry":              {func(c *corev1.Container) { c.Image = "gone" }, held, `the stop signal of image "gone" can't be looked up (NotFound), so SIGTERM is assumed`},
		"the image has several, by its platform": {func(c *corev1.Container) { c.Image = "differs" }, held, `the platforms of image "differs" have different stop signals`},
	} {
		t.Run(name, func(t *testing.T) {
			p := graceful(dependsOn(abc(), "b", "c:started"), 30)
			test.change(&p.Spec.Containers[2])
			stated := p.Spec.Containers[2].Image
			result := inject(t, newInjector(known), p)
			require.Equal(t, test.want, stopFlags(result.Pod)[2])
			if test.warns == "" {
				require.Empty(t, result.Warnings)
			} else {
				require.Len(t, result.Warnings, 1)
				require.Equal(t, pod.ReasonStopSignalUnknown, result.Warnings[0].Reason)
				require.Contains(t, result.Warnings[0].Message, test.warns)
				require.NotContains(t, result.Warnings[0].Message, "set command:", "it is set")
			}
			if len(p.Spec.Containers[2].Command) > 0 {
				require.Equal(t, stated, result.Pod.Spec.Containers[2].Image, "what runs is known, so nothing is pinned")
			}
			// The API server asks again, while the registry is down.
			again := inject(t, newInjector(nil), result.Pod)
			require.Equal(t, pod.AlreadyInjected, again.Outcome)
			require.Equal(t, result.Pod, again.Pod)
			require.Empty(t, again.Warnings)
		})
	}
}

// Who depends on another one has to tell it when it is being stopped.
func TestAContainerThatIsStoppedFirstKnowsItsStopSignalToo(t *testing.T) {
	p := graceful(dependsOn(abc(), "b", "c:started"), 30)
	p.Spec.Containers[1].Image = "nginx"
	wrapped := inject(t, newInjector(images{"nginx": stoppedBy("SIGQUIT"), "busybox": stoppedBy("")}), p).Pod
	require.Equal(t, []string{"", "-stop-signal=SIGQUIT", "-stop-after=@b -stop-share=15s"}, stopFlags(wrapped))
}

func TestAHelperIsStoppedByTheSignalOfItsImage(t *testing.T) {
	p := stopWhen(abc(), "a", "b:exited")
	p.Spec.Containers[0].Image = "nginx"
	wrapped := inject(t, newInjector(images{"nginx": stoppedBy("SIGRTMIN+3")}), p).Pod
	require.Equal(t, []string{"-stop-when=exited:@b -stop-signal=SIGRTMIN+3", "", ""}, stopFlags(wrapped))
}

type lookups func(context.Context, lookup.Query) (*lookup.Image, error)

func (l lookups) Lookup(ctx context.Context, q lookup.Query) (*lookup.Image, error) { return l(ctx, q) }

// Only stop signals that matter are looked up, and a pod waits for a silent registry once,
// instead of once for each container.
func TestStopSignalsCostLittle(t *testing.T) {
	var asked []string
	injector := newInjector(nil)
	injector.Lookup = lookups(func(ctx context.Context, q lookup.Query) (*lookup.Image, error) {
		asked = append(asked, q.Image)
		deadline, bounded := ctx.Deadline()
		require.True(t, bounded)
		require.False(t, deadline.IsZero())
		<-ctx.Done()
		return nil, &lookup.Error{Query: q, Reason: lookup.Timeout, Err: ctx.Err()}
	})
	for _, p := range []*corev1.Pod{abc(), chain(), stopWhen(abc(), "a", "nobody:exited?")} {
		inject(t, injector, p)
	}
	require.Empty(t, asked)
	p := graceful(chain(), 30)
	for at, image := range []string{"one", "two", "three"} {
		p.Spec.Containers[at].Image = image
	}
	result := inject(t, injector, p)
	require.Equal(t, []string{"one"}, asked, "time is up for the others")
	about := slices.DeleteFunc(result.Warnings, func(w pod.Warning) bool { return !strings.Contains(w.Message, "can't be looked up (Timeout)") })
	require.Len(t, about, 3)
}
