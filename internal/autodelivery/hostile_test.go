// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package autodelivery

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// remembers has somebody write an entry of the ConfigMap by hand.
func (l *leader) remembers(question, text string) {
	l.t.Helper()
	cm, err := l.kube.CoreV1().ConfigMaps(home).Get(l.t.Context(), ProofsName, metav1.GetOptions{})
	require.NoError(l.t, err)
	cm.Data = map[string]string{question: text}
	_, err = l.kube.CoreV1().ConfigMaps(home).Update(l.t.Context(), cm, metav1.UpdateOptions{})
	require.NoError(l.t, err)
	l.watch()
}

func TestWhateverIsWrittenAmongTheProofsACanaryRuns(t *testing.T) {
	entry := func(change func(*proof)) string {
		p := proof{System: fits, Images: images, Result: failed, At: noon.Add(-24 * time.Hour), Canaries: 1}
		change(&p)
		text, err := json.Marshal(p)
		require.NoError(t, err)
		return string(text)
	}
	for name, text := range map[string]string{
		"no JSON":                     "\x01{[",
		"other JSON":                  `{"result":["Proven"],"canaries":"many"}`,
		"fewer canaries than none":    entry(func(p *proof) { p.Canaries = -1 }),
		"more canaries than any":      entry(func(p *proof) { p.Canaries = math.MaxInt }),
		"a time that is to come":      entry(func(p *proof) { p.At = time.Date(9000, 1, 1, 0, 0, 0, 0, time.UTC) }),
		"a start that is to come":     entry(func(p *proof) { p.Result, p.At = started, time.Date(9000, 1, 1, 0, 0, 0, 0, time.UTC) }),
		"a result that there isn't":   entry(func(p *proof) { p.Result = "Perhaps" }),
		"a message that fills it":     entry(func(p *proof) { p.Message = strings.Repeat("<", 150_000) }),
		"an image that fills it":      entry(func(p *proof) { p.Images.WithLogs = strings.Repeat("<", 150_000) }),
		"an architecture of a MiB":    strings.Replace(entry(func(*proof) {}), "amd64", strings.Repeat("<", 1_000_000), 1),
		"a message that isn't quoted": strings.Replace(entry(func(p *proof) { p.Message = "why" }), "why", strings.Repeat("<", 1_000_000), 1),
	} {
		t.Run(name, func(t *testing.T) {
			l := newLeader(t, newCluster(t), listed("a", fits), listed("b", fits))
			l.remembers(fits.question(images), text)
			require.Less(t, len(l.auto.Verdict().Message), 2048)
			l.round()
			require.Equal(t, 1, l.made)
			for node := range l.running() {
				l.ends(node, succeeded)
			}
			l.round()
			l.requireReason(Proven)
			cm, err := l.kube.CoreV1().ConfigMaps(home).Get(t.Context(), ProofsName, metav1.GetOptions{})
			require.NoError(t, err)
			require.Less(t, len(fmt.Sprint(cm.Data)), 1<<16)
		})
	}
}

// What is proven is worth more than that something was tried.
func TestProofsThatAreNeededOutliveAnyNumberOfFailures(t *testing.T) {
	known, asked := proofs{"good": {Result: proven, At: noon}}, map[string]bool{"good": true}
	for i := range 3 * maxProofs {
		id := fmt.Sprintf("%04d", i)
		known[id], asked[id] = proof{Result: failed, Canaries: 1, At: noon.Add(time.Hour)}, true
	}
	require.Contains(t, known.data(asked), "good")
}

// Nodes say of themselves what they like, and each change of any has all looked at.
func TestTheTextOfANodeIsKeptInAFewBytes(t *testing.T) {
	long := strings.Repeat("1.", 1<<19)
	n := listed("a", system{"v1.36.0-" + long, "containerd://2.3.0-" + long, long, long}, tainted("long", corev1.TaintEffect(long)))
	n.Status.Conditions[0].Message = long
	small, err := slim(n)
	require.NoError(t, err)
	require.Less(t, small.(*corev1.Node).Size(), 4096)
	require.Equal(t, nodeOf(n), nodeOf(small.(*corev1.Node)))
	require.Less(t, len(fmt.Sprint(nodeOf(n))), 4096)
	require.Empty(t, nodeOf(n).lacks())
}

// Events of one object are few: what exceeds 25, and one in five minutes, is lost.
func TestNodesThatComeAndGoInHundredsAreToldOfInAFewEvents(t *testing.T) {
	l := newLeader(t, newCluster(t), listed("a", fits))
	l.round()
	l.ends("a", succeeded)
	l.round()
	l.round()
	require.Len(t, l.told(), 2)
	for i := range 300 {
		l.see(listed(fmt.Sprintf("old-%03d", 300-i), tooOld))
		l.round()
	}
	require.Len(t, l.told(), 1)
	l.clock = l.clock.Add(eventPause)
	l.round()
	require.Equal(t, []string{`Warning NodeUnfit delivery auto: pods get the init container: node "old-001" and 299 others: kubelet v1.33.1 is older than 1.35.0`}, l.told())
	for i := range 300 {
		l.lose(fmt.Sprintf("old-%03d", 300-i))
		l.round()
	}
	require.Equal(t, []string{`Normal Proven delivery auto: pods get image volumes: every kind of node has run the supervisor from an image volume`}, l.told())
}
