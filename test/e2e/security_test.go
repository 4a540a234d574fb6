// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

// identityScript says who a container runs as, and what it may do. A shell that may not
// write a file says so.
const identityScript = `
id -u; id -g; id -G
touch /data/file; stat -c '%n %u %g %a' /data /data/file
touch /file && echo wrote to /
grep -e Cap -e NoNewPrivs -e Seccomp: /proc/self/status
cat /proc/self/uid_map
cat /proc/[0-9]*/comm 2>/dev/null | grep -qx kubelet && echo sees others
echo PID 1 is $(cat /proc/1/comm)
true`

// restricted is a pod as the PodSecurity profile of that name wants it.
func restricted(p *corev1.Pod) *corev1.Pod {
	p.Spec.SecurityContext = &corev1.PodSecurityContext{
		RunAsNonRoot:   new(true),
		RunAsUser:      new(int64(1234)),
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	for i := range p.Spec.Containers {
		p.Spec.Containers[i].SecurityContext = &corev1.SecurityContext{
			AllowPrivilegeEscalation: new(false),
			Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		}
	}
	return p
}

// ofUser is busybox as an image that says who it runs as.
func ofUser(t *testing.T, name, user string) string {
	t.Helper()
	return pushedTo(t, testRepository(t, "user-"+name), changedBusybox(t, func(config *v1.Config) { config.User = user }))
}

func TestWhatAPodMayDoIsWhatItMayDoUnwrapped(t *testing.T) {
	t.Parallel()
	both := newPair(t)
	numbered := ofUser(t, "numbered", "4321")
	for name, variant := range map[string]struct {
		says   string // unwrapped, or the test is none
		change func(*corev1.PodSpec)
	}{
		"root": {"0\n", func(spec *corev1.PodSpec) { spec.SecurityContext.RunAsUser = new(int64(0)) }},
		"root-in-one-container": {"0\n", func(spec *corev1.PodSpec) {
			spec.SecurityContext.RunAsUser = new(int64(1234))
			spec.Containers[0].SecurityContext.RunAsUser = new(int64(0))
		}},
		"a-user-without-a-name": {"1000680000\n", func(spec *corev1.PodSpec) {
			spec.SecurityContext.RunAsUser, spec.SecurityContext.RunAsGroup = new(int64(1000680000)), new(int64(0))
		}},
		"a-group-for-files": {"/data/file 1234 2345 ", func(spec *corev1.PodSpec) {
			spec.SecurityContext.RunAsUser, spec.SecurityContext.FSGroup = new(int64(1234)), new(int64(2345))
			spec.SecurityContext.SupplementalGroups = []int64{3456}
		}},
		"a-numbered-user-of-the-image": {"4321\n", func(spec *corev1.PodSpec) {
			spec.SecurityContext.RunAsNonRoot = new(true)
			spec.Containers[0].Image = numbered
		}},
		"a-named-user-of-the-image": {"65532\n", func(spec *corev1.PodSpec) { spec.Containers[0].Image = ofUser(t, "named", "nonroot") }},
		"read-only":                 {"touch: /file: Read-only file system\n", func(spec *corev1.PodSpec) { spec.Containers[0].SecurityContext.ReadOnlyRootFilesystem = new(true) }},
		"privileged":                {"Seccomp:\t0\n", func(spec *corev1.PodSpec) { spec.Containers[0].SecurityContext.Privileged = new(true) }},
		"fewer-capabilities": {"CapBnd:\t0000000000000400\n", func(spec *corev1.PodSpec) {
			spec.Containers[0].SecurityContext.Capabilities = &corev1.Capabilities{
				Drop: []corev1.Capability{"ALL"}, Add: []corev1.Capability{"NET_BIND_SERVICE"},
			}
		}},
		"no-new-privileges": {"NoNewPrivs:\t1\n", func(spec *corev1.PodSpec) { spec.Containers[0].SecurityContext.AllowPrivilegeEscalation = new(false) }},
		"seccomp": {"Seccomp:\t2\n", func(spec *corev1.PodSpec) {
			spec.SecurityContext.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
		}},
		"shared-processes":    {"PID 1 is pause\n", func(spec *corev1.PodSpec) { spec.ShareProcessNamespace = new(true) }},
		"the-hosts-processes": {"sees others\n", func(spec *corev1.PodSpec) { spec.HostPID = true }},
		"the-hosts-network":   {"0\n", func(spec *corev1.PodSpec) { spec.HostNetwork = true }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := busybox(t, "main", "sh", "-c", identityScript)
			c.SecurityContext = &corev1.SecurityContext{}
			c.VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
			p := askingPod(name, c)
			p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
			p.Spec.SecurityContext = &corev1.PodSecurityContext{}
			variant.change(&p.Spec)
			plain, wrapped := both.run(t, p)
			require.Contains(t, plain.Log, variant.says)
			require.Equal(t, withoutPID1(plain), withoutPID1(wrapped))
		})
	}
}

// withoutPID1 drops what may well differ: who is the first process, where a
// container has one of its own, and that the first isn't the only one.
func withoutPID1(r containerResult) containerResult {
	r.Log = strings.NewReplacer("PID 1 is sh\n", "", "PID 1 is entrypoint\n", "").Replace(r.Log)
	return r
}

