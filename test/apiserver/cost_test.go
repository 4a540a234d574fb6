// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/core/helper/qos"
	k8sv1 "k8s.io/kubernetes/pkg/apis/core/v1"
	corevalidation "k8s.io/kubernetes/pkg/apis/core/validation"
	quota "k8s.io/kubernetes/pkg/quota/v1/evaluator/core"
	"k8s.io/utils/clock"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

// resources is a container's requests and limits; what is only limited is requested, too.
type resources = map[corev1.ResourceName]string

func amounts(of resources) corev1.ResourceList {
	if of == nil {
		return nil
	}
	list := corev1.ResourceList{}
	for name, quantity := range of {
		list[name] = resource.MustParse(quantity)
	}
	return list
}

func container(name string, requests, limits resources) corev1.Container {
	return corev1.Container{
		Name: name, Image: "app", Command: []string{"run"},
		Resources: corev1.ResourceRequirements{Requests: amounts(requests), Limits: amounts(limits)},
	}
}

// sidecar is an init container that stays.
func sidecar(name string, requests, limits resources) corev1.Container {
	c := container(name, requests, limits)
	c.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
	return c
}

func podOf(containers []corev1.Container, change ...func(*corev1.PodSpec)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "tenant", Annotations: map[string]string{pod.InjectAnnotation: "true"}},
		Spec:       corev1.PodSpec{Containers: containers},
	}
	for _, apply := range change {
		apply(&p.Spec)
	}
	return p
}

func limitRange(limits ...corev1.LimitRangeItem) *corev1.LimitRange {
	made := &corev1.LimitRange{Spec: corev1.LimitRangeSpec{Limits: limits}}
	k8sv1.SetObjectDefaults_LimitRange(made)
	return made
}

