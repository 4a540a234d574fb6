// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/pkg/pod"
	"github.com/entrypointer/entrypointer/test/framework"
)

// nextRelease builds a release that spells a flag differently.
func nextRelease(t *testing.T) (file, copier string) {
	t.Helper()
	file, copier, err := framework.NextRelease(t.Context(), t.TempDir())
	require.NoError(t, err)
	return file, copier
}

// copierImage is the image of the init containers that the installed release adds.
func copierImage(t *testing.T) string {
	t.Helper()
	deployment, err := cluster.Kube.AppsV1().Deployments(framework.SystemNamespace).Get(t.Context(), framework.Injector, metav1.GetOptions{})
	require.NoError(t, err)
	args := deployment.Spec.Template.Spec.Containers[0].Args
	return args[slices.Index(args, "-copier-image")+1]
}

// An upgradeLoad creates pods of which another webhook changes each between the
// injector's two turns.
type upgradeLoad struct {
	t         *testing.T
	namespace string

	mu        sync.Mutex
	wrappedBy map[string]string // by hostname: the image of the init container after the first turn
	run       []string          // names of the pods that aren't dry runs
	admitted  int
	changed   int // pods that the two turns left with different images
	faults    []string
}

const changedByOther = "CHANGED_BY_ANOTHER_WEBHOOK"

func newUpgradeLoad(t *testing.T) *upgradeLoad {
	t.Helper()
	l := &upgradeLoad{t: t, namespace: optedInNamespace(t), wrappedBy: map[string]string{}}
	meddle(t, "z", l.namespace, func(spec *corev1.PodSpec) {
		main := &spec.Containers[0]
		if slices.ContainsFunc(main.Env, func(e corev1.EnvVar) bool { return e.Name == changedByOther }) {
			return
		}
		main.Env = append(main.Env, corev1.EnvVar{Name: changedByOther, Value: "true"})
		if len(spec.InitContainers) > 0 {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.wrappedBy[spec.Hostname] = spec.InitContainers[0].Image
		}
	})
	return l
}

// pod is of a name of its own, so that its turns can be told from those of others.
func (l *upgradeLoad) pod(name string) *corev1.Pod {
	p := askingPod(name, busybox(l.t, "main", "sh", "-c", "echo ran with $"+changedByOther))
	p.Annotations["entrypointer.dev/timeout"] = "1h"
	p.Annotations["entrypointer.dev/grace-period"] = "10s"
	p.Spec.Hostname = name
	return p
}

// during creates pods while change is under way: mostly dry runs, and as many
// to run as a small node can bear.
func (l *upgradeLoad) during(name string, releases map[string]string, change func()) {
	l.t.Helper()
	const atOnce, toRun, pause = 4, 50, 50 * time.Millisecond
	ctx, cancel := context.WithCancel(l.t.Context())
	var workers sync.WaitGroup
	for worker := range atOnce {
		workers.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				var options metav1.CreateOptions
				if i%toRun != 0 {
					options.DryRun = []string{metav1.DryRunAll}
				}
				p := l.pod(fmt.Sprintf("%s-%d-%d", name, worker, i))
				created, err := cluster.Kube.CoreV1().Pods(l.namespace).Create(l.t.Context(), p, options)
				l.count(releases, created, err, len(options.DryRun) == 0)
				time.Sleep(pause)
			}
		})
	}
	defer workers.Wait()
	defer cancel()
	change()
}

// count looks whether a pod is as one release makes it, from its init container
// to its flags. releases has the flag of each by the image of its init container.
func (l *upgradeLoad) count(releases map[string]string, created *corev1.Pod, err error, runs bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.faults = append(l.faults, err.Error())
		return
	}
	main := created.Spec.Containers[0]
	if len(created.Spec.InitContainers) != 1 || !slices.Equal(main.Command, []string{pod.EntrypointPath}) {
		l.faults = append(l.faults, fmt.Sprintf("pod %q isn't wrapped, or twice: %q %q", created.Name, main.Command, main.Args))
		return
	}
	image := created.Spec.InitContainers[0].Image
	flag, known := releases[image]
	want := []string{"-timeout=1h", flag + "10s", "--", "sh", "-c", "echo ran with $" + changedByOther}
	if !known || !slices.Equal(main.Args, want) {
		l.faults = append(l.faults, fmt.Sprintf("pod %q of image %q has args %q, want %q", created.Name, image, main.Args, want))
	}
	l.admitted++
	if first := l.wrappedBy[created.Spec.Hostname]; first != "" && first != image {
		l.changed++
	}
	if runs {
		l.run = append(l.run, created.Name)
	}
}

// requireAllRan looks at the pods after a change, and counts anew.
func (l *upgradeLoad) requireAllRan(what string) {
	l.t.Helper()
	l.t.Logf("%s: %d pods were admitted, %d of them answered for by both releases, %d to run", what, l.admitted, l.changed, len(l.run))
	require.Empty(l.t, l.faults)
	require.Greater(l.t, l.admitted, 100)
	require.NotEmpty(l.t, l.run)
	for _, name := range l.run {
		require.Equal(l.t, "ran with true\n", ranMain(l.t, l.namespace, name).Log, "pod %s", name)
	}
	l.admitted, l.run = 0, nil
}

func TestAnUpgradeAndADowngradeUnderLoadLoseNoPod(t *testing.T) {
	file, next := nextRelease(t)
	releases := map[string]string{copierImage(t): framework.ThisFlag, next: framework.NextFlag}
	require.Len(t, releases, 2)
	load := newUpgradeLoad(t)
	eventually(t, time.Minute, "the API server to call the other webhook", func() error {
		p, err := wouldBecome(t, load.namespace, load.pod("first"))
		if err == nil && len(p.Spec.Containers[0].Env) == 0 {
			return errors.New("it doesn't yet")
		}
		return err
	})
	t.Cleanup(func() {
		if t.Failed() {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			_, err := framework.Run(ctx, "ko", "apply", "-f", "config/webhook")
			t.Logf("installing this release again after a failure: %v", err)
		}
	})
	rolledOut := func() {
		require.NoError(t, cluster.WaitForDeployment(t.Context(), framework.SystemNamespace, framework.Injector))
	}
	// It is chance whether both releases answer for one pod, in the moment in which both
	// serve.
	for round := 0; round < 5 && load.changed == 0; round++ {
		load.during("upgrade", releases, func() {
			_, err := framework.Run(t.Context(), "kubectl", "apply", "-f", file)
			require.NoError(t, err)
			rolledOut()
		})
		load.requireAllRan("upgrade")
		load.during("downgrade", releases, func() {
			install(t)
			rolledOut()
		})
		load.requireAllRan("downgrade")
	}
	require.Positive(t, load.changed, "pods that both releases answered for")
	// Replicas answer for as long as they end, and the tests that follow compare pods.
	eventually(t, 3*time.Minute, "the replicas of the next release to be gone", func() error {
		replicas, err := cluster.InjectorPods(t.Context())
		for i := range replicas {
			if slices.Contains(replicas[i].Spec.Containers[0].Args, next) {
				return fmt.Errorf("pod %q is there", replicas[i].Name)
			}
		}
		return err
	})
}
