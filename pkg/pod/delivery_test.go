// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

// auto mounts where that isn't ruled out.
func auto() *pod.Injector {
	injector := mounting()
	injector.Policy.Delivery = pod.DeliveryAuto
	return injector
}

func selectsByAffinity(required bool, r corev1.NodeSelectorRequirement) func(*corev1.PodSpec) {
	return func(s *corev1.PodSpec) {
		term := corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{r}}
		affinity := &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 1, Preference: term}}}
		if required {
			affinity = &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{}, term}}}
		}
		s.Affinity = &corev1.Affinity{NodeAffinity: affinity}
	}
}

func TestAutoMountsTheImageIntoPodsThatOrdinaryNodesRun(t *testing.T) {
	toleration := func(t corev1.Toleration) func(*corev1.PodSpec) {
		return func(s *corev1.PodSpec) { s.Tolerations = append(s.Tolerations, t) }
	}
	virtual := corev1.NodeSelectorRequirement{Key: "type", Operator: corev1.NodeSelectorOpIn, Values: []string{"any", "virtual-kubelet"}}
	notVirtual := virtual
	notVirtual.Operator = corev1.NodeSelectorOpNotIn
	for what, test := range map[string]struct {
		change func(*corev1.PodSpec)
		want   pod.Delivery
	}{
		"any":                        {func(*corev1.PodSpec) {}, pod.DeliveryImageVolume},
		"with tolerations of others": {toleration(corev1.Toleration{Key: "dedicated", Operator: corev1.TolerationOpExists}), pod.DeliveryImageVolume},
		"as API servers default them": {toleration(corev1.Toleration{
			Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(300)),
		}), pod.DeliveryImageVolume},
		"on nodes of a label":                 {func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"type": "gpu"} }, pod.DeliveryImageVolume},
		"not on virtual kubelets":             {selectsByAffinity(true, notVirtual), pod.DeliveryImageVolume},
		"of another scheduler":                {func(s *corev1.PodSpec) { s.SchedulerName = "other" }, pod.DeliveryImageVolume},
		"in the host's users":                 {func(s *corev1.PodSpec) { s.HostUsers = new(true) }, pod.DeliveryImageVolume},
		"of the default runtime":              {func(s *corev1.PodSpec) { s.RuntimeClassName = new("") }, pod.DeliveryImageVolume},
		"with other affinities":               {func(s *corev1.PodSpec) { s.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{}} }, pod.DeliveryImageVolume},
		"with a runtime class":                {func(s *corev1.PodSpec) { s.RuntimeClassName = new("gvisor") }, pod.DeliveryInitContainer},
		"in users of its own":                 {func(s *corev1.PodSpec) { s.HostUsers = new(false) }, pod.DeliveryInitContainer},
		"on a node that it names":             {func(s *corev1.PodSpec) { s.NodeName = "virtual" }, pod.DeliveryInitContainer},
		"of a DaemonSet":                      {toleration(corev1.Toleration{Key: "node.kubernetes.io/unschedulable", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}), pod.DeliveryInitContainer},
		"that tolerates everything":           {toleration(corev1.Toleration{Operator: corev1.TolerationOpExists}), pod.DeliveryInitContainer},
		"that tolerates all of an effect":     {toleration(corev1.Toleration{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}), pod.DeliveryInitContainer},
		"that tolerates virtual kubelets":     {toleration(corev1.Toleration{Key: pod.VirtualKubeletTaint, Operator: corev1.TolerationOpExists}), pod.DeliveryInitContainer},
		"that tolerates those of a provider":  {toleration(corev1.Toleration{Key: pod.VirtualKubeletTaint, Value: "azure", Effect: corev1.TaintEffectNoSchedule}), pod.DeliveryInitContainer},
		"that selects virtual kubelets":       {func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"type": "virtual-kubelet"} }, pod.DeliveryInitContainer},
		"that requires them by its affinity":  {selectsByAffinity(true, virtual), pod.DeliveryInitContainer},
		"that prefers them, and may get them": {selectsByAffinity(false, virtual), pod.DeliveryInitContainer},
	} {
		t.Run(what, func(t *testing.T) {
			p := asking(running("a", "x"))
			test.change(&p.Spec)
			result := inject(t, auto(), p)
			require.Equal(t, test.want, result.Delivery)
			require.Equal(t, "Injected by "+string(test.want), result.Pod.Annotations[pod.StatusAnnotation])
			require.Equal(t, p.Spec.Affinity, result.Pod.Spec.Affinity, "no affinity is added")
			require.Equal(t, p.Spec.Tolerations, result.Pod.Spec.Tolerations)

			always := mounting()
			if test.want == pod.DeliveryInitContainer {
				always = newInjector(nil)
			}
			requireSamePod(t, inject(t, always, p).Pod, result.Pod, "it is as that delivery makes it")
			require.Equal(t, pod.AlreadyInjected, inject(t, auto(), result.Pod).Outcome)
		})
	}
}
