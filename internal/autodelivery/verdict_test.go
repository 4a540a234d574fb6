// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package autodelivery

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var (
	images = Images{Entrypoint: "registry.example.test/entrypoint@sha256:1", WithLogs: "registry.example.test/logs@sha256:2"}
	fits   = system{"v1.36.3", "containerd://2.3.5", "Debian 12", "amd64"}
	onARM  = system{"v1.36.3", "containerd://2.3.5", "Debian 12", "arm64"}
	tooOld = system{"v1.33.1", "containerd://1.7.27", "Debian 11", "amd64"}
)

// listed is a Node, Ready unless it is changed.
func listed(name string, s system, changes ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/os": "linux"}},
		Status: corev1.NodeStatus{
			NodeInfo: corev1.NodeSystemInfo{
				KubeletVersion: s.Kubelet, ContainerRuntimeVersion: s.Runtime, OSImage: s.OSImage, Architecture: s.Architecture, OperatingSystem: "linux",
			},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
	for _, change := range changes {
		change(n)
	}
	return n
}

func notReady(n *corev1.Node)  { n.Status.Conditions = nil }
func cordoned(n *corev1.Node)  { n.Spec.Unschedulable = true }
func onWindows(n *corev1.Node) { n.Status.NodeInfo.OperatingSystem = "windows" }
func tainted(key string, effect corev1.TaintEffect) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Effect: effect}) }
}

// seen is all that has to be known.
func seen(answered proofs, nodes ...*corev1.Node) *evidence {
	e := &evidence{images: images, configured: true, permitted: true, synced: true, server: "v1.36.3", nodes: map[string]node{}, proofs: answered}
	for _, n := range nodes {
		e.nodes[n.Name] = nodeOf(n)
	}
	return e
}

// answers are proofs about systems.
func answers(what result, systems ...system) proofs {
	known := proofs{}
	for _, s := range systems {
		known[s.question(images)] = proof{System: s, Images: images, Result: what, Canaries: 1, Message: "container entrypoint: CreateContainerError"}
	}
	return known
}

func TestPodsGetImageVolumesWhereThatIsProvenOnEachKindOfNode(t *testing.T) {
	for what, test := range map[string]struct {
		evidence *evidence
		want     Reason
		says     string
	}{
		"one node":                               {seen(answers(proven, fits), listed("a", fits)), Proven, "every kind of node"},
		"many of one kind":                       {seen(answers(proven, fits), listed("a", fits), listed("b", fits), listed("c", fits)), Proven, ""},
		"two kinds":                              {seen(answers(proven, fits, onARM), listed("a", fits), listed("b", onARM)), Proven, ""},
		"a kind that isn't proven":               {seen(answers(proven, fits), listed("a", fits), listed("b", onARM), listed("c", onARM)), Unproven, `node "b" and 1 other (kubelet v1.36.3, containerd://2.3.5, Debian 12, arm64)`},
		"it isn't ready, but it will be":         {seen(answers(proven, fits), listed("a", fits), listed("b", onARM, notReady)), Unproven, `node "b"`},
		"one that runs":                          {seen(answers(started, fits), listed("a", fits)), Unproven, `node "a"`},
		"one that failed":                        {seen(answers(failed, fits), listed("a", fits)), CanaryFailed, "CreateContainerError"},
		"one too old":                            {seen(answers(proven, fits), listed("a", fits), listed("old", tooOld)), NodeUnfit, `node "old": kubelet v1.33.1 is older than 1.35.0`},
		"too old, whatever was proven":           {seen(answers(proven, fits, tooOld), listed("old", tooOld), listed("older", tooOld), listed("oldest", tooOld)), NodeUnfit, `node "old" and 2 others`},
		"too old, and not ready yet":             {seen(answers(proven, fits), listed("a", fits), listed("old", tooOld, notReady)), NodeUnfit, ""},
		"too old, with a taint that pods bear":   {seen(answers(proven, fits), listed("a", fits), listed("old", tooOld, tainted("dedicated", corev1.TaintEffectNoSchedule))), NodeUnfit, ""},
		"too old, and cordoned":                  {seen(answers(proven, fits), listed("a", fits), listed("old", tooOld, cordoned)), Proven, ""},
		"Windows":                                {seen(answers(proven, fits), listed("a", fits), listed("w", tooOld, onWindows)), Proven, ""},
		"Windows by its label":                   {seen(answers(proven, fits), listed("a", fits), listed("w", system{}, func(n *corev1.Node) { n.Labels["kubernetes.io/os"] = "windows" })), Proven, ""},
		"a virtual kubelet":                      {seen(answers(proven, fits), listed("a", fits), listed("v", tooOld, tainted("virtual-kubelet.io/provider", corev1.TaintEffectNoSchedule))), Proven, ""},
		"one that evicts":                        {seen(answers(proven, fits), listed("a", fits), listed("v", tooOld, tainted("virtual-kubelet.io/provider", corev1.TaintEffectNoExecute))), Proven, ""},
		"a virtual kubelet where any pod lands":  {seen(answers(proven, fits), listed("a", fits), listed("v", tooOld, tainted("virtual-kubelet.io/provider", corev1.TaintEffectPreferNoSchedule))), NodeUnfit, ""},
		"one by its label only":                  {seen(answers(proven, fits), listed("a", fits), listed("v", system{Kubelet: "v1.30.0-vk-1"}, func(n *corev1.Node) { n.Labels["type"] = "virtual-kubelet" })), NodeUnfit, ""},
		"a node that says nothing of itself yet": {seen(answers(proven, fits), listed("a", fits), listed("new", system{})), NodeUnfit, "can't be read"},
		"no node":                                {seen(answers(proven, fits)), NoNodes, ""},
		"none that counts":                       {seen(answers(proven, fits), listed("a", fits, cordoned)), NoNodes, ""},
		"nothing proven":                         {seen(nil, listed("a", fits)), Unproven, ""},
	} {
		got := test.evidence.judge()
		require.Equal(t, test.want, got.Reason, "%s: %s", what, got)
		require.Contains(t, got.Message, test.says, what)
		require.Equal(t, test.want == Proven, got.ImageVolumes(), what)
	}
}

