//go:build outage

// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package outage

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/pkg/pod"
	"github.com/entrypointer/entrypointer/test/loopback"
)

// dead is where nobody listens.
func dead(t testing.TB) admissionregistrationv1.WebhookClientConfig {
	t.Helper()
	url := "https://" + loopback.FreeAddressFor(t)
	return admissionregistrationv1.WebhookClientConfig{URL: &url}
}

// tektonTriesAgain is isExceededResourceQuotaError in
// https://github.com/tektoncd/pipeline/blob/v1.15.0/pkg/reconciler/taskrun/taskrun.go.
func tektonTriesAgain(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota")
}

// failsForGood reports whether a pod was refused because the webhook doesn't respond.
func failsForGood(err error) bool {
	return apierrors.IsInternalError(err) && strings.Contains(err.Error(), "failed calling webhook")
}

func with(p *corev1.Pod, key, value string) *corev1.Pod {
	p.Annotations[key] = value
	return p
}

// timed is a pod with an option.
func timed() *corev1.Pod { return with(taskRunPod(2), "entrypointer.dev/timeout", "1h") }

// asking is a pod that asks to be wrapped, and is no TaskRun's.
func asking() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "asks-", Annotations: map[string]string{pod.InjectAnnotation: "true"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "busybox", Command: []string{"true"}}}},
	}
}

// isWrapped reports whether the injector or the policy has wrapped a pod.
func isWrapped(p *corev1.Pod) bool {
	return strings.HasPrefix(p.Annotations[pod.StatusAnnotation], injected) && pod.IsWrapped(p.Spec.Containers[0])
}

// optedIn are the label and the annotation of a namespace.
func optedIn(scope pod.Scope) map[string]string {
	return map[string]string{pod.InjectAnnotation: string(scope)}
}

// tenants creates a namespace of each scope.
func (s *apiServer) tenants(t testing.TB) {
	t.Helper()
	s.namespace(t, "none", nil, nil, "default")
	for _, scope := range []pod.Scope{pod.OwnedPods, pod.AllPods} {
		labels := optedIn(scope)
		labels["webhook"] = afterOurs
		s.namespace(t, "of-"+string(scope), labels, optedIn(scope), "default")
	}
}

// afterOurs is a webhook that is called after ours, because of its name.
const afterOurs = "z-later"

var scopes = []string{"of-true", "of-all"}

// forged are pods that claim to be decided on, or to wait.
func forged() map[string]*corev1.Pod {
	supervisor := with(taskRunPod(1), pod.StatusAnnotation, "Injected by init-container")
	supervisor.Spec.Containers[0].Command = []string{pod.EntrypointPath}
	return map[string]*corev1.Pod{
		"wrapped":                    with(timed(), pod.StatusAnnotation, "Injected by init-container"),
		"wrapped, and that may wait": with(with(timed(), pod.StatusAnnotation, "Injected by init-container"), pod.MayWaitAnnotation, "true"),
		"opted out":                  with(timed(), pod.StatusAnnotation, "OptedOut"),
		"undecided":                  with(timed(), pod.StatusAnnotation, pod.Undecided),
		"wrapped by a policy":        with(timed(), pod.StatusAnnotation, pod.InjectedByPolicy),
		"with a supervisor":          supervisor,
	}
}

