// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/entrypointer/entrypointer/internal/logs/endpoint"
	"github.com/entrypointer/entrypointer/test/framework"
)

// install does what a user does, and returns what kubectl said. As "make deploy" does, it
// has the injector ask the nodes' mirror of Docker Hub, where there is one.
func install(t *testing.T) string {
	t.Helper()
	out, err := framework.Run(t.Context(), "ko", "apply", "-f", "config/webhook")
	require.NoError(t, err)
	// In its namespace, which may have been gone.
	more, err := framework.Run(t.Context(), "ko", "apply", "-f", "config/auto", "-f", "config/claims")
	require.NoError(t, err)
	if mirror := os.Getenv("E2E_IMAGE_REGISTRY"); mirror != "" {
		_, err := configure(t, "registry-mirrors", "docker.io: ["+mirror+"]", metav1.UpdateOptions{})
		require.NoError(t, err)
	}
	return string(out) + string(more)
}

func TestTheAPIServerAcceptsTheNetworkPolicy(t *testing.T) {
	t.Parallel()
	out, err := framework.Run(t.Context(), "kubectl", "apply", "--dry-run=server", "-f", "config/network-policy")
	require.NoError(t, err)
	require.Contains(t, string(out), "networkpolicy.networking.k8s.io/injector")
}

func TestApplyingTheConfigurationTwiceChangesNothing(t *testing.T) {
	install(t)
	require.NoError(t, cluster.WaitForInjector(t.Context()))
	before := installed(t)
	said := install(t)
	time.Sleep(2 * time.Second) // whatever it set off would be under way
	require.NoError(t, cluster.WaitForInjector(t.Context()))
	require.Equal(t, before, installed(t), "versions of the objects, after kubectl said:\n%s", said)
}

// installed has the version of every object of config/webhook, config/auto and
// config/claims, and the restarts of the injector's pods.
func installed(t *testing.T) map[string]string {
	t.Helper()
	versions := map[string]string{}
	for _, resource := range []struct{ group, version, resource, namespace string }{
		{"", "v1", "namespaces", ""},
		{"", "v1", "serviceaccounts", framework.SystemNamespace},
		{"", "v1", "configmaps", framework.SystemNamespace},
		{"", "v1", "secrets", framework.SystemNamespace},
		{"", "v1", "services", framework.SystemNamespace},
		{"apps", "v1", "deployments", framework.SystemNamespace},
		{"policy", "v1", "poddisruptionbudgets", framework.SystemNamespace},
		{"rbac.authorization.k8s.io", "v1", "roles", framework.SystemNamespace},
		{"rbac.authorization.k8s.io", "v1", "rolebindings", framework.SystemNamespace},
		{"rbac.authorization.k8s.io", "v1", "clusterroles", ""},
		{"rbac.authorization.k8s.io", "v1", "clusterrolebindings", ""},
		{"apiextensions.k8s.io", "v1", "customresourcedefinitions", ""},
		{"admissionregistration.k8s.io", "v1", "validatingadmissionpolicies", ""},
		{"admissionregistration.k8s.io", "v1", "validatingadmissionpolicybindings", ""},
		{"admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations", ""},
		{"admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations", ""},
	} {
		kind := schema.GroupVersionResource{Group: resource.group, Version: resource.version, Resource: resource.resource}
		list, err := cluster.Dynamic.Resource(kind).Namespace(resource.namespace).List(t.Context(), partOfUs)
		require.NoError(t, err)
		require.NotEmpty(t, list.Items, resource.resource)
		for i := range list.Items {
			versions[resource.resource+"/"+list.Items[i].GetName()] = list.Items[i].GetResourceVersion()
		}
	}
	pods, err := cluster.InjectorPods(t.Context())
	require.NoError(t, err)
	for i := range pods {
		versions["pods/"+pods[i].Name] = containerStates(&pods[i])
		for _, s := range pods[i].Status.ContainerStatuses {
			require.Zero(t, s.RestartCount, "restarts of pod %s", pods[i].Name)
		}
	}
	return versions
}

// partOfUs selects what we install.
var partOfUs = metav1.ListOptions{LabelSelector: "app.kubernetes.io/part-of=entrypointer"}

func TestDeletingTheConfigurationLeavesNoWebhookThatBlocksPods(t *testing.T) {
	// The injector removes its webhooks while kubectl does.
	requireUninstalledBy(t, func() {}, "ko", "delete", "--ignore-not-found", "-f", "config/claims", "-f", "config/auto", "-f", "config/webhook")
}

// Somebody who doesn't know better deletes the namespace, and nothing else. It
// isn't gone as long as an object in it has a finalizer.
func TestANamespaceThatIsStuckLeavesNoWebhookThatBlocksPods(t *testing.T) {
	maps := cluster.Kube.CoreV1().ConfigMaps(framework.SystemNamespace)
	_, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name: stuck, Finalizers: []string{ours},
	}}, metav1.CreateOptions{})
	require.NoError(t, err)
	release := func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		_, err := maps.Patch(ctx, stuck, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		if apierrors.IsNotFound(err) {
			return
		}
		require.NoError(t, err)
		require.NoError(t, waitUntilGone(ctx))
	}
	t.Cleanup(release) // or a failure leaves a namespace that no later run can use
	requireUninstalledBy(t, release, "kubectl", "delete", "namespace", framework.SystemNamespace, "--wait=false")
}

