// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/internal/logs/endpoint"
)

// changes runs a command of the plugin that changes logs.
func (p plugin) changes(t *testing.T, kubeconfig string, args ...string) (string, error) {
	t.Helper()
	command := p.Command(t.Context(), args...)
	command.Env = append(command.Env, "KUBECONFIG="+kubeconfig)
	text, err := command.CombinedOutput()
	return string(text), err
}

// mayDelete lets the users of a namespace delete its logs.
func mayDelete(t *testing.T, namespace string) {
	t.Helper()
	_, err := cluster.Kube.RbacV1().RoleBindings(namespace).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "log-deletion"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Name: "may", Namespace: namespace}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "entrypointer-log-deletion"},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
}

// succeeds waits until a command that changes logs succeeds: refusals are cached.
func (p plugin) succeeds(t *testing.T, kubeconfig, says string, args ...string) {
	t.Helper()
	eventually(t, 30*time.Second, fmt.Sprint(args), func() error {
		text, err := p.changes(t, kubeconfig, args...)
		if err == nil && !strings.Contains(text, says) {
			err = fmt.Errorf("it says nothing of %q", says)
		}
		if err != nil {
			return fmt.Errorf("%w: %s", err, text)
		}
		return nil
	})
}

func TestLastNightsFailedRunIsFoundHeldAndDeleted(t *testing.T) {
	t.Parallel()
	require.NoError(t, cluster.WaitForDeployment(t.Context(), endpoint.Namespace, "logs"))
	kubectl := newPlugin(t)
	namespace, token := logsNamespace(t, "stream")
	jane := withToken(t, token)
	const secret = "hunter2"
	tries := int32(0)
	_, err := cluster.Kube.BatchV1().Jobs(namespace).Create(t.Context(), &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "nightly"},
		Spec:       batchv1.JobSpec{BackoffLimit: &tries, Template: printing(t, secret+"; exit 1", corev1.RestartPolicyNever)},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	kubectl.reads(t, jane, "job/nightly", "-n", namespace, "--list")
	kubectl.reads(t, jane, secret, "-n", namespace, "job/nightly", "--grep", "hunter[0-9]")
	background := metav1.DeletePropagationBackground
	require.NoError(t, cluster.Kube.BatchV1().Jobs(namespace).Delete(t.Context(), "nightly", metav1.DeleteOptions{PropagationPolicy: &background}))
	listed := strings.Split(strings.TrimSpace(kubectl.reads(t, jane, "job/nightly", "-n", namespace, "--list", "job/nightly")), "\n")
	name := strings.Fields(listed[len(listed)-1])[0]
	waitUntilPodIsGone(t, namespace, name)

	text, err := kubectl.changes(t, jane, "delete-logs", "-n", namespace, "job/nightly")
	require.Error(t, err)
	require.Contains(t, text, "entrypointer-log-deletion", "who may read may not delete")
	mayDelete(t, namespace)
	succeeds := func(says string, args ...string) {
		t.Helper()
		kubectl.succeeds(t, jane, says, args...)
	}
	succeeds("are held", "hold-logs", "-n", namespace, "job/nightly")
	text, err = kubectl.changes(t, jane, "delete-logs", "-n", namespace, "job/nightly")
	require.Error(t, err)
	require.Contains(t, text, "release them first")
	kubectl.reads(t, jane, secret, "-n", namespace, name)
	succeeds("are released", "release-logs", "-n", namespace, "job/nightly")
	succeeds("dry run", "delete-logs", "-n", namespace, "job/nightly", "--dry-run")
	dry := exec.CommandContext(t.Context(), "kubectl", "delete", "logs", "-n", namespace, name, "--dry-run=server")
	dry.Env = append(os.Environ(), "KUBECONFIG="+jane)
	out, err := dry.CombinedOutput()
	require.NoError(t, err, "%s", out)
	kubectl.reads(t, jane, secret, "-n", namespace, name)
	succeeds("deleted", "delete-logs", "-n", namespace, "job/nightly")

	// Whichever replica responds.
	for range 10 {
		out, err := kubectl.command(t.Context(), jane, "-n", namespace, "job/nightly").CombinedOutput()
		require.Error(t, err)
		require.NotContains(t, string(out), secret)
		out, err = kubectl.command(t.Context(), jane, "-n", namespace, "--list").CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.NotContains(t, string(out), "job/nightly")
	}
}

func TestALineThatLeakedIsDeletedFromAllReplicas(t *testing.T) {
	t.Parallel()
	require.NoError(t, cluster.WaitForDeployment(t.Context(), endpoint.Namespace, "logs"))
	kubectl := newPlugin(t)
	namespace, token := logsNamespace(t, "stream")
	jane := withToken(t, token)
	const secret = "password=hunter2"
	runOnce(t, namespace, printing(t, "first; echo "+secret+"; echo last", corev1.RestartPolicyNever))
	kubectl.reads(t, jane, "last", "-n", namespace, "job/report")
	deletion := []string{"delete-logs", "-n", namespace, "job/report", "--grep", "PASSWORD=", "-i"}

	text, err := kubectl.changes(t, jane, deletion...)
	require.Error(t, err)
	require.Contains(t, text, "entrypointer-log-deletion", "who may read may not delete")
	mayDelete(t, namespace)
	kubectl.succeeds(t, jane, "are held", "hold-logs", "-n", namespace, "job/report")
	text, err = kubectl.changes(t, jane, deletion...)
	require.Error(t, err)
	require.Contains(t, text, "release them first")
	kubectl.succeeds(t, jane, "are released", "release-logs", "-n", namespace, "job/report")
	kubectl.succeeds(t, jane, secret, append(deletion, "--dry-run")...)
	kubectl.reads(t, jane, secret, "-n", namespace, "job/report")
	kubectl.succeeds(t, jane, "main stdout: deleted 1 lines", deletion...)

	// Whichever replica responds.
	for range 10 {
		out, err := kubectl.command(t.Context(), jane, "-n", namespace, "job/report", "--prefix=false").CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), "first\n"+strings.Repeat("*", len(secret))+"\nlast\n")
		out, err = kubectl.command(t.Context(), jane, "-n", namespace, "job/report", "--grep", "hunter[0-9]").CombinedOutput()
		require.Error(t, err, "nothing is found: %s", out)
		require.NotContains(t, string(out), secret)
	}
}
