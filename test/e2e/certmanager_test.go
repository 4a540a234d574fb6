// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && neighbours

package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	"github.com/entrypointer/entrypointer/internal/config"
	"github.com/entrypointer/entrypointer/test/framework"
)

const (
	certificateFlag = "-certificate-secret"
	givenSecret     = "webhook" // as docs/installing.md names it
	webhookName     = framework.WebhookService + "." + framework.SystemNamespace + ".svc"
)

// certificateOfPage matches the object that docs/installing.md tells operators to create.
var certificateOfPage = regexp.MustCompile("(?s)```yaml\n(apiVersion: cert-manager\\.io/.*?)```")

// startCertManager runs the controllers of cert-manager in a namespace of their own, and
// makes the issuer "internal-ca", whose CA is the Secret of that name there. The webhook and
// the CA injector of cert-manager don't run: they touch no Secret that the injector reads.
func startCertManager(t *testing.T) (namespace string) {
	t.Helper()
	namespace = plainNamespace(t)
	apply(t, objectsOf(t, "github.com/cert-manager/cert-manager", "deploy/crds/*.yaml", nil)...)
	binding, err := cluster.Kube.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: map[string]string{ours: "true"}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: "default"}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		require.NoError(t, cluster.Kube.RbacV1().ClusterRoleBindings().Delete(ctx, binding.Name, metav1.DeleteOptions{}))
	})
	controllers := plainPod("cert-manager", corev1.Container{
		Name: "cert-manager", Image: moduleImage(t, webhooksModule, "./certmanager"), Args: []string{"-cluster-resource-namespace", namespace},
	})
	controllers.Spec.AutomountServiceAccountToken = nil
	createPod(t, namespace, controllers)
	waitUntilRunning(t, namespace, controllers.Name)
	apply(t, parsed(t, fmt.Sprintf(`
apiVersion: cert-manager.io/v1
kind: Issuer
metadata: {name: self-signed, namespace: %[1]s}
spec: {selfSigned: {}}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: internal-ca, namespace: %[1]s}
spec:
  isCA: true
  commonName: internal-ca
  secretName: internal-ca
  privateKey: {algorithm: ECDSA, size: 256}
  issuerRef: {kind: Issuer, name: self-signed}
---
apiVersion: cert-manager.io/v1
kind: ClusterIssuer
metadata: {name: internal-ca}
spec: {ca: {secretName: internal-ca}}
`, namespace))...)
	return namespace
}

// renew does what "cmctl renew" does.
func renew(t *testing.T, namespace, name string) {
	t.Helper()
	certificates := cluster.Dynamic.Resource(schema.GroupVersionResource{Group: "cert-manager.io", Version: "v1", Resource: "certificates"}).Namespace(namespace)
	require.NoError(t, retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		certificate, err := certificates.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		conditions, _, err := unstructured.NestedSlice(certificate.Object, "status", "conditions")
		if err != nil {
			return err
		}
		conditions = slices.DeleteFunc(conditions, func(c any) bool { return c.(map[string]any)["type"] == "Issuing" })
		conditions = append(conditions, map[string]any{
			"type": "Issuing", "status": "True", "reason": "ManuallyTriggered", "message": "by a test",
			"lastTransitionTime": metav1.Now().UTC().Format(time.RFC3339), "observedGeneration": certificate.GetGeneration(),
		})
		if err := unstructured.SetNestedSlice(certificate.Object, conditions, "status", "conditions"); err != nil {
			return err
		}
		_, err = certificates.UpdateStatus(t.Context(), certificate, metav1.UpdateOptions{})
		return err
	}))
}

// waitForIssued waits until a Secret has another certificate than the former one.
func waitForIssued(t *testing.T, namespace, name string, former []byte) (data map[string][]byte) {
	t.Helper()
	eventually(t, 2*time.Minute, "cert-manager to write Secret "+namespace+"/"+name, func() error {
		secret, err := cluster.Kube.CoreV1().Secrets(namespace).Get(t.Context(), name, metav1.GetOptions{})
		switch {
		case err != nil:
			return err
		case len(secret.Data[corev1.TLSCertKey]) == 0:
			return errors.New("it has no certificate")
		case bytes.Equal(secret.Data[corev1.TLSCertKey], former):
			return errors.New("it has the former certificate")
		}
		data = secret.Data
		return nil
	})
	return data
}

// setArgs rolls the injector out with other arguments, and waits until the former replicas,
// of which one may be the leader, are gone.
func setArgs(ctx context.Context, args []string) error {
	patch, err := json.Marshal([]map[string]any{{"op": "replace", "path": "/spec/template/spec/containers/0/args", "value": args}})
	if err != nil {
		return err
	}
	if _, err := cluster.Kube.AppsV1().Deployments(framework.SystemNamespace).Patch(ctx, framework.Injector, types.JSONPatchType, patch, metav1.PatchOptions{}); err != nil {
		return err
	}
	if err := cluster.WaitForInjector(ctx); err != nil {
		return err
	}
	return framework.Eventually(ctx, 3*time.Minute, "the former replicas to be gone", func(ctx context.Context) error {
		pods, err := cluster.InjectorPods(ctx)
		for i := range pods {
			if !slices.Equal(pods[i].Spec.Containers[0].Args, args) {
				return fmt.Errorf("pod %q is there", pods[i].Name)
			}
		}
		return err
	})
}

