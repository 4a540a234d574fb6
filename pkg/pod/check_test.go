// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod_test

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

// A template is checked by what decides on its pods, so that no warning is wrong and no
// mistake is overlooked.
func TestACheckSaysWhatTheInjectionWillSay(t *testing.T) {
	const pods = 2400
	counts := map[string]int{}
	for seed := range uint64(pods) {
		before := filledPod(binary.BigEndian.AppendUint64(nil, seed))
		sent := before.DeepCopy()
		injector := fuzzedInjector([]byte{byte(seed)})
		warnings, wrong := injector.Check("tenant", before)
		require.Equal(t, sent, before, "a check changes nothing")
		result, err := injector.Inject(t.Context(), "tenant", before)
		refusal, refused := errors.AsType[*pod.Refusal](err)
		switch {
		case wrong != nil:
			require.Error(t, err, "Check says: %v", wrong)
			counts["refused"]++
			if refused && wrong.Error() == refusal.Error() {
				counts["refused with the same words"]++
			}
		case refused && refusal.Outcome == pod.InvalidAnnotation:
			counts["refused after all"]++
		case err == nil:
			counts["admitted"]++
			if result.Outcome != pod.LookupWaived && result.Outcome != pod.PartlyInjected && result.Outcome != pod.AlreadyInjected {
				for _, w := range warnings {
					if w.Reason != pod.ReasonWarningsOmitted {
						require.Contains(t, result.Warnings, w)
						counts["warned"]++
					}
				}
			}
		}
	}
	t.Logf("%v", counts)
	require.Greater(t, counts["refused"], pods/20)
	require.Greater(t, counts["refused with the same words"], counts["refused"]*3/4, "the others' lookups fail first")
	require.Less(t, counts["refused after all"], counts["refused"]/10, "what only the image's command line tells")
	require.Greater(t, counts["warned"], pods/100)
}

func TestACheckAsksNoRegistry(t *testing.T) {
	p := asking(corev1.Container{Name: "a", Image: "nowhere"})
	warnings, err := newInjector(nil).Check("tenant", p)
	require.NoError(t, err)
	require.Empty(t, warnings)
	p.Annotations["entrypointer.dev/timeout"] = "10 minutes"
	_, err = newInjector(nil).Check("tenant", p)
	requireRefused(t, err, pod.InvalidAnnotation, `reading annotation entrypointer.dev/timeout: "10 minutes" is wrong; it can be a duration`)
}

func TestACheckOfAPodThatIsLeftAloneSaysWhy(t *testing.T) {
	unasked := annotated(asking(running("a", "x")), "entrypointer.dev/timeout", "10 minutes")
	delete(unasked.Annotations, pod.InjectAnnotation)
	warnings, err := newInjector(nil).Check("tenant", unasked)
	require.NoError(t, err)
	require.Equal(t, []string{`entrypointer: annotation entrypointer.dev/timeout has no effect on a pod that doesn't ask by entrypointer.dev/inject: "true"`}, pod.Messages(warnings))
	out := annotated(asking(running("a", "x")), "entrypointer.dev/timeout", "10 minutes", pod.InjectAnnotation, "false")
	warnings, err = newInjector(nil).Check("tenant", out)
	require.NoError(t, err)
	require.Empty(t, warnings)
}
