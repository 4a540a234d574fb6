//go:build outage

// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package outage

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

// arg changes an argument of a step.
func arg(step int, from, to string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		args := p.Spec.Containers[step].Args
		args[slices.Index(args, from)] = to
	}
}

// flags puts words before the flag with the command of the second step.
func flags(words ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		c := &p.Spec.Containers[1]
		c.Args = slices.Insert(c.Args, slices.Index(c.Args, "-entrypoint"), words...)
	}
}

func mount(path string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		c := &p.Spec.Containers[1]
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "tekton-internal-home", MountPath: path})
	}
}

func needs(step int, requests, limits corev1.ResourceList) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Containers[step].Resources = corev1.ResourceRequirements{Requests: requests, Limits: limits}
	}
}

func amount(name corev1.ResourceName, quantity string) corev1.ResourceList {
	return corev1.ResourceList{name: resource.MustParse(quantity)}
}

func annotated(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Annotations[key] = value }
}

// changes are changes of a plain pod, with what the policy makes of the pod then.
var changes = []struct {
	name    string
	verdict string
	change  func(*corev1.Pod)
}{
	{"none", same, func(*corev1.Pod) {}},
	{"an unknown flag", left, flags("-new_flag", "x")},
	{"a debugger", left, flags("-breakpoint_on_failure")},
	{"a switch", same, flags("-compress_termination_message")},
	{"onError", same, flags("-on_error", "continue")},
	{"results", same, flags("-results", "a,b")},
	{"when", same, flags("--when_expressions", `[{"input":"$(x)"}]`)},
	{"a time limit", same, flags("-timeout", "1h0m0.5s")},
	{"a time limit that Tekton refuses", left, flags("-timeout", "1 day")},
	{"a flag without a value", left, func(p *corev1.Pod) { p.Spec.Containers[1].Args = p.Spec.Containers[1].Args[:3] }},
	{"a value that looks like a flag", same, flags("-on_error", "-basic-git=x")},
	{"a value of several lines", left, flags("-on_error", "x\n-new_flag")},
	{"credentials", same, flags("-basic-docker=x=y")},
	{"no dashes", left, func(p *corev1.Pod) {
		p.Spec.Containers[1].Args = slices.DeleteFunc(p.Spec.Containers[1].Args, func(a string) bool { return a == "--" })
	}},
	{"a path that the kubelet expands", left, arg(1, "/tekton/run/1/out", "/tekton/run/$(X)/out")},
	{"a relative path", left, arg(1, "/tekton/run/0/out", "run/0/out")},
	{"two files", left, arg(1, "/tekton/run/0/out", "/tekton/run/0/out,/x")},
	{"another command", left, func(p *corev1.Pod) { p.Spec.Containers[1].Command = []string{"/bin/sh"} }},
	{"a forged supervisor", left, func(p *corev1.Pod) { p.Spec.Containers[1].Command = []string{pod.EntrypointPath} }},
	{"no wait for the start", same, func(p *corev1.Pod) { p.Spec.Containers[0].Args = p.Spec.Containers[0].Args[3:] }},
	{"a sidecar", same, func(p *corev1.Pod) {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "sidecar-db", Image: "busybox", Args: []string{"--"}})
	}},
	{"a sidecar before the steps", same, func(p *corev1.Pod) {
		p.Spec.Containers = slices.Insert(p.Spec.Containers, 0, corev1.Container{Name: "sidecar-db", Image: "busybox"})
	}},
	{"a step's directory that nobody may write to", same, func(p *corev1.Pod) {
		for at := range p.Spec.Containers[1].VolumeMounts {
			p.Spec.Containers[1].VolumeMounts[at].ReadOnly = true
		}
	}},
	{"a part of a step's directory", same, func(p *corev1.Pod) {
		mounts := p.Spec.Containers[0].VolumeMounts
		mounts[len(mounts)-1].SubPath = "x"
	}},
	{"a mount over all", left, mount("/./")},
	{"a mount in our place", left, mount("/entrypointer/bin")},
	{"a mount by a detour", left, mount("/x/../entrypointer")},
	{"a mount at a hidden directory", same, mount("/.docker")},
	{"a relative mount", left, mount("entrypointer/bin")},
	{"a block device", left, func(p *corev1.Pod) {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "d", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "d"}}})
		p.Spec.Containers[1].VolumeDevices = []corev1.VolumeDevice{{Name: "d", DevicePath: "/entrypointer"}}
	}},
	{"a volume of our name", left, func(p *corev1.Pod) {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: pod.VolumeName})
	}},
	{"requests", same, needs(1, amount("cpu", "500m"), nil)},
	{"limits", same, needs(2, nil, amount("cpu", "1"))},
	{"memory alone", same, needs(0, amount("memory", "64Mi"), amount("memory", "128Mi"))},
	{"more of the second than of the third", same, func(p *corev1.Pod) {
		needs(1, amount("cpu", "1500m"), amount("memory", "1Gi"))(p)
		needs(2, amount("cpu", "1"), nil)(p)
	}},
	{"a device", left, needs(1, nil, amount("nvidia.com/gpu", "1"))},
	{"a limit of the disk", left, needs(1, nil, amount("ephemeral-storage", "1Gi"))},
	{"root", same, func(p *corev1.Pod) { p.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: new(int64(0))} }},
	{"another user", same, func(p *corev1.Pod) { p.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: new(int64(7))} }},
	{"no token", same, func(p *corev1.Pod) { p.Spec.AutomountServiceAccountToken = new(false) }},
	{"volumes that may be evicted", same, annotated("cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes", "a,b")},
	{"an option", left, annotated("entrypointer.dev/timeout", "1h")},
	{"an option of a step", left, annotated("timeout.entrypointer.dev/s1", "1h")},
	{"opting out", left, annotated("entrypointer.dev/inject", "false")},
	{"a label of ours", left, func(p *corev1.Pod) { p.Labels["entrypointer.dev/timeout"] = "1h" }},
	{"two owners", left, func(p *corev1.Pod) { p.Labels["serving.knative.dev/revision"] = "x" }},
	{"a status of its own", same, annotated(pod.StatusAnnotation, "OptedOut")},
	{"another controller", left, func(p *corev1.Pod) { p.OwnerReferences[0].Kind = "Job" }},
	{"a restart", left, func(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyOnFailure }},
	{"Windows", left, func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"kubernetes.io/os": "windows"} }},
	{"too many steps", left, func(p *corev1.Pod) {
		p.Spec.Containers = taskRunPod(101).Spec.Containers
		p.Spec.Volumes = taskRunPod(101).Spec.Volumes
	}},
}

