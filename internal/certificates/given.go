// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package certificates

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	kubeclient "knative.dev/pkg/client/injection/kube/client"
	"knative.dev/pkg/configmap"
	"knative.dev/pkg/controller"
	secretinformer "knative.dev/pkg/injection/clients/namespacedkube/informers/core/v1/secret"
	"knative.dev/pkg/logging"
	"knative.dev/pkg/reconciler"
	"knative.dev/pkg/system"
	"knative.dev/pkg/webhook"
	certresources "knative.dev/pkg/webhook/certificates/resources"
)

// caKey is the key of a Secret of the type kubernetes.io/tls that cert-manager adds.
const caKey = "ca.crt"

// NewGiven returns the constructor of a controller that copies the certificate of another
// Secret of the injector's namespace into the one that is served from. That Secret has the keys
// tls.crt, tls.key and ca.crt, as cert-manager writes them, and whoever writes it renews the
// certificate. The controller takes the place of those that make certificates.
func NewGiven(secret string) func(context.Context, configmap.Watcher) *controller.Impl {
	return func(ctx context.Context, _ configmap.Watcher) *controller.Impl {
		secrets, options := secretinformer.Get(ctx), webhook.GetOptions(ctx)
		key := types.NamespacedName{Namespace: system.Namespace(), Name: options.SecretName}
		g := &given{
			client: kubeclient.Get(ctx), secrets: secrets.Lister(), from: secret, key: key,
			server: options.ServiceName + "." + system.Namespace() + ".svc",
			LeaderAwareFuncs: reconciler.LeaderAwareFuncs{
				PromoteFunc: func(bucket reconciler.Bucket, enqueue func(reconciler.Bucket, types.NamespacedName)) error {
					enqueue(bucket, key)
					return nil
				},
			},
		}
		logger := logging.FromContext(ctx).Named("certificates")
		impl := controller.NewContext(ctx, g, controller.ControllerOptions{WorkQueueName: "certificates", Logger: logger})
		enqueue := func(any) { impl.EnqueueKey(key) }
		for _, name := range []string{key.Name, secret} {
			if _, err := secrets.Informer().AddEventHandler(cache.FilteringResourceEventHandler{
				FilterFunc: controller.FilterWithNameAndNamespace(key.Namespace, name), Handler: controller.HandleAll(enqueue),
			}); err != nil {
				logger.Fatalw("Failed to watch the webhook's Secrets", zap.Error(err))
			}
		}
		return impl
	}
}

type given struct {
	reconciler.LeaderAwareFuncs

	client  kubernetes.Interface
	secrets corelisters.SecretLister
	from    string               // the name of the Secret with the certificate
	key     types.NamespacedName // of the Secret that is served from
	server  string               // the name by which API servers call
}

// Reconcile implements controller.Reconciler. What can't be served leaves the former
// certificate in its place.
func (g *given) Reconcile(ctx context.Context, key string) error {
	if !g.IsLeaderFor(g.key) {
		return controller.NewSkipKey(key)
	}
	secret, err := g.secrets.Secrets(g.key.Namespace).Get(g.from)
	if err != nil {
		return fmt.Errorf("reading the given certificate: %w; create Secret %s/%s, or start the injector without -certificate-secret", err, g.key.Namespace, g.from)
	}
	if err := g.check(secret.Data, time.Now()); err != nil {
		return fmt.Errorf("reading the given certificate in Secret %q: %w; the former certificate stays", g.from, err)
	}
	data := map[string][]byte{
		certresources.ServerCert: secret.Data[corev1.TLSCertKey], certresources.ServerKey: secret.Data[corev1.TLSPrivateKeyKey], certresources.CACert: secret.Data[caKey],
	}
	served, err := g.secrets.Secrets(g.key.Namespace).Get(g.key.Name)
	switch {
	case err == nil && maps.EqualFunc(served.Data, data, func(a, b []byte) bool { return string(a) == string(b) }):
		return nil
	case err != nil && !apierrors.IsNotFound(err):
		return fmt.Errorf("reading the webhook's certificate: %w", err)
	}
	return g.write(ctx, data)
}

// check returns an error unless API servers that trust the CA would trust the certificate.
func (g *given) check(data map[string][]byte, now time.Time) error {
	pair, err := tls.X509KeyPair(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return fmt.Errorf("keys %s and %s: %w", corev1.TLSCertKey, corev1.TLSPrivateKeyKey, err)
	}
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	if !roots.AppendCertsFromPEM(data[caKey]) {
		return errors.New("key " + caKey + " has no certificate: the API server is told to trust that one")
	}
	for _, der := range pair.Certificate[1:] {
		if authority, err := x509.ParseCertificate(der); err == nil {
			between.AddCert(authority)
		}
	}
	if _, err := pair.Leaf.Verify(x509.VerifyOptions{DNSName: g.server, Roots: roots, Intermediates: between, CurrentTime: now}); err != nil {
		return fmt.Errorf("%s doesn't verify %s: %w", caKey, corev1.TLSCertKey, err)
	}
	return nil
}

// write writes the Secret that is served from, by server-side apply, whose URL has the name:
// so RBAC can confine even the creation.
func (g *given) write(ctx context.Context, data map[string][]byte) error {
	object, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Secret",
		"metadata": map[string]any{"name": g.key.Name, "labels": map[string]string{"app.kubernetes.io/part-of": "entrypointer"}},
		"data":     data,
	})
	if err != nil {
		return fmt.Errorf("encoding Secret %q: %w", g.key.Name, err)
	}
	_, err = g.client.CoreV1().Secrets(g.key.Namespace).Patch(ctx, g.key.Name, types.ApplyPatchType, object,
		metav1.PatchOptions{FieldManager: "entrypointer", Force: new(true)})
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil
	case err != nil:
		return fmt.Errorf("copying the given certificate to Secret %q: %w", g.key, err)
	}
	logging.FromContext(ctx).Infof("Copied the certificate of Secret %q to %q", g.from, g.key)
	return nil
}