func TestANamespaceThatEnforcesTheRestrictedProfileAdmitsAWrappedPod(t *testing.T) {
	t.Parallel()
	namespace := optedInNamespace(t, "pod-security.kubernetes.io/enforce", "restricted")
	createPod(t, namespace, restricted(askingPod("restricted", busybox(t, "main", "readlink", "/proc/1/exe"))))
	require.Equal(t, corev1.PodSucceeded, waitUntilDone(t, namespace, "restricted").Status.Phase)
	require.Equal(t, pod.EntrypointPath+"\n", logs(t, namespace, "restricted", "main"))
}

func TestWhatThePodSecurityAdmissionSaysIsWhatItSaysUnwrapped(t *testing.T) {
	t.Parallel()
	both := newPair(t, "pod-security.kubernetes.io/enforce", "restricted")
	requireRefusedAlike(t, both, askingPod("anything-goes", busybox(t, "main", "true")))
	root := restricted(askingPod("root", busybox(t, "main", "true")))
	root.Spec.SecurityContext.RunAsUser = new(int64(0))
	requireRefusedAlike(t, both, root)
	several := restricted(askingPod("several", busybox(t, "main", "true"), busybox(t, "other", "true")))
	several.Spec.Containers[1].SecurityContext.Capabilities = nil
	requireRefusedAlike(t, both, several)
}

// The kubelet finds out what an image's user is, and refuses to start it where
// it must not be root.
func TestAContainerThatTheKubeletRefusesToStartIsRefusedAlike(t *testing.T) {
	t.Parallel()
	both := newPair(t)
	for name, variant := range map[string]struct {
		image, says string
		change      func(*corev1.Pod)
	}{
		"named": {ofUser(t, "named", "nonroot"), "non-numeric user (nonroot)", func(*corev1.Pod) {}},
		"root":  {image(t, "busybox:1.37"), "image will run as root", func(*corev1.Pod) {}},
		"said-to-be-root": {image(t, "busybox:1.37"), "runAsUser breaks non-root policy", func(p *corev1.Pod) {
			p.Spec.SecurityContext.RunAsUser = new(int64(0))
		}},
		"one-said-to-be-root": {image(t, "busybox:1.37"), "runAsUser breaks non-root policy", func(p *corev1.Pod) {
			p.Spec.SecurityContext.RunAsUser = new(int64(1234))
			p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{RunAsUser: new(int64(0))}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := askingPod(name, corev1.Container{Name: "main", Image: variant.image, Command: []string{"true"}})
			p.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsNonRoot: new(true)}
			variant.change(p)
			_, created := both.create(t, p)
			requireWrapped(t, created, "main")
			plain, wrapped := complaint(t, both.plain, name), complaint(t, both.optedIn, name)
			require.Contains(t, plain, "CreateContainerConfigError")
			require.Contains(t, plain, variant.says)
			require.Equal(t, plain, wrapped)
		})
	}
}

var inParentheses = regexp.MustCompile(`\(pod: .*\)`)

// complaint is what the kubelet says of a container that it doesn't start,
// without the words that name this pod.
func complaint(t *testing.T, namespace, name string) (says string) {
	t.Helper()
	eventually(t, patience, fmt.Sprintf("the kubelet to complain about pod %q in namespace %q", name, namespace), func() error {
		p, err := cluster.Kube.CoreV1().Pods(namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, s := range p.Status.ContainerStatuses {
			if waits := s.State.Waiting; waits != nil && waits.Reason != "PodInitializing" && waits.Reason != "ContainerCreating" {
				says = waits.Reason + ": " + inParentheses.ReplaceAllString(waits.Message, "")
				return nil
			}
		}
		return fmt.Errorf("it doesn't: %s", containerStates(p))
	})
	return says
}

// Whether a node can give a pod users of its own depends on its kernel, its
// runtime and its file systems. Where it can't, the wrapped pod fails like the
// other.
func TestAPodWithUsersOfItsOwnRunsWhereItRunsUnwrapped(t *testing.T) {
	t.Parallel()
	both := newPair(t)
	p := askingPod("users", busybox(t, "main", "sh", "-c", "id -u; cat /proc/self/uid_map; touch /data/file; stat -c '%u %g' /data/file"))
	p.Spec.HostUsers = new(false)
	p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	_, created := both.create(t, p)
	requireWrapped(t, created, "main")
	plain, wrapped := became(t, both.plain, p.Name), became(t, both.optedIn, p.Name)
	t.Logf("unwrapped, it: %s", plain)
	require.Equal(t, plain, wrapped)
}

var numbers = regexp.MustCompile(`\d+`)

// became is what became of a pod that may not even start. Numbers are left out:
// the kubelet chooses another range of users each time.
func became(t *testing.T, namespace, name string) (what string) {
	t.Helper()
	eventually(t, patience, fmt.Sprintf("pod %q in namespace %q to run or to fail", name, namespace), func() error {
		p, err := cluster.Kube.CoreV1().Pods(namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
			what = string(p.Status.Phase) + ", " + numbers.ReplaceAllString(logs(t, namespace, name, "main"), "N")
			return nil
		}
		events, err := cluster.Kube.CoreV1().Events(namespace).List(t.Context(), metav1.ListOptions{
			FieldSelector: "involvedObject.name=" + name + ",type=Warning",
		})
		if err == nil && len(events.Items) == 0 {
			return fmt.Errorf("it is %s: %s", p.Status.Phase, containerStates(p))
		}
		if err == nil {
			what = events.Items[0].Reason
		}
		return err
	})
	return what
}