func TestInAnOutageTaskRunsWaitAndOthersFailAsBefore(t *testing.T) {
	s := startAPIServer(t)
	s.tenants(t)
	s.installWebhook(t, dead(t))
	for _, namespace := range scopes {
		eventually(t, "all is in force", func(ctx context.Context) error {
			_, err := s.dryRun(ctx, t, namespace, timed())
			if failsForGood(err) {
				_, err = s.dryRun(ctx, t, namespace, with(timed(), pod.StatusAnnotation, pod.Undecided))
			}
			if tektonTriesAgain(err) {
				return nil
			}
			return fmt.Errorf("not refused as it should be: %w", err)
		})
		t.Run("without config/outage, a TaskRun fails for good, "+namespace, func(t *testing.T) {
			for name, p := range forged() {
				_, err := s.dryRun(t.Context(), t, namespace, p)
				require.True(t, failsForGood(err) || tektonTriesAgain(err), "%s: %v", name, err)
			}
		})
	}

	s.installOutage(t, "")
	for _, namespace := range scopes {
		s.awaitWaiting(t, namespace)
		t.Run("a pod of a TaskRun waits, "+namespace, func(t *testing.T) {
			for name, p := range forged() {
				_, err := s.dryRun(t.Context(), t, namespace, p)
				require.True(t, tektonTriesAgain(err), "%s: %v", name, err)
			}
			bare := timed()
			bare.Annotations = nil
			for _, p := range []*corev1.Pod{bare, taskRunPod(2)} {
				_, err := s.dryRun(t.Context(), t, namespace, p)
				require.True(t, tektonTriesAgain(err), "%v", err)
			}
		})
		t.Run("another pod fails as before, "+namespace, func(t *testing.T) {
			for _, p := range []*corev1.Pod{asking(), with(asking(), pod.StatusAnnotation, pod.Undecided), with(asking(), pod.MayWaitAnnotation, "true")} {
				_, err := s.dryRun(t.Context(), t, namespace, p)
				require.True(t, failsForGood(err), "%v", err)
			}
		})
	}
	t.Run("a namespace that didn't opt in notices nothing", func(t *testing.T) {
		made, err := s.dryRun(t.Context(), t, "none", timed())
		require.NoError(t, err)
		require.Equal(t, timed().Annotations, made.Annotations)
	})

	// Before another release says a word, plain pods are wrapped, so that they wait by its word.
	for _, release := range []struct{ name, image string }{
		{"this release", copierImage}, {"another release", "registry.example.test/copier@sha256:2"}, {"this release again", copierImage},
	} {
		s.promise(t, release.image)
		for _, namespace := range scopes {
			t.Run("the injector of "+release.name+" would wrap plain pods, "+namespace, func(t *testing.T) {
				s.requirePlainPods(t, namespace, release.image == copierImage)
			})
		}
	}
	t.Run("the registry's mirror has another name for the image of another release", func(t *testing.T) {
		s.annotateInjectors(t, "entrypointer-copier-image", "mirror.example.test/copier@sha256:2")
		s.awaitPlainPods(t, scopes[0], false)
		s.annotateInjectors(t, "entrypointer-copier-image", ourImage)
		s.awaitPlainPods(t, scopes[0], true)
	})

	_, alive := webhook(t)
	s.callInjector(t, alive)
	for _, namespace := range scopes {
		t.Run("once the injector responds, a plain pod gets its word, "+namespace, func(t *testing.T) {
			s.awaitStatus(t, namespace, injected)
		})
	}
	for _, namespace := range scopes {
		t.Run("once the injector responds, the pod that has waited is wrapped, "+namespace, func(t *testing.T) {
			s.awaitWrapped(t, namespace, timed)
			made, err := s.dryRun(t.Context(), t, namespace, timed())
			require.NoError(t, err)
			require.Equal(t, "true", made.Annotations[pod.MayWaitAnnotation])
		})
	}
	t.Run("after an uninstallation that leaves config/outage, pods are admitted", func(t *testing.T) {
		s.callInjector(t, dead(t))
		require.NoError(t, s.CoreV1().Namespaces().Delete(t.Context(), "entrypointer-system", metav1.DeleteOptions{}))
		require.NoError(t, s.AdmissionregistrationV1().MutatingWebhookConfigurations().Delete(t.Context(), podWebhooks, metav1.DeleteOptions{}))
		eventually(t, "nobody waits", func(ctx context.Context) error {
			_, err := s.dryRun(ctx, t, "of-true", timed())
			return err
		})
	})
}

// requirePlainPods requires that plain pods are wrapped by the policy, or that they wait, and
// that others wait in any case.
func (s *apiServer) requirePlainPods(t *testing.T, namespace string, wrapped bool) {
	t.Helper()
	s.awaitPlainPods(t, namespace, wrapped)
	for name, p := range forged() {
		_, err := s.dryRun(t.Context(), t, namespace, p)
		require.True(t, tektonTriesAgain(err), "%s: %v", name, err)
	}
	made, err := s.dryRun(t.Context(), t, namespace, with(taskRunPod(2), pod.StatusAnnotation, "OptedOut"))
	if wrapped {
		require.NoError(t, err)
		require.Equal(t, pod.InjectedByPolicy, made.Annotations[pod.StatusAnnotation])
	} else {
		require.True(t, tektonTriesAgain(err), "%v", err)
	}
}

// awaitPlainPods returns when plain pods are wrapped by the policy, or when they wait.
func (s *apiServer) awaitPlainPods(t testing.TB, namespace string, wrapped bool) {
	t.Helper()
	if wrapped {
		s.awaitStatus(t, namespace, pod.InjectedByPolicy)
		return
	}
	eventually(t, "plain pods wait", func(ctx context.Context) error {
		if _, err := s.dryRun(ctx, t, namespace, taskRunPod(2)); !tektonTriesAgain(err) {
			return fmt.Errorf("one doesn't wait: %w", err)
		}
		return nil
	})
}

// awaitWaiting returns when a pod of a TaskRun waits.
func (s *apiServer) awaitWaiting(t testing.TB, namespace string) {
	t.Helper()
	eventually(t, "TaskRuns wait", func(ctx context.Context) error {
		if _, err := s.dryRun(ctx, t, namespace, timed()); !tektonTriesAgain(err) {
			return fmt.Errorf("a pod doesn't wait: %w", err)
		}
		return nil
	})
}

// awaitWrapped returns when such a pod is wrapped.
func (s *apiServer) awaitWrapped(t testing.TB, namespace string, p func() *corev1.Pod) {
	t.Helper()
	eventually(t, "pods are wrapped", func(ctx context.Context) error {
		made, err := s.dryRun(ctx, t, namespace, p())
		if err == nil && !isWrapped(made) {
			err = errors.New("unwrapped")
		}
		return err
	})
}

