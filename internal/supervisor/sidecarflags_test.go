// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/internal/order"
	"github.com/entrypointer/entrypointer/pkg/conditions"
	"github.com/entrypointer/entrypointer/pkg/pod"
)

func targetOf(url string) order.Target {
	t, ok := order.ParseTarget(url)
	if !ok {
		panic(url)
	}
	return t
}

// FuzzTheSupervisorAcceptsAdmittedURLs checks that admission refuses all targets and
// sidecars that the supervisor would refuse, and that the supervisor gets the URLs
// unchanged.
func FuzzTheSupervisorAcceptsAdmittedURLs(f *testing.F) {
	for _, seed := range [][2]string{
		{"tcp://:1", "istio, linkerd vault,cloud-sql-proxy"},
		{"file:///$(A)/$x", "http://[::1]:9091/quit?a=$b"},
		{"http://127.0.0.1:080/a%20b?c=%zz, tcp://[::ffff:1.2.3.4]:1", "none"},
		{"http://:80?x", "http://:80/#x"},
		{"file:///a\x7f", "http://:1/\x7f"},
		{"tcp://[fe80::1%25eth0]:1", "http://1.2.3.4:65536/"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, waitFor, endSidecars string) {
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "p", Annotations: asksToBeWrapped("wait-for.entrypointer.dev/web", waitFor, "entrypointer.dev/end-sidecars", endSidecars)},
			Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{
				{Name: "web", Image: "busybox", Command: []string{"x"}}, {Name: "other", Image: "busybox", Command: []string{"x"}}, {Name: "istio-proxy", Image: "busybox"},
			}},
		}
		result, err := (&pod.Injector{CopierImage: "copier"}).Inject(t.Context(), "tenant", p)
		if err != nil {
			var refusal *pod.Refusal
			require.ErrorAs(t, err, &refusal)
			return
		}
		var args []string
		for _, arg := range result.Pod.Spec.Containers[0].Args {
			args = append(args, strings.ReplaceAll(arg, "$$", "$")) // as the kubelet does
		}
		opts, err := parse(args)
		require.NoError(t, err)
		require.NotEmpty(t, opts.startOrder.WaitFor)
		if strings.TrimSpace(strings.Trim(endSidecars, ", \n")) != "none" {
			require.NotEmpty(t, opts.sidecars.Targets)
			require.Equal(t, ends("0-255").Codes, opts.sidecars.On)
			require.Equal(t, []order.Dependency{{Condition: conditions.Exited, Dir: "/entrypointer/order/other", Final: ends("0-255")}}, opts.sidecars.When)
		}
	})
}
