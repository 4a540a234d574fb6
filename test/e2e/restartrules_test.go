// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/test/framework"
)

// needsFeature skips a test, with the reason, where Kubernetes has a feature gate off or
// doesn't know it.
func needsFeature(t *testing.T, gate string) {
	t.Helper()
	on, err := cluster.HasFeature(t.Context(), gate)
	require.NoError(t, err)
	if !on {
		t.Skipf("feature gate %s isn't on in Kubernetes %s", gate, serverVersion(t))
	}
}

// serverVersion is the API server's.
func serverVersion(t *testing.T) string {
	t.Helper()
	version, err := cluster.Kube.Discovery().ServerVersion()
	require.NoError(t, err)
	return version.GitVersion
}

// restartedBy has a container restarted after an exit code, and after no other.
func restartedBy(c corev1.Container, action corev1.ContainerRestartRuleAction, code int32) corev1.Container {
	c.RestartPolicy = new(corev1.ContainerRestartPolicyNever)
	c.RestartPolicyRules = []corev1.ContainerRestartRule{{
		Action: action,
		ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{
			Operator: corev1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{code},
		},
	}}
	return c
}

// withData mounts a volume at /data of all containers.
func withData(p *corev1.Pod) *corev1.Pod {
	p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	for at := range p.Spec.Containers {
		p.Spec.Containers[at].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	}
	return p
}

// firstLife is a script that does something once, and ends with 0 in its next life.
func firstLife(name, does string) string {
	return fmt.Sprintf("if mkdir /data/%s 2>/dev/null; then %s; fi; echo lives again", name, does)
}

func TestAContainerIsRestartedInPlaceOnTheExitCodesOfItsRules(t *testing.T) {
	t.Parallel()
	needsFeature(t, "ContainerRestartRules")
	ends := map[string]struct {
		does     string
		code     int32
		restarts bool
	}{
		"listed":   {"exit 42", 42, true},
		"killed":   {"kill -KILL $$$$", 137, true}, // Kubernetes makes $$ of it, the shell's process id.
		"late":     {"exec sleep 600", 124, true},
		"unlisted": {"exit 43", 42, false},
	}
	p := askingPod("rules")
	p.Annotations["timeout.entrypointer.dev/late"] = "1s"
	for name, end := range ends {
		c := busybox(t, name, "sh", "-c", firstLife(name, end.does))
		p.Spec.Containers = append(p.Spec.Containers, restartedBy(c, corev1.ContainerRestartRuleActionRestart, end.code))
	}
	namespace := optedInNamespace(t)
	created := createPod(t, namespace, withData(p))
	done := waitUntilDone(t, namespace, p.Name)
	require.Equal(t, created.UID, done.UID)
	require.Zero(t, done.Status.InitContainerStatuses[0].RestartCount, "the supervisor is still there")
	require.Equal(t, corev1.PodFailed, done.Status.Phase, "unlisted failed for good")
	for _, s := range done.Status.ContainerStatuses {
		end := ends[s.Name]
		if !end.restarts {
			require.Equal(t, int32(43), s.State.Terminated.ExitCode, s.Name)
			require.Zero(t, s.RestartCount, s.Name)
			continue
		}
		require.Zero(t, s.State.Terminated.ExitCode, s.Name)
		require.Equal(t, int32(1), s.RestartCount, s.Name)
		if former := s.LastTerminationState.Terminated; former != nil { // kubelets before 1.36 leave it out
			require.Equal(t, end.code, former.ExitCode, s.Name)
		}
		require.Equal(t, "lives again\n", logs(t, namespace, p.Name, s.Name))
	}
}

func TestADependencyThatItsRulesRestartIsWaitedForInItsNextLife(t *testing.T) {
	t.Parallel()
	needsFeature(t, "ContainerRestartRules")
	namespace := optedInNamespace(t)
	migrate := busybox(t, "migrate", "sh", "-c", firstLife("migrate", "exit 42")+"; echo migrated >/data/done")
	p := orderedPod("next-life", map[string]string{"depends-on/web": "migrate:completed"},
		busybox(t, "web", "cat", "/data/done"),
		restartedBy(migrate, corev1.ContainerRestartRuleActionRestart, 42))
	createPod(t, namespace, withData(p))
	done := waitUntilDone(t, namespace, p.Name)
	require.Equal(t, corev1.PodSucceeded, done.Status.Phase, containerStates(done))
	require.Equal(t, "migrated\n", printed(t, namespace, p.Name, "web"))
	require.Equal(t, int32(1), containerStatus(t, done, "migrate").RestartCount)
}

// The volumes outlast the restart: ours, with the supervisor and what is known of each
// container, and the pod's own.
func TestAPodWhoseContainersAreAllRestartedKeepsItsOrder(t *testing.T) {
	t.Parallel()
	needsFeature(t, "RestartAllContainersOnContainerExits")
	namespace := optedInNamespace(t)
	// Each says which of its lives it is.
	const life = `say() { echo "$*" >>/data/story; }; n=$(($(cat /data/$0 2>/dev/null) + 1)); echo $n >/data/$0; `
	db := busybox(t, "db", "sh", "-c", life+`sleep 2; say db $n; touch /tmp/ready; exec sleep 600`, "db")
	web := busybox(t, "web", "sh", "-c", life+`say web $n; touch /tmp/ready; exec sleep 600`, "web")
	work := busybox(t, "work", "sh", "-c", life+`say work $n; test $n = 3 || exit 42; exec sleep 600`, "work")
	p := withData(orderedPod("all-again", map[string]string{
		"ready-when/db": "file:///tmp/ready", "depends-on/web": "db:ready", "ready-when/web": "file:///tmp/ready", "depends-on/work": "web:ready",
	},
		restartedBy(work, corev1.ContainerRestartRuleActionRestartAllContainers, 42), web, db))
	created := createPod(t, namespace, p)

	eventually(t, muchPatience, "work to live for the third time", func() error {
		got, err := cluster.Kube.CoreV1().Pods(namespace).Get(t.Context(), p.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if got.Status.Phase == corev1.PodFailed {
			return framework.Permanent(errors.New(containerStates(got)))
		}
		told, err := cluster.Exec(t.Context(), namespace, p.Name, "work", "cat", "/data/story")
		if err == nil && !strings.Contains(told, "work 3\n") {
			err = fmt.Errorf("the story is %q; %s", told, containerStates(got))
		}
		return err
	})
	require.Equal(t, "db 1\nweb 1\nwork 1\ndb 2\nweb 2\nwork 2\ndb 3\nweb 3\nwork 3\n", execIn(t, namespace, p.Name, "work", "cat", "/data/story"))
	again, err := cluster.Kube.CoreV1().Pods(namespace).Get(t.Context(), p.Name, metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, created.UID, again.UID)
	require.Equal(t, int32(2), again.Status.InitContainerStatuses[0].RestartCount, "the supervisor was copied again")
	for _, s := range again.Status.ContainerStatuses {
		require.Equal(t, int32(2), s.RestartCount, s.Name)
	}
}
