// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package admission serves webhooks through knative.dev/pkg: an admit function on a
// path, and a reconciler that keeps the CA bundle of the webhook configuration current.
//
// knative.dev/pkg has such a controller of its own, for custom resources
// (webhook/resourcesemantics/defaulting). It overwrites rules and
// reinvocation policy, drops fields that its types don't know, and logs whole
// patches; pods forgive none of the three. That for ConfigMaps (webhook/configmaps)
// overwrites rules as well, forgets the former CA as soon as there is a new one, and sets no
// CA in an entry with another name.
package admission

import (
	"context"
	"fmt"
	"runtime/debug"

	"go.uber.org/zap"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	kubeclient "knative.dev/pkg/client/injection/kube/client"
	mwcinformer "knative.dev/pkg/client/injection/kube/informers/admissionregistration/v1/mutatingwebhookconfiguration"
	vwcinformer "knative.dev/pkg/client/injection/kube/informers/admissionregistration/v1/validatingwebhookconfiguration"
	"knative.dev/pkg/controller"
	secretinformer "knative.dev/pkg/injection/clients/namespacedkube/informers/core/v1/secret"
	"knative.dev/pkg/logging"
	"knative.dev/pkg/reconciler"
	"knative.dev/pkg/system"
	"knative.dev/pkg/webhook"
)

// Admit decides on one object. It must not have side effects.
type Admit func(context.Context, *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse

// NewController returns a controller that serves admit on path, and keeps the CA bundle
// of the named MutatingWebhookConfiguration current.
func NewController(ctx context.Context, name, path string, admit Admit) *controller.Impl {
	configurations := mwcinformer.Get(ctx)
	return newController(ctx, name, path, admit, configurations.Informer(), mutating(configurations.Lister(), kubeclient.Get(ctx)))
}

// NewValidator does the same with a ValidatingWebhookConfiguration, whose webhook can
// refuse objects and not change them.
func NewValidator(ctx context.Context, name, path string, admit Admit) *controller.Impl {
	configurations := vwcinformer.Get(ctx)
	return newController(ctx, name, path, admit, configurations.Informer(), validating(configurations.Lister(), kubeclient.Get(ctx)))
}

func newController(ctx context.Context, name, path string, admit Admit, configurations cache.SharedIndexInformer, read readConfiguration) *controller.Impl {
	secrets := secretinformer.Get(ctx)
	options := webhook.GetOptions(ctx)
	key := types.NamespacedName{Name: name}
	s := &server{
		path:   path,
		admit:  admit,
		logger: logging.FromContext(ctx),
		caBundle: caBundle{
			client:     kubeclient.Get(ctx),
			key:        key,
			secretName: options.SecretName,
			secrets:    secrets.Lister(),
			read:       read,
			writes:     newWrites(),
			LeaderAwareFuncs: reconciler.LeaderAwareFuncs{
				PromoteFunc: func(bucket reconciler.Bucket, enqueue func(reconciler.Bucket, types.NamespacedName)) error {
					enqueue(bucket, key)
					return nil
				},
			},
		},
	}
	logger := logging.FromContext(ctx).Named(name)
	impl := controller.NewContext(ctx, s, controller.ControllerOptions{WorkQueueName: name, Logger: logger})
	// Every change concerns the same object.
	look := controller.HandleAll(func(any) { impl.EnqueueKey(key) })
	_, err := configurations.AddEventHandler(cache.FilteringResourceEventHandler{
		FilterFunc: controller.FilterWithName(name), Handler: look,
	})
	if err == nil {
		_, err = secrets.Informer().AddEventHandler(cache.FilteringResourceEventHandler{
			FilterFunc: controller.FilterWithNameAndNamespace(system.Namespace(), options.SecretName), Handler: look,
		})
	}
	if err != nil {
		logger.Fatalw("Failed to watch the webhook's configuration and secret", zap.Error(err))
	}
	return impl
}

// server implements the interfaces by which sharedmain recognises a webhook, and runs it
// as a reconciler.
type server struct {
	webhook.StatelessAdmissionImpl
	caBundle

	path   string
	admit  Admit
	logger *zap.SugaredLogger
}

var (
	_ webhook.AdmissionController          = (*server)(nil)
	_ webhook.StatelessAdmissionController = (*server)(nil)
	_ controller.Reconciler                = (*server)(nil)
	_ reconciler.LeaderAware               = (*server)(nil)
)

// Path implements webhook.AdmissionController.
func (s *server) Path() string { return s.path }

// Admit implements webhook.AdmissionController. A panic becomes a response, because the
// API server would treat a broken connection as an outage. The log lines have only the
// injector's fields: among those that knative.dev/pkg adds for each request, the decision
// would be hard to find.
func (s *server) Admit(ctx context.Context, request *admissionv1.AdmissionRequest) (response *admissionv1.AdmissionResponse) {
	ctx = logging.WithLogger(ctx, s.logger.With(zap.String("namespace", request.Namespace)))
	defer func() {
		if recovered := recover(); recovered != nil {
			logging.FromContext(ctx).Errorw("Panic in admission", zap.Any("panic", recovered), zap.ByteString("stack", debug.Stack()))
			response = failed(fmt.Errorf("deciding on this object: internal error: %v; please report it", recovered))
		}
	}()
	return s.admit(ctx, request)
}
