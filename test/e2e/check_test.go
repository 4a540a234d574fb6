// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/entrypointer/entrypointer/internal/check"
	"github.com/entrypointer/entrypointer/internal/config"
	"github.com/entrypointer/entrypointer/test/framework"
)

// isUnknown is the exit code of the plugin for a question without an answer.
const isUnknown = 1

// checks is the report of kubectl entrypointer check to a user, and its exit code.
func (p plugin) checks(t *testing.T, kubeconfig string, args ...string) (*check.Report, int) {
	t.Helper()
	command := p.Command(t.Context(), append([]string{"check", "-o", "json"}, args...)...)
	if kubeconfig != "" {
		command.Env = append(command.Env, "KUBECONFIG="+kubeconfig)
	}
	out, err := command.Output()
	code := 0
	if failed, is := errors.AsType[*exec.ExitError](err); is {
		code = failed.ExitCode()
		require.Contains(t, []int{isNotSo, isUnknown}, code, string(failed.Stderr))
	} else {
		require.NoError(t, err)
	}
	var report check.Report
	require.NoError(t, json.Unmarshal(out, &report), string(out))
	return &report, code
}

// with returns the checks of these states.
func with(r *check.Report, states ...check.State) (found []string) {
	for _, result := range r.Checks {
		for _, state := range states {
			if result.State == state {
				found = append(found, fmt.Sprintf("%s: %s: %+v", result.Category, result.Check, result.Findings))
			}
		}
	}
	return found
}

func TestCheckFindsNothingWrongInAClusterThatWorks(t *testing.T) {
	t.Parallel()
	kubectl := newPlugin(t)
	namespace := optedInNamespace(t)
	createPod(t, namespace, askingPod("app", busybox(t, "main", forever...)))
	report, code := kubectl.checks(t, "", "-n", namespace, "--wait", "30s")
	require.Empty(t, with(report, check.Failed, check.Unknown))
	require.Equal(t, isSo, code)
	require.True(t, *report.Installed)

	report, code = kubectl.checks(t, "", "--before") // the registry is KO_DOCKER_REPO
	require.Empty(t, with(report, check.Failed, check.Unknown, check.Warning))
	require.Equal(t, isSo, code)
}

func TestCheckTellsATenantWhatATenantMayKnow(t *testing.T) {
	t.Parallel()
	kubectl := newPlugin(t)
	namespace := optedInNamespace(t)
	user := withToken(t, reader(t, namespace, "views", true))
	report, code := kubectl.checks(t, user, "-n", namespace)
	require.Equal(t, isUnknown, code)
	require.Empty(t, with(report, check.Failed))
	require.Contains(t, strings.Join(with(report, check.Unknown), "\n"), "you may not list nodes")

	report, code = kubectl.checks(t, user, "-n", namespace, "--before")
	require.Equal(t, isNotSo, code)
	require.Contains(t, strings.Join(with(report, check.Failed), "\n"), "ClusterRole entrypointer-injector: ")
}

// TestCheckFindsWhatIsWrong isn't parallel: it breaks the install, one part after another,
// and mends it by the commands that the checks name.
func TestCheckFindsWhatIsWrong(t *testing.T) {
	kubectl := newPlugin(t)
	namespace := optedInNamespace(t)
	finds := func(state check.State, what string) check.Finding {
		t.Helper()
		var wanted check.Finding
		eventually(t, 30*time.Second, "the check to find "+what, func() error {
			report, code := kubectl.checks(t, "", "-n", namespace)
			for _, result := range report.Checks {
				for _, f := range result.Findings {
					if f.State == state && strings.Contains(f.Message, what) {
						wanted = f
						require.Equal(t, state == check.Failed, code == isNotSo)
						return nil
					}
				}
			}
			return fmt.Errorf("it finds %v", with(report, check.Failed, check.Warning, check.Unknown))
		})
		return wanted
	}
	ctx := t.Context()
	t.Cleanup(func() {
		if t.Failed() { // in the middle
			_, err := framework.Run(context.Background(), "ko", "apply", "-f", "config/webhook")
			require.NoError(t, err)
		}
	})

	policies := cluster.Kube.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	require.NoError(t, policies.Delete(ctx, "unwrapped.entrypointer.dev", metav1.DeleteOptions{}))
	finding := finds(check.Failed, "ValidatingAdmissionPolicyBinding unwrapped.entrypointer.dev doesn't exist")
	require.Equal(t, "ko apply -f config/webhook", finding.Next)
	install(t)

	hooks := cluster.Kube.AdmissionregistrationV1().MutatingWebhookConfigurations()
	_, err := hooks.Patch(ctx, framework.PodWebhook, types.JSONPatchType, []byte(`[{"op":"replace","path":"/webhooks/0/timeoutSeconds","value":3}]`), metav1.PatchOptions{})
	require.NoError(t, err)
	finds(check.Warning, "webhooks[0].timeoutSeconds is 3, and 10 in this release")
	install(t)

	maps := cluster.Kube.CoreV1().ConfigMaps(framework.SystemNamespace)
	before, err := maps.Get(ctx, config.Name, metav1.GetOptions{})
	require.NoError(t, err)
	bringBack := takeDown(t)
	finds(check.Failed, "Deployment injector is scaled to no replicas")
	finds(check.Failed, "the API server doesn't reach the injector")
	// Nobody refuses a wrong value now.
	_, err = maps.Patch(ctx, config.Name, types.MergePatchType, []byte(`{"data":{"lookup-timeout":"for ever"}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	finds(check.Failed, `key "lookup-timeout": "for ever" is not a duration`)
	bringBack()
	_, err = maps.Patch(ctx, config.Name, types.MergePatchType, []byte(`{"data":{"lookup-timeout":null}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	after, err := maps.Get(ctx, config.Name, metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, before.Data, after.Data)

	// A pod from before the namespace opted in.
	former := plainNamespace(t)
	step := plainPod("former", busybox(t, "main", forever...))
	step.Annotations = map[string]string{"entrypointer.dev/inject": "true"}
	createPod(t, former, step)
	eventually(t, time.Minute, "the pod to run", func() error {
		p, err := cluster.Kube.CoreV1().Pods(former).Get(ctx, "former", metav1.GetOptions{})
		if err == nil && p.Status.Phase != corev1.PodRunning {
			return fmt.Errorf("it is %s", p.Status.Phase)
		}
		return err
	})
	_, err = annotate(ctx, former, `"true"`)
	require.NoError(t, err)
	namespace = former
	finding = finds(check.Warning, "pods of namespace "+former+" aren't wrapped: former")
	require.Equal(t, "kubectl entrypointer why -n "+former+" former", finding.Next)

	report, code := kubectl.checks(t, "", "-n", namespace, "--wait", "1m")
	require.Equal(t, isSo, code, with(report, check.Failed, check.Unknown))
}
