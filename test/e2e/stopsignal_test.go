// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// stoppedBy has a container stopped by another signal than SIGTERM. Kubernetes demands
// that the pod then names its operating system.
func stoppedBy(p *corev1.Pod, container int, signal corev1.Signal) {
	p.Spec.OS = &corev1.PodOS{Name: corev1.Linux}
	p.Spec.Containers[container].Lifecycle = &corev1.Lifecycle{StopSignal: &signal}
}

func TestTheStopSignalOfAContainerReachesItsCommand(t *testing.T) {
	t.Parallel()
	needsFeature(t, "ContainerStopSignals")
	eachWay(t, func(t *testing.T, namespace string, pod func(string, ...corev1.Container) *corev1.Pod) {
		c := busybox(t, "main", "sh", "-c", "trap 'echo term; exit 1' TERM; trap 'echo usr1; exit 0' USR1; echo started; while :; do sleep 0.1 & wait; done")
		p := pod("signalled", c)
		stoppedBy(p, 0, corev1.SIGUSR1)
		created := createPod(t, namespace, p)
		waitUntilRunning(t, namespace, p.Name)
		output := follow(t, namespace, p.Name, "main")
		require.Equal(t, "started", output.next())
		require.Equal(t, new(corev1.SIGUSR1), containerStatus(t, created, "main").StopSignal)
		deletePod(t, namespace, p.Name)
		require.Equal(t, []string{"usr1"}, output.rest())
	})
}

func TestAStopSignalOfTheSpecIsHeldBackUntilItsTurn(t *testing.T) {
	t.Parallel()
	needsFeature(t, "ContainerStopSignals")
	namespace := optedInNamespace(t)
	db := stopping(t, "db")
	db.Command[2] = strings.Replace(db.Command[2], "' TERM\n", "' USR1\n", 1)
	p := orderedPod("signals-in-line", map[string]string{"depends-on/web": "db:started"}, stopping(t, "web"), db)
	stoppedBy(p, 1, corev1.SIGUSR1)
	p.Spec.TerminationGracePeriodSeconds = new(int64(60))
	createPod(t, namespace, p)
	waitUntilRunning(t, namespace, p.Name)
	all := followAll(t, namespace, p.Name, "web", "db")
	deletePod(t, namespace, p.Name)
	_, webEnded := all["web"].times()
	dbTold, _ := all["db"].times()
	require.LessOrEqual(t, webEnded, dbTold)
	waitUntilPodIsGone(t, namespace, p.Name)
}