func TestThePolicyWrapsWhatIsPlainAndLeavesTheRest(t *testing.T) {
	s := startAPIServer(t)
	s.installPolicyAlone(t)
	s.awaitPolicy(t)
	for _, c := range changes {
		t.Run(c.name, func(t *testing.T) {
			p := taskRunPod(3)
			c.change(p)
			verdict, err := s.compare(t, p)
			require.NoError(t, err)
			require.Equal(t, c.verdict, verdict)
		})
	}
	t.Run("several changes at once", func(t *testing.T) {
		random, verdicts := rand.New(rand.NewPCG(1, 2)), map[string]int{}
		combinations := 300
		if testing.Short() {
			combinations = 60
		}
		for range combinations {
			p, names := taskRunPod(1+random.IntN(2)+2), []string{}
			for range 1 + random.IntN(3) {
				c := changes[random.IntN(len(changes)-1)]
				if c.verdict == left && random.IntN(4) > 0 || slices.Contains(names, c.name) {
					continue
				}
				names = append(names, c.name)
				tryChange(c.change, p)
			}
			verdict, err := s.compare(t, p)
			if apierrors.IsInvalid(err) {
				continue
			}
			require.NoError(t, err)
			require.Contains(t, []string{same, left}, verdict, "%v", names)
			verdicts[verdict]++
		}
		t.Log(verdicts)
		require.Greater(t, verdicts[same], combinations/4)
		require.Greater(t, verdicts[left], combinations/8)
	})
}

// tryChange changes a pod, unless an earlier change has removed what this one changes.
func tryChange(change func(*corev1.Pod), p *corev1.Pod) {
	before := p.DeepCopy()
	defer func() {
		if recover() != nil {
			*p = *before
		}
	}()
	change(p)
}
