// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

func TestAJobIsCompleteThoughItsHelperWouldServeForEver(t *testing.T) {
	t.Parallel()
	namespace := optedInNamespace(t)
	createExample(t, namespace, "order/job-with-sidecar.yaml")
	waitForJob(t, namespace, "job-with-sidecar")
	p, err := cluster.PodOf(t.Context(), namespace, "job-name=job-with-sidecar")
	require.NoError(t, err)
	require.Equal(t, "Injected by init-container; order: fixtures -> work; fixtures until work", p.Annotations[pod.StatusAnnotation])
	require.Equal(t, "hello from the helper\n", printed(t, namespace, p.Name, "work"))
	require.Zero(t, ended(t, p, "fixtures").ExitCode)
}

// stopping is a container that says when it is told to stop, and when it has, in seconds
// since the node's start. That takes it a second.
func stopping(t *testing.T, name string) corev1.Container {
	t.Helper()
	return busybox(t, name, "sh", "-c", `now() { read -r up idle </proc/uptime; echo "$1 $up"; }
trap 'now told; sleep 1; now ended; exit 0' TERM
echo up
while true; do sleep 1 & wait; done`)
}

// inLine is a pod in which api depends on db, and web on api.
func inLine(t *testing.T, name string, graceSeconds int64) *corev1.Pod {
	t.Helper()
	p := orderedPod(name, map[string]string{"depends-on/api": "db:started", "depends-on/web": "api:started"},
		stopping(t, "web"), stopping(t, "api"), stopping(t, "db"))
	p.Spec.TerminationGracePeriodSeconds = &graceSeconds
	return p
}

// times reads what is left of a container's output: when it was told to stop, and when it had.
func (o *output) times() (told, ended float64) {
	o.t.Helper()
	said := o.rest()
	for _, line := range said {
		word, at, _ := strings.Cut(line, " ")
		seconds, err := strconv.ParseFloat(at, 64)
		switch word {
		case "told":
			require.NoError(o.t, err)
			told = seconds
		case "ended":
			require.NoError(o.t, err)
			ended = seconds
		}
	}
	require.NotZero(o.t, told, "%q", said)
	require.NotZero(o.t, ended, "%q", said)
	return told, ended
}

// followAll follows containers of a pod from the time on at which each is up.
func followAll(t *testing.T, namespace, name string, containers ...string) map[string]*output {
	t.Helper()
	all := map[string]*output{}
	for _, container := range containers {
		all[container] = follow(t, namespace, name, container)
		line := all[container].next()
		for strings.HasPrefix(line, "entrypointer: waiting for ") { // longer than ten seconds, on a busy node
			line = all[container].next()
		}
		require.Equal(t, "up", line, container)
	}
	return all
}

func TestAPodIsStoppedInTheReverseOrder(t *testing.T) {
	t.Parallel()
	namespace := optedInNamespace(t)
	createPod(t, namespace, inLine(t, "line", 60))
	waitUntilRunning(t, namespace, "line")
	all := followAll(t, namespace, "line", "web", "api", "db")
	deletePod(t, namespace, "line")
	_, webEnded := all["web"].times()
	apiTold, apiEnded := all["api"].times()
	dbTold, _ := all["db"].times()
	require.LessOrEqual(t, webEnded, apiTold)
	require.LessOrEqual(t, apiEnded, dbTold)
	waitUntilPodIsGone(t, namespace, "line")
}

// Hard case 4: the kubelet stops one container of a pod, not the pod.
func TestAContainerThatFailsItsLivenessProbeIsNotHeldBack(t *testing.T) {
	t.Parallel()
	namespace := optedInNamespace(t)
	const grace = 90 // a third of which would be its share
	p := inLine(t, "sick", grace)
	p.Spec.RestartPolicy = corev1.RestartPolicyAlways
	p.Spec.Containers[1].LivenessProbe = &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"sh", "-c", "! test -e /tmp/sick"}}}, PeriodSeconds: 1, FailureThreshold: 1, TimeoutSeconds: 30,
	}
	created := createPod(t, namespace, p)
	waitUntilRunning(t, namespace, "sick")
	all := followAll(t, namespace, "sick", "web", "api", "db")
	sick, err := strconv.ParseFloat(strings.Fields(execIn(t, namespace, "sick", "api", "sh", "-c", "cat /proc/uptime; touch /tmp/sick"))[0], 64)
	require.NoError(t, err)
	told, _ := all["api"].times()
	require.Less(t, told-sick, float64(grace)/3)
	eventually(t, patience, "the container to run again", func() error {
		if s := containerStatus(t, created, "api"); s.RestartCount == 0 || s.State.Running == nil {
			return fmt.Errorf("it was restarted %d times, and is %+v", s.RestartCount, s.State)
		}
		return nil
	})
	require.Zero(t, containerStatus(t, created, "web").RestartCount)
	require.Zero(t, containerStatus(t, created, "db").RestartCount)
	deletePod(t, namespace, "sick")
	_, _ = all["web"].times()
	_, _ = all["db"].times()
}

// Hard case 4: the signal of the one that depends on it comes after its hook.
func TestADependencyIsHeldBackDuringAPreStopHook(t *testing.T) {
	t.Parallel()
	namespace := optedInNamespace(t)
	p := orderedPod("hooked", map[string]string{"depends-on/web": "db:started"}, stopping(t, "web"), stopping(t, "db"))
	p.Spec.TerminationGracePeriodSeconds = new(int64(60))
	p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"sleep", "8"}}}}
	createPod(t, namespace, p)
	waitUntilRunning(t, namespace, "hooked")
	all := followAll(t, namespace, "hooked", "web", "db")
	before, err := strconv.ParseFloat(strings.Fields(execIn(t, namespace, "hooked", "web", "cat", "/proc/uptime"))[0], 64)
	require.NoError(t, err)
	deletePod(t, namespace, "hooked")
	webTold, webEnded := all["web"].times()
	dbTold, _ := all["db"].times()
	require.GreaterOrEqual(t, webTold-before, 8.0, "the hook comes first")
	require.LessOrEqual(t, webEnded, dbTold)
}

// Hard case 5: nobody in the pod knows that its grace period was made shorter.
func TestAPodThatIsDeletedWithAShorterGracePeriodEndsInTime(t *testing.T) {
	t.Parallel()
	namespace := optedInNamespace(t)
	p := inLine(t, "hasty", 90)
	p.Spec.Containers[0].Command = []string{"sh", "-c", "trap '' TERM; echo up; while true; do sleep 1; done"}
	createPod(t, namespace, p)
	waitUntilRunning(t, namespace, "hasty")
	followAll(t, namespace, "hasty", "web", "api", "db")
	deleted := time.Now()
	require.NoError(t, cluster.Kube.CoreV1().Pods(namespace).Delete(t.Context(), "hasty", metav1.DeleteOptions{GracePeriodSeconds: new(int64(1))}))
	waitUntilPodIsGone(t, namespace, "hasty")
	require.Less(t, time.Since(deleted), 30*time.Second, "the share of the second would end then")
}