func TestNothingIsProvenByAbsence(t *testing.T) {
	for what, test := range map[string]struct {
		change func(*evidence)
		want   Reason
		says   string
	}{
		"all is known":                       {func(*evidence) {}, Proven, ""},
		"another delivery":                   {func(e *evidence) { e.configured = false }, NotConfigured, ""},
		"no rights":                          {func(e *evidence) { e.permitted = false }, NotPermitted, "ko apply -f config/auto"},
		"a list that isn't complete":         {func(e *evidence) { e.synced = false }, NodesUnknown, ""},
		"an API server that hasn't answered": {func(e *evidence) { e.server = "" }, APIServerTooOld, "isn't known yet"},
		"an old API server":                  {func(e *evidence) { e.server = "v1.34.2" }, APIServerTooOld, "API server v1.34.2 is older than 1.35.0"},
		"an API server that says nonsense":   {func(e *evidence) { e.server = "latest" }, APIServerTooOld, "can't be read"},
		"another image":                      {func(e *evidence) { e.images.Entrypoint += "0" }, Unproven, ""},
		"another image with logs":            {func(e *evidence) { e.images.WithLogs += "0" }, Unproven, ""},
		"what was proven is gone":            {func(e *evidence) { e.proofs = nil }, Unproven, ""},
		"an answer that isn't one": {func(e *evidence) {
			e.proofs = readProofs(map[string]string{fits.question(images): "Proven"})
		}, Unproven, ""},
		"an answer of another release": {func(e *evidence) {
			e.proofs = readProofs(map[string]string{fits.question(images): `{"result":"Believed"}`})
		}, Unproven, ""},
	} {
		e := seen(answers(proven, fits), listed("a", fits))
		test.change(e)
		got := e.judge()
		require.Equal(t, test.want, got.Reason, "%s: %s", what, got)
		require.Contains(t, got.String(), test.says, what)
	}
}

func TestASlimNodeLeadsToTheSameVerdict(t *testing.T) {
	n := listed("a", fits, cordoned, tainted("virtual-kubelet.io/provider", corev1.TaintEffectNoSchedule))
	n.Status.Images = make([]corev1.ContainerImage, 50)
	n.Annotations = map[string]string{"large": "one"}
	small, err := slim(n)
	require.NoError(t, err)
	require.Equal(t, nodeOf(n), nodeOf(small.(*corev1.Node)))
	require.Empty(t, small.(*corev1.Node).Status.Images)
	require.Empty(t, small.(*corev1.Node).Annotations)
	require.Len(t, n.Status.Images, 50, "the one that was given is left as it was")
}

func TestEveryPartOfASystemAndEveryImageIsAQuestionOfItsOwn(t *testing.T) {
	ids := map[string]bool{fits.question(images): true}
	for _, change := range []func(*system, *Images){
		func(s *system, _ *Images) { s.Kubelet = "v1.36.4" },
		func(s *system, _ *Images) { s.Runtime = "containerd://2.3.6" },
		func(s *system, _ *Images) { s.OSImage = "Debian 13" },
		func(s *system, _ *Images) { s.Architecture = "arm64" },
		func(_ *system, i *Images) { i.Entrypoint += "0" },
		func(_ *system, i *Images) { i.WithLogs += "0" },
	} {
		s, i := fits, images
		change(&s, &i)
		require.NotContains(t, ids, s.question(i))
		ids[s.question(i)] = true
	}
}

// Each change of a node is followed by a verdict on all nodes.
func TestAVerdictOnThousandsOfNodesTakesMemoryForTheirKindsOnly(t *testing.T) {
	const nodes, limit = 5000, 200 // allocations
	var all []*corev1.Node
	for i := range nodes {
		all = append(all, listed(fmt.Sprint("node-", i), []system{fits, onARM}[i%2]))
	}
	e := seen(answers(proven, fits, onARM), all...)
	require.Equal(t, Proven, e.judge().Reason)
	require.Less(t, testing.AllocsPerRun(5, func() { e.judge() }), float64(limit))
}

func BenchmarkVerdict(b *testing.B) {
	var all []*corev1.Node
	for i := range 5000 {
		all = append(all, listed(fmt.Sprint("node-", i), fits))
	}
	e := seen(answers(proven, fits), all...)
	for b.Loop() {
		e.judge()
	}
}
