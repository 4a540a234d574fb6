// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

func TestAnAskingPodRunsUnderTheEntrypoint(t *testing.T) {
	t.Parallel()
	namespace := optedInNamespace(t)
	script := "echo my parent is $PPID; " + forever[2]
	createPod(t, namespace, askingPod("asking", busybox(t, "main", "sh", "-c", script)))
	requireWrapped(t, waitUntilRunning(t, namespace, "asking"), "main")

	inside := func(command ...string) string {
		return strings.TrimSpace(execIn(t, namespace, "asking", "main", command...))
	}
	require.Equal(t, pod.EntrypointPath, inside("readlink", "/proc/1/exe"), "the program of PID 1")
	require.Equal(t, inside("sha256sum", pod.EntrypointPath)[:64], inside("sha256sum", "/proc/1/exe")[:64], "what PID 1 runs is what was copied")
	require.Equal(t, pod.EntrypointPath+" -- sh -c "+script, inside("sh", "-c", "tr '\\0' ' ' < /proc/1/cmdline"))
	require.Equal(t, "my parent is 1\n", logs(t, namespace, "asking", "main"))
	require.NotContains(t, inside("cat", "/proc/self/environ"), "ENTRYPOINTER", "our variables")
	_, err := cluster.Exec(t.Context(), namespace, "asking", "main", "sh", "-c", ": > "+pod.MountPath+"/file")
	require.ErrorContains(t, err, "Read-only", "writing next to the entrypoint")
}

func TestOnlyTheContainersThatAPodNamesAreWrapped(t *testing.T) {
	t.Parallel()
	namespace := optedInNamespace(t)
	readlink := []string{"readlink", "/proc/1/exe"}
	p := askingPod("narrowed", busybox(t, "first", readlink...), busybox(t, "second", readlink...), busybox(t, "third", readlink...))
	p.Annotations[pod.ContainersAnnotation] = "first, third"
	createPod(t, namespace, p)
	requireWrapped(t, waitUntilDone(t, namespace, "narrowed"), "first", "third")
	require.Equal(t, pod.EntrypointPath+"\n", logs(t, namespace, "narrowed", "first"))
	require.Equal(t, "/bin/busybox\n", logs(t, namespace, "narrowed", "second"))
}

func TestAPodThatDoesNotAskIsUntouchedInAnOptedInNamespace(t *testing.T) {
	t.Parallel()
	namespace := optedInNamespace(t)
	require.NoError(t, untouched(createPod(t, namespace, plainPod("silent", busybox(t, "main", "true")))))
	require.Equal(t, corev1.PodSucceeded, waitUntilDone(t, namespace, "silent").Status.Phase)
}

func TestServerSideDryRunShowsTheRewrittenPod(t *testing.T) {
	t.Parallel()
	namespace := optedInNamespace(t)
	seen, err := wouldBecome(t, namespace, askingPod("dry", busybox(t, "main", "echo", "hello")))
	require.NoError(t, err)
	requireWrapped(t, seen, "main")
	require.Equal(t, []string{"--", "echo", "hello"}, seen.Spec.Containers[0].Args)
	require.Equal(t, string(pod.Injected), seen.Annotations[pod.StatusAnnotation])
	pods, err := cluster.Kube.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Empty(t, pods.Items, "pods after a dry run")
}

func TestAPodAnnotationThatIsNeitherTrueNorFalseIsRefused(t *testing.T) {
	t.Parallel()
	namespace := optedInNamespace(t)
	p := plainPod("unclear", busybox(t, "main", "true"))
	p.Annotations = map[string]string{pod.InjectAnnotation: "yes"}
	_, err := cluster.Kube.CoreV1().Pods(namespace).Create(t.Context(), p, metav1.CreateOptions{})
	require.ErrorContains(t, err, `"yes" is neither "true" nor "false"`)
	require.ErrorContains(t, err, pod.InjectAnnotation)
	require.ErrorContains(t, err, `pod "unclear"`)
}

// requests are the requests, and the limits, of a container.
func requests(cpu, memory string) corev1.ResourceRequirements {
	list := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
	return corev1.ResourceRequirements{Requests: list, Limits: list}
}

func TestAGuaranteedPodStaysGuaranteedAndWithinItsQuota(t *testing.T) {
	t.Parallel()
	namespace := optedInNamespace(t)
	_, err := cluster.Kube.CoreV1().ResourceQuotas(namespace).Create(t.Context(), &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "tight"},
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{
			corev1.ResourceRequestsCPU: resource.MustParse("150m"), corev1.ResourceLimitsCPU: resource.MustParse("150m"),
			corev1.ResourceRequestsMemory: resource.MustParse("96Mi"), corev1.ResourceLimitsMemory: resource.MustParse("96Mi"),
		}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	p := askingPod("guaranteed", busybox(t, "small", "true"), busybox(t, "large", "true"))
	p.Spec.Containers[0].Resources = requests("50m", "64Mi")
	p.Spec.Containers[1].Resources = requests("100m", "32Mi")
	eventually(t, time.Minute, "the quota to be in force, and the pod to fit into it", func() error {
		_, err := cluster.Kube.CoreV1().Pods(namespace).Create(t.Context(), p, metav1.CreateOptions{})
		return err
	})
	done := waitUntilDone(t, namespace, "guaranteed")
	require.Equal(t, corev1.PodQOSGuaranteed, done.Status.QOSClass)
	require.Equal(t, corev1.PodSucceeded, done.Status.Phase)
	requireWrapped(t, done, "small", "large")
}

func TestInjectingTwiceEqualsInjectingOnce(t *testing.T) {
	t.Parallel()
	namespace := optedInNamespace(t)
	p := askingPod("twice", busybox(t, "command", "true"), busybox(t, "image"))
	once := createPod(t, namespace, p)
	requireWrapped(t, once, "command", "image")
	p.Name, p.Spec, p.Annotations = "twice-again", *once.Spec.DeepCopy(), once.Annotations
	twice := createPod(t, namespace, p)
	require.True(t, equality.Semantic.DeepEqual(once.Spec, twice.Spec), "once: %+v; twice: %+v", once.Spec, twice.Spec)
}

func TestANamespaceThatEnforcesTheRestrictedProfileAdmitsAWrappedPod(t *testing.T) {
	t.Parallel()
	namespace := optedInNamespace(t, "pod-security.kubernetes.io/enforce", "restricted")
	yes, no, user := true, false, int64(1234)
	p := askingPod("restricted", busybox(t, "main", "readlink", "/proc/1/exe"))
	p.Spec.SecurityContext = &corev1.PodSecurityContext{
		RunAsNonRoot:   &yes,
		RunAsUser:      &user,
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{
		AllowPrivilegeEscalation: &no,
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
	createPod(t, namespace, p)
	require.Equal(t, corev1.PodSucceeded, waitUntilDone(t, namespace, "restricted").Status.Phase)
	require.Equal(t, pod.EntrypointPath+"\n", logs(t, namespace, "restricted", "main"))
}

// The kubelet refuses to run a container as root that must not be, so the init
// container needs a user of its own here.
func TestAPodThatRunsAsRootIsWrapped(t *testing.T) {
	t.Parallel()
	namespace := optedInNamespace(t)
	root := int64(0)
	p := askingPod("root", busybox(t, "main", "sh", "-c", "id -u; readlink /proc/1/exe"))
	p.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: &root}
	createPod(t, namespace, p)
	require.Equal(t, corev1.PodSucceeded, waitUntilDone(t, namespace, "root").Status.Phase)
	require.Equal(t, "0\n"+pod.EntrypointPath+"\n", logs(t, namespace, "root", "main"))
}
