// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package autodelivery

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

// Canaries are the names of canaries: as many as may run at a time. The rights in
// config/auto are restricted to pods of these names.
var Canaries = []string{"entrypointer-canary-0", "entrypointer-canary-1", "entrypointer-canary-2"}

const (
	// questionAnnotation holds the question that a canary answers.
	questionAnnotation = "entrypointer.dev/question"
	// canaryDeadline is the longest time that the kubelet lets a canary run.
	canaryDeadline = 90 * time.Second
	// canaryPatience is the longest time that the injector waits for a canary: the node
	// may have no kubelet.
	canaryPatience = canaryDeadline + 30*time.Second
	// nobody is the user of the images' base.
	nobody = 65532
)

// canary returns a pod that mounts the images as tenants' pods do, and in which the
// supervisor runs itself. The pod names its node, so that taints and the scheduler's
// other work don't matter: a kubelet without room refuses the pod.
func canary(name, namespace, node string, q *question, images Images, owner metav1.OwnerReference) *corev1.Pod {
	p := Canary(name, images)
	p.Namespace, p.OwnerReferences, p.Spec.NodeName = namespace, []metav1.OwnerReference{owner}, node
	p.Annotations = map[string]string{questionAnnotation: q.id}
	return p
}

// Canary returns a canary without a question and a node. The policy of config/auto
// restricts canaries to this form.
func Canary(name string, images Images) *corev1.Pod {
	p := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Name:   name,
			Labels: map[string]string{"app.kubernetes.io/name": "canary", "app.kubernetes.io/part-of": "entrypointer"},
		},
		Spec: corev1.PodSpec{
			RestartPolicy:                 corev1.RestartPolicyNever,
			ActiveDeadlineSeconds:         new(int64(canaryDeadline.Seconds())),
			TerminationGracePeriodSeconds: new(int64(1)),
			AutomountServiceAccountToken:  new(false),
			EnableServiceLinks:            new(false),
			Tolerations:                   []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: new(true), RunAsUser: new(int64(nobody)),
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
		},
	}
	for _, c := range []struct{ name, image string }{{"entrypoint", images.Entrypoint}, {"entrypoint-with-logs", images.WithLogs}} {
		volume, mount := pod.EntrypointVolume(c.image)
		volume.Name, mount.Name = c.name, c.name
		p.Spec.Volumes = append(p.Spec.Volumes, volume)
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{
			Name: c.name,
			// Any image would do, and the node already has this one.
			Image:           c.image,
			ImagePullPolicy: corev1.PullIfNotPresent,
			Command:         []string{pod.EntrypointPath},
			Args:            []string{"--", pod.EntrypointPath, "-version"},
			VolumeMounts:    []corev1.VolumeMount{mount},
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1m"), corev1.ResourceMemory: resource.MustParse("8Mi")},
				Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")},
			},
			SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
				Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			},
		})
	}
	return p
}

// resultOf returns the result of a canary of some age, started if it isn't over yet, and
// the reason.
func resultOf(p *corev1.Pod, age time.Duration) (result, string) {
	switch {
	case p.Status.Phase == corev1.PodSucceeded:
		return proven, ""
	case p.Status.Phase == corev1.PodFailed:
		return failed, whyFailed(p)
	case age > canaryPatience:
		return failed, fmt.Sprintf("it didn't run within %v%s", canaryPatience, behindColon(whyFailed(p)))
	default:
		return started, ""
	}
}

// whyFailed returns the kubelet's reasons.
func whyFailed(p *corev1.Pod) string {
	var says []string
	add := func(what, reason, message string) {
		if reason+message != "" {
			says = append(says, cut(strings.Join(slices.DeleteFunc([]string{what, reason, message}, func(s string) bool { return s == "" }), ": "), maxMessage/2))
		}
	}
	add("", p.Status.Reason, p.Status.Message)
	for _, c := range p.Status.ContainerStatuses {
		if w := c.State.Waiting; w != nil {
			add("container "+c.Name, w.Reason, w.Message)
		}
		if t := c.State.Terminated; t != nil && t.ExitCode != 0 {
			add(fmt.Sprintf("container %s ended with %d", c.Name, t.ExitCode), t.Reason, t.Message)
		}
	}
	if p.Status.Phase == corev1.PodFailed && len(says) == 0 {
		says = []string{"its kubelet gives no reason"}
	}
	return strings.Join(says, "; ")
}

func behindColon(said string) string {
	if said == "" {
		return ""
	}
	return ": " + said
}
