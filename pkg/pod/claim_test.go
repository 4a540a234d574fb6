// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

const claimName = "entrypointer-0123456789ab"

func claiming() *pod.Injector {
	injector := newInjector(nil)
	injector.Policy.Delivery, injector.ClaimName = pod.DeliveryClaim, claimName
	return injector
}

func TestAClaimNeedsNoInitContainer(t *testing.T) {
	result := inject(t, claiming(), asking(running("a", "x")))
	require.Equal(t, pod.Injected, result.Outcome)
	require.Equal(t, "Injected by claim", result.Pod.Annotations["entrypointer.dev/status"])
	require.Empty(t, result.Pod.Spec.InitContainers)
	require.Equal(t, []corev1.Volume{{Name: "entrypointer-bin", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claimName, ReadOnly: true},
	}}}, result.Pod.Spec.Volumes)
	a := result.Pod.Spec.Containers[0]
	require.Equal(t, []corev1.VolumeMount{{Name: "entrypointer-bin", MountPath: "/entrypointer/bin", SubPath: "plain", ReadOnly: true}}, a.VolumeMounts)
	require.Equal(t, []string{pod.EntrypointPath}, a.Command)
	require.NotContains(t, result.Pod.Annotations, "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes", "a claim is no local storage")

	again := inject(t, claiming(), result.Pod)
	require.Equal(t, pod.AlreadyInjected, again.Outcome)
	require.Equal(t, result.Pod, again.Pod)
}

func TestAPodThatSendsItsOutputMountsTheProgramThatCan(t *testing.T) {
	injector := withLogs()
	injector.Policy.Delivery, injector.ClaimName = pod.DeliveryClaim, claimName
	p := annotated(sending(running("a", "x")), "entrypointer.dev/logs", "stream")
	result := inject(t, injector, p)
	require.Contains(t, result.Pod.Spec.Containers[0].VolumeMounts,
		corev1.VolumeMount{Name: "entrypointer-bin", MountPath: "/entrypointer/bin", SubPath: "with-logs", ReadOnly: true})
	require.Equal(t, pod.AlreadyInjected, inject(t, injector, result.Pod).Outcome)
}

func TestWhereThereIsNoClaimPodsGetAnInitContainer(t *testing.T) {
	injector := claiming()
	injector.ClaimName = ""
	result := inject(t, injector, asking(running("a", "x")))
	require.Equal(t, "Injected by init-container", result.Pod.Annotations["entrypointer.dev/status"])
	require.Len(t, result.Pod.Spec.InitContainers, 1)
}

func TestPodsInAUserNamespaceMountNoClaim(t *testing.T) {
	for what, test := range map[string]struct {
		hostUsers *bool
		want      pod.Delivery
	}{
		"by default":          {nil, pod.DeliveryClaim},
		"in the host's users": {new(true), pod.DeliveryClaim},
		"in users of its own": {new(false), pod.DeliveryInitContainer},
	} {
		t.Run(what, func(t *testing.T) {
			p := asking(running("a", "x"))
			p.Spec.HostUsers = test.hostUsers
			result := inject(t, claiming(), p)
			require.Equal(t, test.want, result.Delivery)
			require.Equal(t, test.want == pod.DeliveryInitContainer, len(result.Pod.Spec.InitContainers) == 1)
			require.Equal(t, pod.AlreadyInjected, inject(t, claiming(), result.Pod).Outcome)
		})
	}
}

func TestAClaimHoldsOnlyTheSupervisor(t *testing.T) {
	wrapped := func() *corev1.Pod { return inject(t, claiming(), asking(running("a", "x"))).Pod }
	for name, forge := range map[string]func(*corev1.Pod){
		"another version's claim": func(p *corev1.Pod) { p.Spec.Volumes[0].PersistentVolumeClaim.ClaimName = "entrypointer-ba9876543210" },
		"to be written":           func(p *corev1.Pod) { p.Spec.Volumes[0].PersistentVolumeClaim.ReadOnly = false },
		"another path":            func(p *corev1.Pod) { p.Spec.Containers[0].VolumeMounts[0].SubPath = "evil" },
		"an emptyDir": func(p *corev1.Pod) {
			p.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := wrapped()
			forge(p)
			require.Equal(t, wrapped(), inject(t, claiming(), p).Pod)
		})
	}

	for _, name := range []string{"theirs", "entrypointer-data", "entrypointer-0123456789abc", "entrypointer-0123456789AB", "my-entrypointer-0123456789ab"} {
		theirs := wrapped()
		theirs.Spec.Volumes[0].PersistentVolumeClaim.ClaimName = name
		_, err := claiming().Inject(t.Context(), "tenant", theirs)
		requireRefused(t, err, pod.NameCollision, `"entrypointer-bin"`, "rename it")
	}
}
