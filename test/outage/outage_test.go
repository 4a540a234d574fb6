//go:build outage

// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package outage

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

// dead is where nobody listens.
func dead(t testing.TB) admissionregistrationv1.WebhookClientConfig {
	t.Helper()
	url := "https://" + freeAddress(t)
	return admissionregistrationv1.WebhookClientConfig{URL: &url}
}

// tektonTriesAgain is isExceededResourceQuotaError in
// https://github.com/tektoncd/pipeline/blob/v1.15.0/pkg/reconciler/taskrun/taskrun.go.
func tektonTriesAgain(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota")
}

func with(p *corev1.Pod, key, value string) *corev1.Pod {
	p.Annotations[key] = value
	return p
}

func isWrapped(p *corev1.Pod) bool {
	return p.Annotations[pod.StatusAnnotation] == "Injected by init-container; version: v1" && pod.IsWrapped(p.Spec.Containers[0])
}

func TestInAnOutagePlainPodsAreWrappedAndOthersWait(t *testing.T) {
	s := startAPIServer(t)
	_, alive := webhook(t)
	optedIn := func(webhook string) map[string]string {
		return map[string]string{"entrypointer.dev/inject": "true", "webhook": webhook}
	}
	s.callWebhook(t, "today", admissionregistrationv1.Fail, dead(t))
	s.callWebhook(t, "dead", admissionregistrationv1.Ignore, dead(t))
	s.callWebhook(t, "alive", admissionregistrationv1.Ignore, alive)
	s.namespace(t, "today", map[string]string{"webhook": "today"}, optIn(), "default")
	s.namespace(t, "dead", optedIn("dead"), optIn(), "default")
	s.namespace(t, "alive", optedIn("alive"), optIn(), "default")
	s.install(t, "wrap", "wait")
	timed := func() *corev1.Pod { return with(taskRunPod(2), "entrypointer.dev/timeout", "1h") }
	eventually(t, "all is in force", func(ctx context.Context) error {
		_, refused := s.dryRun(ctx, t, "dead", timed())
		_, called := s.dryRun(ctx, t, "today", timed())
		wrapped, err := s.dryRun(ctx, t, "dead", with(taskRunPod(2), pod.StatusAnnotation, "OptedOut"))
		switch {
		case err != nil:
			return err
		case !tektonTriesAgain(refused) || !apierrors.IsInternalError(called) || !isWrapped(wrapped):
			return fmt.Errorf("refused: %w; called: %w; wrapped: %v", refused, called, wrapped.Annotations)
		}
		return nil
	})

	t.Run("today a TaskRun fails for good", func(t *testing.T) {
		_, err := s.dryRun(t.Context(), t, "today", taskRunPod(2))
		require.True(t, apierrors.IsInternalError(err), "%v", err)
		require.False(t, tektonTriesAgain(err), "%v", err)
	})
	t.Run("a plain pod is wrapped", func(t *testing.T) {
		made, err := s.dryRun(t.Context(), t, "dead", taskRunPod(2))
		require.NoError(t, err)
		require.True(t, isWrapped(made), "%v", made.Annotations)
	})
	t.Run("a pod with an option waits", func(t *testing.T) {
		_, err := s.dryRun(t.Context(), t, "dead", timed())
		require.True(t, tektonTriesAgain(err), "%v", err)
	})
	for name, p := range map[string]*corev1.Pod{
		"with an option":     with(timed(), pod.StatusAnnotation, "Injected by init-container; version: v1"),
		"that has opted out": with(with(timed(), pod.StatusAnnotation, "OptedOut"), "entrypointer.dev/mode", "exec"),
	} {
		t.Run("a forged status of a pod "+name+" is nobody's pass", func(t *testing.T) {
			_, err := s.dryRun(t.Context(), t, "dead", p)
			require.True(t, tektonTriesAgain(err), "%v", err)
		})
	}
	t.Run("a forged supervisor waits", func(t *testing.T) {
		p := with(taskRunPod(1), pod.StatusAnnotation, "Injected by init-container")
		p.Spec.Containers[0].Command = []string{pod.EntrypointPath}
		_, err := s.dryRun(t.Context(), t, "dead", p)
		require.True(t, tektonTriesAgain(err), "%v", err)
	})
	t.Run("once the injector responds, the pod that has waited is wrapped", func(t *testing.T) {
		eventually(t, "the webhook is called", func(ctx context.Context) error {
			made, err := s.dryRun(ctx, t, "alive", timed())
			if err == nil && !isWrapped(made) {
				err = errors.New("unwrapped")
			}
			return err
		})
	})
	t.Run("and a plain pod is left as the policy has made it", func(t *testing.T) {
		byPolicy, err := s.dryRun(t.Context(), t, "dead", taskRunPod(3))
		require.NoError(t, err)
		byBoth, err := s.dryRun(t.Context(), t, "alive", taskRunPod(3))
		require.NoError(t, err)
		byBoth.Name = byPolicy.Name
		require.JSONEq(t, text(t, byPolicy), text(t, byBoth))
	})
}
