// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package release

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What the Makefile sets. Without Helm, there is no chart to remove.
var (
	folder     = os.Getenv("RELEASES")       // has a folder for each version
	repository = os.Getenv("KO_DOCKER_REPO") // has the chart
	helm       = os.Getenv("HELM")
)

const former, latest = "0.0.0-rc.1", "0.0.0-rc.2"

// A user has a directory with the files of a release, and the plugin in PATH.
type user struct {
	*testing.T
	directory string
}

func newUser(t *testing.T) *user {
	t.Helper()
	require.NotEmpty(t, folder, "RELEASES is not set: run make e2e-release")
	u := &user{t, t.TempDir()}
	for _, version := range []string{former, latest} {
		require.NoError(t, os.CopyFS(filepath.Join(u.directory, version), os.DirFS(filepath.Join(folder, "v"+version))))
	}
	t.Setenv("PATH", filepath.Join(u.directory, "bin")+":"+os.Getenv("PATH"))
	return u
}

// try runs a command in a shell, in the directory. It takes no longer than five minutes.
func (u *user) try(format string, args ...any) (printed string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute) // also in a cleanup
	defer cancel()
	command := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", fmt.Sprintf(format, args...))
	command.Dir = u.directory
	var both bytes.Buffer
	command.Stdout, command.Stderr = &both, &both
	err = command.Run()
	return both.String(), err
}

func (u *user) run(format string, args ...any) (printed string) {
	u.Helper()
	printed, err := u.try(format, args...)
	require.NoError(u, err, "%s\n%s", fmt.Sprintf(format, args...), printed)
	return printed
}

// eventually repeats a command until it succeeds.
func (u *user) eventually(format string, args ...any) {
	u.Helper()
	require.Eventually(u, func() bool {
		_, err := u.try(format, args...)
		return err == nil
	}, 3*time.Minute, time.Second, "%s", fmt.Sprintf(format, args...))
}

// unpackPlugin puts a release's plugin into PATH.
func (u *user) unpackPlugin(version string) {
	u.Helper()
	u.run("mkdir -p bin && tar -C bin -xzf %s/kubectl-entrypointer_v%s_linux_%s.tar.gz", version, version, runtime.GOARCH)
	require.Contains(u, u.run("kubectl entrypointer --version"), "v"+version)
}

// removeAll removes what any installation has left, and fails on nothing.
func (u *user) removeAll() {
	_, _ = u.try("%s uninstall entrypointer --namespace default --ignore-not-found --wait", helm)
	_, _ = u.try("kubectl delete --ignore-not-found --wait -f %s/claims.yaml -f %s/auto.yaml -f %s/webhook.yaml", latest, latest, latest)
}

// requireWorks sees that a version wraps the pods of a namespace that opts in.
func (u *user) requireWorks(version string) {
	u.Helper()
	u.run("kubectl -n entrypointer-system rollout status deployment/injector --timeout=3m")
	u.eventually("test $(kubectl -n entrypointer-system get pods -l app.kubernetes.io/name=injector -o name | wc -l) = $(kubectl -n entrypointer-system get deployment injector -o jsonpath={.spec.replicas})")
	require.Equal(u, "injector v"+version+"\n", u.run("kubectl -n entrypointer-system exec deployment/injector -- /ko-app/injector -version"))
	name := "release-" + strings.ReplaceAll(version, ".", "-")
	u.run("kubectl delete namespace %s --ignore-not-found --wait", name)
	u.run("kubectl create namespace %s", name)
	// The API server takes a moment to read the webhooks.
	u.eventually("kubectl annotate namespace %[1]s --overwrite entrypointer.dev/inject=true && kubectl get namespace %[1]s -o jsonpath='{.metadata.labels}' | grep -q entrypointer.dev/inject", name)
	u.run(`kubectl -n %s run sleeper --image=busybox --restart=Never --annotations=entrypointer.dev/inject=true --command -- sleep 1000`, name)
	u.run("kubectl -n %s wait pod/sleeper --for=condition=Ready --timeout=2m", name)
	require.Regexp(u, `(?m)^pod/sleeper (\(.* old\) )?is wrapped\.$`, u.run("kubectl entrypointer why -n %s pod/sleeper", name))
	u.run("kubectl delete namespace %s --wait=false", name)
}

// requireRemoved sees that nothing is left that could refuse a pod.
func (u *user) requireRemoved() {
	u.Helper()
	u.eventually("! kubectl get namespace entrypointer-system")
	require.Empty(u, u.run("kubectl get mutatingwebhookconfigurations,validatingwebhookconfigurations,validatingadmissionpolicies,clusterroles -l app.kubernetes.io/part-of=entrypointer -o name | grep -v -- -log || true"), "the log service stays")
}