// waitUntilGone waits until the injector's namespace isn't there any more.
func waitUntilGone(ctx context.Context) error {
	return framework.Eventually(ctx, 2*time.Minute, "the namespace to be gone", func(ctx context.Context) error {
		_, err := cluster.Kube.CoreV1().Namespaces().Get(ctx, framework.SystemNamespace, metav1.GetOptions{})
		if err == nil {
			return errors.New("it is there")
		}
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
}

// stuck is an object that keeps its namespace from being deleted.
const stuck = "e2e-stuck"

// requireUninstalledBy uninstalls the injector by a command, and installs it
// again. All parallel tests come later, so they test that installation.
// What keeps the uninstallation from ending is released when all else is seen.
func requireUninstalledBy(t *testing.T, release func(), command ...string) {
	t.Helper()
	namespace, later, first := optedInNamespace(t), plainNamespace(t), plainNamespace(t)
	waitForGrant(t, namespace, true)
	t.Cleanup(func() {
		if t.Failed() {
			// For the tests that follow.
			release()
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
			defer cancel()
			t.Logf("waiting for what is left: %v", waitUntilGone(ctx))
			_, err := framework.Run(ctx, "ko", "apply", "-f", "config/webhook", "-f", "config/auto", "-f", "config/claims")
			t.Logf("installing again after a failure: %v", err)
		}
	})
	start := time.Now()
	_, err := framework.Run(t.Context(), command[0], command[1:]...)
	require.NoError(t, err)
	t.Logf("%q took %v", command, time.Since(start).Round(time.Second))
	eventually(t, 30*time.Second, "the webhooks to be gone", func() error {
		mutating, err := cluster.Kube.AdmissionregistrationV1().MutatingWebhookConfigurations().List(t.Context(), partOfUs)
		if err == nil && len(mutating.Items) > 0 {
			return fmt.Errorf("%q is there", mutating.Items[0].Name)
		}
		return err
	})
	waitUntilSelected(t, namespace, false)
	requireRunsAsWritten(t, namespace)
	_, err = annotate(t.Context(), later, `"true"`)
	require.NoError(t, err)
	waitUntilSelected(t, later, false)
	requireRunsAsWritten(t, later)
	release()
	eventually(t, time.Minute, "nothing of ours to be left in the namespaces that opted in", func() error {
		others := partOfUs // the log service stays, with its right to know the API server
		others.FieldSelector = "metadata.namespace!=" + endpoint.Namespace + ",metadata.namespace!=" + metav1.NamespaceSystem
		bindings, err := cluster.Kube.RbacV1().RoleBindings(metav1.NamespaceAll).List(t.Context(), others)
		if err == nil && len(bindings.Items) > 0 {
			return fmt.Errorf("RoleBinding %q is in namespace %q", bindings.Items[0].Name, bindings.Items[0].Namespace)
		}
		return err
	})

	require.NoError(t, waitUntilGone(t.Context()))
	requireNobodyIsConfined(t)
	requireWrapsOnceRolledOut(t, first)
	install(t)
	require.NoError(t, cluster.WaitForInjector(t.Context()))
	waitForGrant(t, namespace, true)
	again := createPod(t, namespace, askingPod("again", busybox(t, "main", "true")))
	requireWrapped(t, again, "main")
	require.Equal(t, corev1.PodSucceeded, waitUntilDone(t, namespace, "again").Status.Phase)
}

// requireNobodyIsConfined does, without effect, what the policies that confine the
// injector look at. They may have stayed when its namespace went.
func requireNobodyIsConfined(t *testing.T) {
	t.Helper()
	dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	namespace := plainNamespace(t)
	_, err := cluster.Kube.CoreV1().Pods(namespace).Create(t.Context(), plainPod("anybodys", busybox(t, "main", "true")), dry)
	require.NoError(t, err)
	p := plainPod("anybodys", busybox(t, "main", "true"))
	_, err = cluster.Kube.BatchV1().Jobs(namespace).Create(t.Context(), &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "anybodys"}, Spec: batchv1.JobSpec{Template: template(p)},
	}, dry)
	require.NoError(t, err)
	configurations := cluster.Kube.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	all, err := configurations.List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.NotEmpty(t, all.Items, "Tekton and Knative have some")
	_, err = configurations.Patch(t.Context(), all.Items[0].Name, types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+ours+`":"true"}}}`),
		metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
	require.NoError(t, err)
}

// requireWrapsOnceRolledOut installs the injector, and has it wrap a pod as soon as
// it is rolled out, with the commands that a user types, each of them once.
func requireWrapsOnceRolledOut(t *testing.T, namespace string) {
	t.Helper()
	p := askingPod("first", busybox(t, "main", "true"))
	p.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	manifest, err := json.Marshal(p)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "pod.json")
	require.NoError(t, os.WriteFile(file, manifest, 0o600))
	for _, command := range [][]string{
		{"ko", "apply", "-f", "config/webhook"},
		{"kubectl", "-n", framework.SystemNamespace, "rollout", "status", "deployment/" + framework.Injector, "--timeout=3m"},
		{"kubectl", "annotate", "namespace", namespace, "entrypointer.dev/inject=true"},
		{"kubectl", "-n", namespace, "create", "-f", file},
	} {
		_, err := framework.Run(t.Context(), command[0], command[1:]...)
		require.NoError(t, err)
	}
	created, err := cluster.Kube.CoreV1().Pods(namespace).Get(t.Context(), p.Name, metav1.GetOptions{})
	require.NoError(t, err)
	requireWrapped(t, created, "main")
}