// serveGiven has the injector serve the given Secret, until the end of the test. Afterwards it
// has the certificate of before.
func serveGiven(t *testing.T) {
	t.Helper()
	secrets := cluster.Kube.CoreV1().Secrets(framework.SystemNamespace)
	before, err := secrets.Get(t.Context(), config.ServedSecret, metav1.GetOptions{})
	require.NoError(t, err)
	deployment, err := cluster.Kube.AppsV1().Deployments(framework.SystemNamespace).Get(t.Context(), framework.Injector, metav1.GetOptions{})
	require.NoError(t, err)
	args := deployment.Spec.Template.Spec.Containers[0].Args
	require.NotContains(t, args, certificateFlag)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 6*time.Minute)
		defer cancel()
		require.NoError(t, setArgs(ctx, args))
		patch, err := json.Marshal(map[string]any{"data": before.Data})
		require.NoError(t, err)
		_, err = secrets.Patch(ctx, config.ServedSecret, types.MergePatchType, patch, metav1.PatchOptions{})
		require.NoError(t, err)
		require.NoError(t, cluster.WaitForInjector(ctx))
	})
	require.NoError(t, setArgs(t.Context(), append(slices.Clone(args), certificateFlag, givenSecret)))
}

// shown connects to each replica of the injector, and returns a function that fails unless
// all of them show this certificate.
func shown(t *testing.T) func(data map[string][]byte) error {
	t.Helper()
	pods, err := cluster.InjectorPods(t.Context())
	require.NoError(t, err)
	addresses := map[string]string{}
	for i := range pods {
		addresses[pods[i].Name], err = framework.Forward(t.Context(), framework.SystemNamespace, "pod/"+pods[i].Name, ":8443")
		require.NoError(t, err)
	}
	return func(data map[string][]byte) error {
		pair, err := tls.X509KeyPair(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey])
		if err != nil {
			return err
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(data["ca.crt"])
		for name, address := range addresses {
			connection, err := (&tls.Dialer{Config: &tls.Config{RootCAs: roots, ServerName: webhookName}}).DialContext(t.Context(), "tcp", address)
			if err != nil {
				return fmt.Errorf("connecting to pod %s: %w", name, err)
			}
			leaf := connection.(*tls.Conn).ConnectionState().PeerCertificates[0]
			if err := connection.Close(); err != nil {
				return err
			}
			if !bytes.Equal(leaf.Raw, pair.Certificate[0]) {
				return fmt.Errorf("pod %s shows another certificate of this CA, of %v", name, leaf.NotBefore)
			}
		}
		return nil
	}
}

func TestACertificateOfCertManagerIsServedAndRenewedWhileNobodyIsRefused(t *testing.T) {
	namespace := optedInNamespace(t)
	authority := startCertManager(t)
	secrets := cluster.Kube.CoreV1().Secrets(framework.SystemNamespace)
	t.Cleanup(func() { // cert-manager leaves it
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := secrets.Delete(ctx, givenSecret, metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
			require.NoError(t, err)
		}
	})
	top, err := framework.RepositoryRoot()
	require.NoError(t, err)
	page, err := os.ReadFile(filepath.Join(top, "docs", "installing.md"))
	require.NoError(t, err)
	object := certificateOfPage.FindSubmatch(page)
	require.NotNil(t, object)
	apply(t, parsed(t, string(object[1]))...)
	issued := waitForIssued(t, framework.SystemNamespace, givenSecret, nil)

	steady := admitSteadily(t, namespace)
	serveGiven(t)
	shows := shown(t)
	requireShown := func(what string) {
		t.Helper()
		eventually(t, 2*time.Minute, "all replicas to show the certificate "+what, func() error { return shows(issued) })
	}
	requireShown("as it was issued")

	renew(t, framework.SystemNamespace, givenSecret)
	issued = waitForIssued(t, framework.SystemNamespace, givenSecret, issued[corev1.TLSCertKey])
	requireShown("as it was renewed")

	require.NoError(t, secrets.Delete(t.Context(), givenSecret, metav1.DeleteOptions{}))
	issued = waitForIssued(t, framework.SystemNamespace, givenSecret, issued[corev1.TLSCertKey])
	requireShown("that was issued after a deletion")

	formerCA := waitForIssued(t, authority, "internal-ca", nil)[corev1.TLSCertKey]
	renew(t, authority, "internal-ca")
	waitForIssued(t, authority, "internal-ca", formerCA)
	renew(t, framework.SystemNamespace, givenSecret)
	issued = waitForIssued(t, framework.SystemNamespace, givenSecret, issued[corev1.TLSCertKey])
	require.NotEqual(t, formerCA, issued["ca.crt"])
	requireShown("of another CA")

	admitted, refusals := steady.stop()
	t.Logf("%d pods were admitted meanwhile", admitted)
	require.Empty(t, refusals)
	require.Greater(t, admitted, 100)
	created := createPod(t, namespace, askingPod("last", busybox(t, "main", "true")))
	requireWrapped(t, created, "main")
	require.Equal(t, corev1.PodSucceeded, waitUntilDone(t, namespace, "last").Status.Phase)
}
