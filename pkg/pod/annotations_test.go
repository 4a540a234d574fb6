// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

func TestANamespaceIsWarnedOfAnnotationsThatAreForPods(t *testing.T) {
	const forPods = " has no effect on a namespace: it is for pods"
	for annotation, says := range map[string]string{
		"entrypointer.dev/inject":      "",
		"entrypointer.dev/timeout":     "",
		"entrypointer.dev/delivery":    "",
		"timeout":                      "",
		"timeout.entrypointer.dev/app": "entrypointer: annotation timeout.entrypointer.dev/app" + forPods,
		"entrypointer.dev/containers":  "entrypointer: annotation entrypointer.dev/containers" + forPods,
		"entrypointer.dev/status":      "entrypointer: annotation entrypointer.dev/status" + forPods,
		"entrypointer.dev/timeuot":     "entrypointer: annotation entrypointer.dev/timeuot is unknown and has no effect; did you mean \"entrypointer.dev/timeout\"?",
		"entrypointer.dev/delivry":     "entrypointer: annotation entrypointer.dev/delivry is unknown and has no effect; did you mean \"entrypointer.dev/delivery\"?",
		"entrypointer.dev/container":   "entrypointer: annotation entrypointer.dev/container is unknown and has no effect",
		"entrypointer.dev/colour":      "entrypointer: annotation entrypointer.dev/colour is unknown and has no effect",
		"colour.entrypointer.dev/app":  "entrypointer: annotation colour.entrypointer.dev/app is unknown and has no effect",
	} {
		warnings := pod.IgnoredOnNamespace(map[string]string{annotation: "1h"})
		if says == "" {
			require.Empty(t, warnings, annotation)
			continue
		}
		require.Equal(t, []string{says}, pod.Messages(warnings), annotation)
	}
}

// annotationsLimit is how many bytes an API server takes.
const annotationsLimit = 262_144

func sizeOf(annotations map[string]string) (size int) {
	for key, value := range annotations {
		size += len(key) + len(value)
	}
	return size
}

func TestOurAnnotationsAreLeftOutWhereThereIsNoRoomForThem(t *testing.T) {
	ours := map[string]string{pod.StatusAnnotation: "Injected by init-container", safeToEvict: "entrypointer-bin"}
	for name, test := range map[string]struct {
		free int
		kept []string
	}{
		"room for both":   {sizeOf(ours), []string{pod.StatusAnnotation, safeToEvict}},
		"a byte too few":  {sizeOf(ours) - 1, []string{safeToEvict}},
		"room for one":    {len(pod.StatusAnnotation) + len("Injected by init-container"), []string{pod.StatusAnnotation}},
		"room for none":   {0, nil},
		"more than ought": {-1, nil},
	} {
		t.Run(name, func(t *testing.T) {
			p := annotated(asking(running("a", "x")), "theirs", "")
			p.Annotations["theirs"] = strings.Repeat("x", annotationsLimit-test.free-sizeOf(p.Annotations))
			result := inject(t, newInjector(nil), p)
			require.Equal(t, pod.Injected, result.Outcome)
			require.Len(t, result.Warnings, 2-len(test.kept))
			for key := range ours {
				require.Equal(t, slices.Contains(test.kept, key), result.Pod.Annotations[key] != "", key)
			}
			require.LessOrEqual(t, sizeOf(result.Pod.Annotations), max(annotationsLimit, sizeOf(p.Annotations)))
			requireSamePod(t, result.Pod, patched(t, p, result.Pod), "the patch leads elsewhere")

			// Without room, there is nothing to tell that it was done.
			require.Equal(t, pod.AlreadyInjected, inject(t, newInjector(nil), result.Pod).Outcome)
		})
	}
}

func TestAFalseStatusIsWorseThanNone(t *testing.T) {
	p := annotated(asking(running("a", "x")), pod.StatusAnnotation, "OK", safeToEvict, "t", "theirs", "")
	p.Annotations["theirs"] = strings.Repeat("x", annotationsLimit-sizeOf(p.Annotations))
	result := inject(t, newInjector(nil), p)
	require.NotContains(t, result.Pod.Annotations, pod.StatusAnnotation)
	require.Equal(t, "t", result.Pod.Annotations[safeToEvict], "it is about somebody else's volume")
	require.Len(t, result.Warnings, 2)
	requireSamePod(t, result.Pod, patched(t, p, result.Pod), "the patch leads elsewhere")
}