func TestAReleaseAloneIsInstalledUpgradedAndRemoved(t *testing.T) {
	u := newUser(t)
	u.removeAll()
	t.Cleanup(u.removeAll)
	for _, version := range []string{former, latest} {
		require.NotContains(t, u.run("cd %s && sha256sum --strict -c SHA256SUMS", version), "FAILED")
	}
	u.unpackPlugin(former)
	u.run("kubectl apply -f %s/install.yaml", former)
	u.requireWorks(former)
	u.run("kubectl entrypointer check --wait 2m")
	require.Contains(t, u.run("kubectl entrypointer version"), "injector     v"+former+" (2 replicas)\n")
	require.Equal(t, "v"+former+" v"+former, u.run("kubectl -n entrypointer-system get deployment injector -o jsonpath='{.metadata.labels.app\\.kubernetes\\.io/version} {.spec.template.metadata.labels.app\\.kubernetes\\.io/version}'"))
	u.run("kubectl delete validatingadmissionpolicybinding unwrapped.entrypointer.dev")
	mended, err := u.try("cd %s && kubectl entrypointer check", former)
	require.Error(t, err, mended)
	require.Contains(t, mended, "next: kubectl apply -f webhook.yaml")
	u.run("cd %s && kubectl apply -f webhook.yaml && kubectl entrypointer check --wait 2m", former)

	u.run("kubectl apply -f %s/install.yaml", latest)
	u.requireWorks(latest)
	require.Contains(t, u.run("kubectl entrypointer version"), "the cluster has v"+latest+", and this plugin is v"+former+", which is older")
	require.Contains(t, u.run("kubectl entrypointer check"), "the cluster has v"+latest+", and this plugin is v"+former)
	u.unpackPlugin(latest)
	u.run("kubectl entrypointer check --wait 2m")

	u.run("kubectl apply -f %s/install.yaml", former)
	u.requireWorks(former)

	u.run("kubectl delete --ignore-not-found -f %s/install.yaml", former)
	u.requireRemoved()
}

func TestTheChartIsInstalledUpgradedRolledBackAndRemoved(t *testing.T) {
	u := newUser(t)
	u.removeAll()
	t.Cleanup(u.removeAll)
	u.unpackPlugin(latest)
	chart := fmt.Sprintf("%s %%s entrypointer oci://%s/charts/entrypointer --plain-http --namespace default --wait --timeout 3m --version %%s %%s", helm, repository)
	u.run(chart, "install", former, "--set config.status-version=included")
	u.requireWorks(former)

	u.run(chart, "upgrade", latest, "--reset-then-reuse-values --set injector.replicas=3")
	u.requireWorks(latest)
	require.Equal(t, "3 included", u.run("echo -n $(kubectl -n entrypointer-system get deployment injector -o jsonpath={.spec.replicas}) $(kubectl -n entrypointer-system get configmap config-entrypointer -o jsonpath='{.data.status-version}')"))
	u.run("kubectl entrypointer check --wait 2m")

	u.run("%s rollback entrypointer --namespace default --wait --timeout 3m", helm)
	u.requireWorks(former)
	require.Equal(t, "2", u.run("kubectl -n entrypointer-system get deployment injector -o jsonpath={.spec.replicas}"))

	u.run("%s uninstall entrypointer --namespace default --wait", helm)
	u.requireRemoved()
}

// As Argo CD and Flux do.
func TestApplyingTheRenderedChartTwiceChangesNothing(t *testing.T) {
	u := newUser(t)
	u.removeAll()
	t.Cleanup(u.removeAll)
	u.unpackPlugin(latest)
	u.run("%s template entrypointer %s/entrypointer-%s.tgz --namespace default > rendered.yaml", helm, latest, latest)
	const apply = "kubectl apply --server-side -f rendered.yaml"
	u.run(apply)
	u.requireWorks(latest)
	require.Empty(t, u.run("kubectl diff --server-side -f rendered.yaml"))
	before := u.objects()
	u.run(apply)
	require.Equal(t, before, u.objects())
	u.run("kubectl delete --ignore-not-found -f rendered.yaml")
	u.requireRemoved()
}

// objects returns the objects of rendered.yaml, without their status. The versions aren't
// compared, because Kubernetes itself reorders the managed fields of policies.
func (u *user) objects() map[string]any {
	u.Helper()
	var list struct{ Items []map[string]any }
	require.NoError(u, json.Unmarshal([]byte(u.run("kubectl get -f rendered.yaml -o json")), &list))
	require.NotEmpty(u, list.Items)
	objects := map[string]any{}
	for _, item := range list.Items {
		metadata := item["metadata"].(map[string]any)
		delete(metadata, "resourceVersion")
		delete(item, "status")
		objects[fmt.Sprint(item["kind"], metadata["namespace"], metadata["name"])] = item
	}
	return objects
}