// The policy, its binding and the injector's word may come and go in any order, and each API
// server learns of them on its own.
func TestWhileConfigOutageIsAppliedAndRemovedNoPodGetsThrough(t *testing.T) {
	s := startAPIServer(t)
	s.tenants(t)
	s.installWebhook(t, dead(t))
	failing := func(ctx context.Context) error {
		if _, err := s.dryRun(ctx, t, "of-true", timed()); !failsForGood(err) {
			return fmt.Errorf("a pod doesn't fail: %w", err)
		}
		return nil
	}
	eventually(t, "the webhook is called", failing)
	s.awaitWaitingForged(t)

	pods := forged()
	pods["with an option"], pods[plain] = timed(), taskRunPod(2)
	var waited, failed, wrapped atomic.Int64
	done, over := make(chan error, len(pods)), make(chan struct{})
	for name, p := range pods {
		go func() {
			for {
				select {
				case <-over:
					done <- nil
					return
				default:
				}
				switch made, err := s.dryRun(t.Context(), t, scopes[0], p); {
				case tektonTriesAgain(err):
					waited.Add(1)
				case failsForGood(err):
					failed.Add(1)
				case err == nil && name == plain && made.Annotations[pod.StatusAnnotation] == pod.InjectedByPolicy && isWrapped(made):
					wrapped.Add(1)
				default:
					done <- fmt.Errorf("a pod that is %s got through: %w, %v", name, err, made)
					return
				}
			}
		}()
	}
	// grow returns when pods have been asked about some more times each, or as many times in all.
	grow := func(what string, of ...*atomic.Int64) {
		total := func() (sum int64) {
			for _, count := range of {
				sum += count.Load()
			}
			return sum
		}
		enough := total() + int64(4*len(pods))
		eventually(t, what, func(context.Context) error {
			select {
			case err := <-done:
				require.NoError(t, err)
			default:
			}
			if now := total(); now < enough {
				return fmt.Errorf("%d of %d", now, enough)
			}
			return nil
		})
	}
	parts := documents(manifest(t, outageManifest))
	steps := []struct{ apply, remove func() }{
		{func() { s.create(t, parts[0]) }, func() { s.remove(t, parts[0]) }},
		{func() { s.create(t, parts[1]) }, func() { s.remove(t, parts[1]) }},
		{func() { s.promise(t, copierImage) }, func() { s.promise(t, "") }},
	}
	for _, order := range [][3]int{{0, 1, 2}, {2, 1, 0}, {1, 2, 0}} {
		for _, at := range order {
			steps[at].apply()
			grow("pods in each state", &waited, &failed, &wrapped)
		}
		s.awaitPlainPods(t, scopes[0], true)
		grow("pods that are wrapped", &wrapped)
		for _, at := range order {
			steps[at].remove()
			grow("pods in each state", &waited, &failed, &wrapped)
		}
		eventually(t, "TaskRuns fail again", failing)
		grow("pods that fail", &failed)
	}
	close(over)
	for range pods {
		require.NoError(t, <-done)
	}
	t.Logf("%d pods waited, %d failed for good, and %d were wrapped", waited.Load(), failed.Load(), wrapped.Load())
	require.Positive(t, waited.Load())
}

// plain is the pod that a policy can wrap.
const plain = "plain"

// awaitWaitingForged returns when a forged status makes a pod wait.
func (s *apiServer) awaitWaitingForged(t testing.TB) {
	t.Helper()
	eventually(t, "undecided pods are refused", func(ctx context.Context) error {
		if _, err := s.dryRun(ctx, t, scopes[0], with(timed(), pod.StatusAnnotation, pod.Undecided)); !tektonTriesAgain(err) {
			return fmt.Errorf("a pod doesn't wait: %w", err)
		}
		return nil
	})
}

// As without config/outage: what others change after the injector, it sees.
func TestTheInjectorIsAskedAgainAboutAPodThatMayWait(t *testing.T) {
	s := startAPIServer(t)
	s.tenants(t)
	calls, alive := webhook(t)
	s.installWebhook(t, alive)
	s.installOutage(t, copierImage)
	for _, namespace := range scopes {
		s.awaitMarked(t, namespace)
		calls.Store(0)
		_, err := s.dryRun(t.Context(), t, namespace, timed())
		require.NoError(t, err)
		require.EqualValues(t, 1, calls.Load(), "one webhook is called")
	}
	later := serve(t, func(_ context.Context, _ string, before *corev1.Pod) (*corev1.Pod, error) {
		after := before.DeepCopy()
		after.Spec.Containers[0].Image = "another"
		return after, nil
	})
	s.callWebhook(t, afterOurs, admissionregistrationv1.Fail, later)
	for _, namespace := range scopes {
		eventually(t, "another webhook changes pods", func(ctx context.Context) error {
			made, err := s.dryRun(ctx, t, namespace, timed())
			if err == nil && made.Spec.Containers[0].Image != "another" {
				err = errors.New("unchanged")
			}
			return err
		})
		calls.Store(0)
		made, err := s.dryRun(t.Context(), t, namespace, timed())
		require.NoError(t, err)
		require.True(t, isWrapped(made))
		require.EqualValues(t, 2, calls.Load(), "and called again")
	}
}