func TestAWrappedPodCostsWhatThePlainOneCosts(t *testing.T) {
	exactly := resources{"cpu": "500m", "memory": "64Mi"}
	for name, test := range map[string]struct {
		pod   *corev1.Pod
		class core.PodQOSClass
		limit *corev1.LimitRange
	}{
		"nothing asked for":   {podOf([]corev1.Container{container("a", nil, nil)}), core.PodQOSBestEffort, nil},
		"all that is limited": {podOf([]corev1.Container{container("a", nil, exactly)}), core.PodQOSGuaranteed, nil},
		"two that differ": {podOf([]corev1.Container{
			container("small", nil, resources{"cpu": "100m", "memory": "1Gi"}), container("large", nil, resources{"cpu": "2", "memory": "64Mi"}),
		}), core.PodQOSGuaranteed, nil},
		"requests alone": {podOf([]corev1.Container{container("a", exactly, nil), container("b", nil, nil)}), core.PodQOSBurstable, nil},
		"a limit alone":  {podOf([]corev1.Container{container("a", nil, resources{"memory": "64Mi"})}), core.PodQOSBurstable, nil},
		"a disk":         {podOf([]corev1.Container{container("a", nil, resources{"ephemeral-storage": "1Gi"})}), core.PodQOSBestEffort, nil},
		"a disk of an init container's": {podOf([]corev1.Container{container("a", nil, nil)}, func(s *corev1.PodSpec) {
			s.InitContainers = []corev1.Container{container("migrate", nil, resources{"ephemeral-storage": "1Gi"})}
		}), core.PodQOSBestEffort, nil},
		"a GPU": {podOf([]corev1.Container{
			container("a", nil, resources{"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "2"}), container("b", nil, resources{"nvidia.com/gpu": "1"}),
		}), core.PodQOSBurstable, nil},
		"huge pages": {podOf([]corev1.Container{
			container("a", nil, resources{"cpu": "1", "memory": "1Gi", "hugepages-2Mi": "64Mi"}),
		}), core.PodQOSGuaranteed, nil},
		"overhead of a sandbox": {podOf([]corev1.Container{container("a", nil, exactly)}, func(s *corev1.PodSpec) {
			s.RuntimeClassName, s.Overhead = new("gvisor"), amounts(resources{"cpu": "250m", "memory": "120Mi"})
		}), core.PodQOSGuaranteed, nil},
		"a larger init container": {podOf([]corev1.Container{container("a", nil, exactly)}, func(s *corev1.PodSpec) {
			s.InitContainers = []corev1.Container{container("migrate", nil, resources{"cpu": "2", "memory": "2Gi"})}
		}), core.PodQOSGuaranteed, nil},
		"native sidecars": {podOf([]corev1.Container{container("a", nil, exactly)}, func(s *corev1.PodSpec) {
			s.InitContainers = []corev1.Container{sidecar("mesh", nil, exactly), container("migrate", nil, exactly), sidecar("logs", nil, exactly)}
		}), core.PodQOSGuaranteed, nil},
		"resources of the pod": {podOf([]corev1.Container{container("a", nil, nil), container("b", nil, nil)}, func(s *corev1.PodSpec) {
			s.Resources = &corev1.ResourceRequirements{Limits: amounts(resources{"cpu": "1", "memory": "1Gi"})}
		}), core.PodQOSGuaranteed, nil},
		"resources of the pod and of one container": {podOf([]corev1.Container{container("a", nil, nil), container("b", exactly, nil)}, func(s *corev1.PodSpec) {
			s.Resources = &corev1.ResourceRequirements{Limits: amounts(resources{"cpu": "1", "memory": "1Gi"})}
		}), core.PodQOSBurstable, nil},
		"a minimum": {podOf([]corev1.Container{container("a", nil, exactly)}), core.PodQOSGuaranteed, limitRange(
			corev1.LimitRangeItem{Type: corev1.LimitTypeContainer, Min: amounts(resources{"cpu": "500m", "memory": "64Mi"})},
			corev1.LimitRangeItem{Type: corev1.LimitTypePod, Min: amounts(resources{"cpu": "500m", "memory": "64Mi"})},
		)},
		"a maximum": {podOf([]corev1.Container{container("a", nil, exactly)}), core.PodQOSGuaranteed, limitRange(
			corev1.LimitRangeItem{Type: corev1.LimitTypeContainer, Max: amounts(resources{"cpu": "500m", "memory": "64Mi"})},
			corev1.LimitRangeItem{Type: corev1.LimitTypePod, Max: amounts(resources{"cpu": "500m", "memory": "64Mi"})},
		)},
		"a maximum of GPUs": {podOf([]corev1.Container{container("a", nil, resources{"cpu": "1", "nvidia.com/gpu": "1"})}), core.PodQOSBurstable, limitRange(
			corev1.LimitRangeItem{Type: corev1.LimitTypeContainer, Max: amounts(resources{"nvidia.com/gpu": "4"})},
		)},
		"a ratio": {podOf([]corev1.Container{container("a", resources{"cpu": "250m"}, resources{"cpu": "500m"})}), core.PodQOSBurstable, limitRange(
			corev1.LimitRangeItem{Type: corev1.LimitTypeContainer, MaxLimitRequestRatio: amounts(resources{"cpu": "2"})},
			corev1.LimitRangeItem{Type: corev1.LimitTypePod, MaxLimitRequestRatio: amounts(resources{"cpu": "2"})},
		)},
		"defaults": {podOf([]corev1.Container{container("a", nil, nil), container("b", resources{"cpu": "50m"}, nil)}), core.PodQOSBurstable, limitRange(
			corev1.LimitRangeItem{
				Type: corev1.LimitTypeContainer, Default: amounts(resources{"cpu": "1", "memory": "1Gi", "ephemeral-storage": "1Gi"}),
				DefaultRequest: amounts(resources{"cpu": "100m", "memory": "1Gi"}),
			},
		)},
	} {
		t.Run(name, func(t *testing.T) {
			plain, err := cluster{limitRange: test.limit}.create(t, test.pod)
			require.NoError(t, err)
			require.Equal(t, test.class, qos.ComputePodQOS(toInternal(t, plain)), "what the test says")
			wrapped, err := cluster{webhook: newWebhook(ordinary), limitRange: test.limit}.create(t, test.pod)
			require.NoError(t, err)
			require.Equal(t, pod.InitContainerName, wrapped.Spec.InitContainers[0].Name)
			requireSameCost(t, plain, wrapped)
			_, limited := resourcehelper.PodLimits(plain, resourcehelper.PodResourcesOptions{})[corev1.ResourceEphemeralStorage]
			for _, v := range wrapped.Spec.Volumes {
				inMemory := v.EmptyDir != nil && v.EmptyDir.Medium == corev1.StorageMediumMemory
				require.Equal(t, limited, inMemory, "the kubelet counts what volume %q has on a disk that it limits", v.Name)
			}
			if all := test.pod.Spec.Containers; len(all) > 1 { // in order, too
				test.pod.Annotations["depends-on.entrypointer.dev/"+all[1].Name] = all[0].Name + ":started"
				ordered, err := cluster{webhook: newWebhook(ordinary), limitRange: test.limit}.create(t, test.pod)
				require.NoError(t, err)
				require.NotNil(t, ordered.Spec.Containers[1].StartupProbe)
				requireSameCost(t, plain, ordered)
			}
		})
	}
}

// A pod's request is that of its largest init container at least. Since 1.36,
// Kubernetes resizes those too; a resize that leaves ours out frees nothing.
func TestAWrappedPodIsResizedDownTogetherWithItsInitContainer(t *testing.T) {
	large, small := resources{"cpu": "2", "memory": "2Gi"}, resources{"cpu": "1", "memory": "1Gi"}
	wrapped, err := cluster{webhook: newWebhook(ordinary)}.create(t, podOf([]corev1.Container{container("a", nil, large)}))
	require.NoError(t, err)
	wrapped.ResourceVersion = "1"
	for _, c := range wrapped.Spec.Containers {
		wrapped.Status.ContainerStatuses = append(wrapped.Status.ContainerStatuses, corev1.ContainerStatus{Name: c.Name, Resources: &c.Resources})
	}
	for _, together := range []bool{false, true} {
		resized := wrapped.DeepCopy()
		resized.Spec.Containers[0].Resources.Requests, resized.Spec.Containers[0].Resources.Limits = amounts(small), amounts(small)
		if together {
			resized.Spec.InitContainers[0].Resources = resized.Spec.Containers[0].Resources
		}
		require.Empty(t, corevalidation.ValidatePodResize(toInternal(t, resized), toInternal(t, wrapped), corevalidation.PodValidationOptions{}))
		requests := resourcehelper.PodRequests(resized, resourcehelper.PodResourcesOptions{})
		want := amounts(large)
		if together {
			want = amounts(small)
		}
		requireSameAmounts(t, want, requests, "requests")
	}
}

// requireSameCost compares what the scheduler reserves, what a quota counts,
// and in which order nodes evict.
func requireSameCost(t *testing.T, plain, wrapped *corev1.Pod) {
	t.Helper()
	require.Equal(t, qos.ComputePodQOS(toInternal(t, plain)), qos.ComputePodQOS(toInternal(t, wrapped)), "QoS class")
	options := resourcehelper.PodResourcesOptions{}
	requireSameAmounts(t, resourcehelper.PodRequests(plain, options), resourcehelper.PodRequests(wrapped, options), "requests")
	requireSameAmounts(t, resourcehelper.PodLimits(plain, options), resourcehelper.PodLimits(wrapped, options), "limits")

	before, err := quota.PodUsageFunc(plain, clock.RealClock{})
	require.NoError(t, err)
	after, err := quota.PodUsageFunc(wrapped, clock.RealClock{})
	require.NoError(t, err)
	requireSameAmounts(t, before, after, "use of a quota")

	// A quota on these wants every container to say how much it needs.
	evaluator := quota.NewPodEvaluator(nil, clock.RealClock{})
	for _, required := range []corev1.ResourceName{corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory, corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory} {
		require.Equal(t, evaluator.Constraints([]corev1.ResourceName{required}, plain) == nil,
			evaluator.Constraints([]corev1.ResourceName{required}, wrapped) == nil, "a quota on %s", required)
	}
}

func requireSameAmounts(t *testing.T, want, got corev1.ResourceList, what string) {
	t.Helper()
	spell := func(list corev1.ResourceList) map[corev1.ResourceName]int64 {
		spelt := map[corev1.ResourceName]int64{}
		for name, quantity := range list {
			spelt[name] = quantity.MilliValue()
		}
		return spelt
	}
	require.Equal(t, spell(want), spell(got), what)
}
