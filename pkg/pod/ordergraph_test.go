// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

func TestTheStatusHasTheGraphInShort(t *testing.T) {
	for name, test := range map[string]struct {
		containers int
		waits      map[string]string
		want       string
	}{
		"a line":       {3, map[string]string{"c2": "c1:started", "c1": "c0:started"}, "; order: c0 -> c1 -> c2"},
		"a diamond":    {4, map[string]string{"c3": "c1:started, c2:started", "c1": "c0:started", "c2": "c0:started"}, "; order: c0 -> c1, c2 -> c3"},
		"two lines":    {5, map[string]string{"c1": "c0:started", "c3": "c2:started"}, "; order: c0, c2 -> c1, c3"},
		"none":         {2, nil, ""},
		"many at once": {30, map[string]string{"c0": many(1, 30)}, "; order: c1, c2, c3, c4, c5, c6, c7, c8, c9, c10, c11, c12, c13, c14, c15, c16, and 14 more"},
	} {
		t.Run(name, func(t *testing.T) {
			result := inject(t, newInjector(nil), ofMany(test.containers, test.waits))
			require.Equal(t, "Injected by init-container"+test.want, result.Pod.Annotations[pod.StatusAnnotation])
		})
	}
}

// ofMany is a pod of containers that wait as these annotations say.
func ofMany(containers int, waits map[string]string) *corev1.Pod {
	p := asking()
	for i := range containers {
		p.Spec.Containers = append(p.Spec.Containers, running(fmt.Sprint("c", i), "x"))
	}
	for name, value := range waits {
		dependsOn(p, name, value)
	}
	return p
}

// many is what waits for all containers from one to before another.
func many(from, to int) string {
	var words []string
	for i := from; i < to; i++ {
		words = append(words, fmt.Sprintf("c%d:started", i))
	}
	return strings.Join(words, ",")
}

func TestAnOrderHasABound(t *testing.T) {
	inject(t, newInjector(nil), ofMany(200, map[string]string{"c0": many(1, 128)}))
	requireRefused(t, refusal(t, newInjector(nil), ofMany(200, map[string]string{"c0": many(1, 129)})), pod.InvalidAnnotation, "129 containers of the pod", "128 is the most")
	// A pod of megabytes is refused as fast.
	requireRefused(t, refusal(t, newInjector(nil), ofMany(20_000, map[string]string{"c0": many(1, 20_000), "c1": many(2, 20_000)})), pod.InvalidAnnotation, "it names 19999 containers")
	waiting := ofMany(20_000, nil)
	for _, c := range waiting.Spec.Containers {
		annotated(waiting, "wait-for.entrypointer.dev/"+c.Name, "tcp://:1")
	}
	for i := range waiting.Spec.Containers {
		waiting.Spec.Containers[i].StartupProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}}}
	}
	inject(t, newInjector(nil), waiting)
	requireRefused(t, refusal(t, newInjector(nil), annotated(restarting(ofMany(20_000, nil), corev1.RestartPolicyNever), "entrypointer.dev/end-sidecars", "istio")), pod.InvalidAnnotation, "more than 16 wrapped containers")
}

// TestACycleIsRefusedExactlyIfThereIsOne compares with Kahn's algorithm: it removes
// containers that wait for no remaining container, until none can be removed.
func TestACycleIsRefusedExactlyIfThereIsOne(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	cycles := 0
	for round := range 2000 {
		size := 1 + random.IntN(8)
		edges := make([]map[int]bool, size)
		waits := map[string]string{}
		for from := range size {
			edges[from] = map[int]bool{}
			var words []string
			for to := range size {
				if random.IntN(size+1) == 0 {
					edges[from][to] = true
					words = append(words, fmt.Sprintf("c%d:started", to))
				}
			}
			if words != nil {
				waits[fmt.Sprint("c", from)] = strings.Join(words, ",")
			}
		}
		result, err := newInjector(nil).Inject(t.Context(), "tenant", ofMany(size, waits))
		if !hasCycle(edges) {
			require.NoError(t, err, "round %d: %v", round, waits)
			require.Equal(t, len(waits) > 0, result.Order != "")
			continue
		}
		cycles++
		requireRefused(t, err, pod.InvalidAnnotation, "wait for each other")
		requireCycle(t, edges, err.Error())
	}
	require.Greater(t, cycles, 500)
	require.Less(t, cycles, 1500)
}

func hasCycle(edges []map[int]bool) bool {
	left := map[int]bool{}
	for i := range edges {
		left[i] = true
	}
	for taken := true; taken; {
		taken = false
		for i := range left {
			waits := false
			for to := range edges[i] {
				waits = waits || left[to]
			}
			if !waits {
				delete(left, i)
				taken = true
			}
		}
	}
	return len(left) > 0
}

// requireCycle looks whether the path in a refusal is one, and leads back.
func requireCycle(t *testing.T, edges []map[int]bool, text string) {
	t.Helper()
	_, after, _ := strings.Cut(text, "would ever start: ")
	path, _, _ := strings.Cut(after, ";")
	words := strings.Split(path, " -> ")
	require.Greater(t, len(words), 1, text)
	require.Equal(t, words[0], words[len(words)-1], text)
	for i := range len(words) - 1 {
		var from, to int
		_, err := fmt.Sscanf(words[i]+" "+words[i+1], "c%d c%d", &from, &to)
		require.NoError(t, err, text)
		require.True(t, edges[from][to], text)
	}
}
