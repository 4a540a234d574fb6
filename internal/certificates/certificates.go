// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package certificates restores the Secret with the webhook's certificates after a deletion,
// and replaces certificates that aren't valid yet. knative.dev/pkg's controller fills an
// existing Secret and replaces certificates that expire; it does neither of the two.
package certificates

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
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

// NewController returns the controller that creates the Secret.
func NewController(ctx context.Context, _ configmap.Watcher) *controller.Impl {
	k := &keeper{service: webhook.GetOptions(ctx).ServiceName}
	return k.start(ctx, k)
}

// servedSecret is the Secret with the certificate that is served, for its reconcilers.
type servedSecret struct {
	reconciler.LeaderAwareFuncs

	client  kubernetes.Interface
	secrets corelisters.SecretLister
	key     types.NamespacedName
}

// start returns the controller that asks r about the served Secret when this one, or one of
// the others in its namespace, has changed.
func (s *servedSecret) start(ctx context.Context, r controller.Reconciler, others ...string) *controller.Impl {
	secrets := secretinformer.Get(ctx)
	s.client, s.secrets = kubeclient.Get(ctx), secrets.Lister()
	s.key = types.NamespacedName{Namespace: system.Namespace(), Name: webhook.GetOptions(ctx).SecretName}
	s.PromoteFunc = func(bucket reconciler.Bucket, enqueue func(reconciler.Bucket, types.NamespacedName)) error {
		enqueue(bucket, s.key)
		return nil
	}
	logger := logging.FromContext(ctx).Named("certificates")
	impl := controller.NewContext(ctx, r, controller.ControllerOptions{WorkQueueName: "certificates", Logger: logger})
	for _, name := range append(others, s.key.Name) {
		if _, err := secrets.Informer().AddEventHandler(cache.FilteringResourceEventHandler{
			FilterFunc: controller.FilterWithNameAndNamespace(s.key.Namespace, name),
			Handler:    controller.HandleAll(func(any) { impl.EnqueueKey(s.key) }),
		}); err != nil {
			logger.Fatalw("Failed to watch Secret "+name, zap.Error(err))
		}
	}
	return impl
}

// apply creates the Secret, or changes it to have these data. Server-side apply has the name in
// its URL, so that RBAC can confine even the creation, and leaves what it doesn't name, such as
// the data of a Secret that another client created meanwhile. It reports whether the Secret is
// there: not while its namespace is being deleted.
func (s *servedSecret) apply(ctx context.Context, data map[string][]byte) (done bool, _ error) {
	fields := map[string]any{
		"apiVersion": "v1", "kind": "Secret",
		"metadata": map[string]any{"name": s.key.Name, "labels": map[string]string{"app.kubernetes.io/part-of": "entrypointer"}},
	}
	if data != nil {
		fields["data"] = data
	}
	object, err := json.Marshal(fields)
	if err != nil {
		return false, err
	}
	_, err = s.client.CoreV1().Secrets(s.key.Namespace).Patch(ctx, s.key.Name, types.ApplyPatchType, object,
		metav1.PatchOptions{FieldManager: "entrypointer", Force: new(true)})
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return false, nil
	}
	return err == nil, err
}

type keeper struct {
	servedSecret

	service string // by whose name API servers call
}

// Reconcile implements controller.Reconciler.
func (k *keeper) Reconcile(ctx context.Context, key string) error {
	if !k.IsLeaderFor(k.key) {
		return controller.NewSkipKey(key)
	}
	secret, err := k.secrets.Secrets(k.key.Namespace).Get(k.key.Name)
	switch {
	case apierrors.IsNotFound(err):
		return k.create(ctx)
	case err != nil:
		return fmt.Errorf("reading the webhook's certificate: %w", err)
	case isOfTomorrow(secret.Data[certresources.ServerCert], time.Now()):
		return k.replace(ctx)
	}
	return nil
}

func (k *keeper) create(ctx context.Context) error {
	created, err := k.apply(ctx, nil)
	if err != nil {
		return fmt.Errorf("creating deleted Secret %q again: %w", k.key, err)
	}
	if created {
		logging.FromContext(ctx).Infof("Created deleted Secret %q again", k.key)
	}
	return nil
}

func (k *keeper) replace(ctx context.Context) error {
	secret, err := certresources.MakeSecret(ctx, k.key.Name, k.key.Namespace, k.service)
	if err != nil {
		return fmt.Errorf("making another certificate than that in Secret %q, which isn't valid yet: %w", k.key, err)
	}
	if _, err := k.apply(ctx, secret.Data); err != nil {
		return fmt.Errorf("replacing the certificate in Secret %q, which isn't valid yet: %w", k.key, err)
	}
	logging.FromContext(ctx).Warnf("Replaced the certificate in Secret %q, which isn't valid yet: a clock was ahead, of the node of the injector that made it or of who wrote it", k.key)
	return nil
}

// isOfTomorrow reports whether a certificate, in PEM, isn't valid yet.
func isOfTomorrow(certificate []byte, now time.Time) bool {
	block, _ := pem.Decode(certificate)
	if block == nil {
		return false
	}
	parsed, err := x509.ParseCertificate(block.Bytes)
	return err == nil && now.Before(parsed.NotBefore)
}
