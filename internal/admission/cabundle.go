// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	admissionlisters "k8s.io/client-go/listers/admissionregistration/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/util/flowcontrol"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/logging"
	"knative.dev/pkg/reconciler"
	"knative.dev/pkg/system"
	certresources "knative.dev/pkg/webhook/certificates/resources"

	"github.com/entrypointer/entrypointer/internal/config"
)

// caBundle maintains one webhook configuration: the API server needs the CA of the
// webhook's certificate, which is replaced every few days.
//
// It also makes the injector's namespace the owner of the configuration: otherwise, the
// deletion of the namespace, and with it of the injector, would leave a webhook behind
// that refuses every pod it selects.
type caBundle struct {
	reconciler.LeaderAwareFuncs

	client     kubernetes.Interface
	key        types.NamespacedName
	secretName string
	secrets    corelisters.SecretLister
	read       readConfiguration
	writes     flowcontrol.PassiveRateLimiter
}

// Somebody else may set another CA bundle whenever the injector has set its own, such as
// cert-manager's CA injector. Then this many updates follow each other at once, and the
// next come after a pause each: API servers read the configuration again after each one.
const (
	writesAtOnce = 10
	writePause   = 10 * time.Second
)

func newWrites() flowcontrol.PassiveRateLimiter {
	return flowcontrol.NewTokenBucketPassiveRateLimiter(float32(1/writePause.Seconds()), writesAtOnce)
}

// readConfiguration reads a webhook configuration of one kind.
type readConfiguration func(name string) (writable, error)

// A writable is a copy of a webhook configuration, which may be changed and written.
type writable struct {
	kind    string
	meta    *metav1.ObjectMeta
	clients []*admissionregistrationv1.WebhookClientConfig // of its webhooks that call the injector
	update  func(context.Context) error
}

// mutating reads MutatingWebhookConfigurations.
func mutating(lister admissionlisters.MutatingWebhookConfigurationLister, client kubernetes.Interface) readConfiguration {
	return func(name string) (writable, error) {
		cached, err := lister.Get(name)
		if err != nil {
			return writable{}, fmt.Errorf("reading MutatingWebhookConfiguration %q: %w", name, err)
		}
		mine := cached.DeepCopy()
		return writable{
			"MutatingWebhookConfiguration", &mine.ObjectMeta,
			clientsOf(mine.Webhooks, mutatingClient),
			updating(client.AdmissionregistrationV1().MutatingWebhookConfigurations().Update, mine),
		}, nil
	}
}

// validating reads ValidatingWebhookConfigurations.
func validating(lister admissionlisters.ValidatingWebhookConfigurationLister, client kubernetes.Interface) readConfiguration {
	return func(name string) (writable, error) {
		cached, err := lister.Get(name)
		if err != nil {
			return writable{}, fmt.Errorf("reading ValidatingWebhookConfiguration %q: %w", name, err)
		}
		mine := cached.DeepCopy()
		return writable{
			"ValidatingWebhookConfiguration", &mine.ObjectMeta,
			clientsOf(mine.Webhooks, validatingClient),
			updating(client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Update, mine),
		}, nil
	}
}

func mutatingClient(w *admissionregistrationv1.MutatingWebhook) *admissionregistrationv1.WebhookClientConfig {
	return &w.ClientConfig
}

func validatingClient(w *admissionregistrationv1.ValidatingWebhook) *admissionregistrationv1.WebhookClientConfig {
	return &w.ClientConfig
}

// clientsOf are those of the webhooks that call the injector.
func clientsOf[Webhook any](webhooks []Webhook, of func(*Webhook) *admissionregistrationv1.WebhookClientConfig) (clients []*admissionregistrationv1.WebhookClientConfig) {
	for i := range webhooks {
		if client := of(&webhooks[i]); callsUs(client) {
			clients = append(clients, client)
		}
	}
	return clients
}

// callsUs reports whether a webhook calls the injector. Somebody can add one that calls
// something else to our configuration, and its CA is theirs. Its name says nothing: theirs
// can have any, and some of theirs may call the injector as well.
func callsUs(client *admissionregistrationv1.WebhookClientConfig) bool {
	service := client.Service
	return service != nil && service.Namespace == system.Namespace() && service.Name == config.WebhookService
}

func updating[Configuration any](update func(context.Context, Configuration, metav1.UpdateOptions) (Configuration, error), mine Configuration) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := update(ctx, mine, metav1.UpdateOptions{})
		return err
	}
}

// Reconcile implements controller.Reconciler.
func (c *caBundle) Reconcile(ctx context.Context, key string) error {
	if !c.IsLeaderFor(c.key) {
		return controller.NewSkipKey(key)
	}
	secret, err := c.secrets.Secrets(system.Namespace()).Get(c.secretName)
	if err != nil {
		return fmt.Errorf("reading the webhook's certificates: %w", err)
	}
	ca, ok := secret.Data[certresources.CACert]
	if !ok {
		// The certificate controller is about to fill the Secret, which triggers the next
		// call.
		logging.FromContext(ctx).Infof("Waiting for secret %q to be filled", c.secretName)
		return nil
	}
	configuration, err := c.read(c.key.Name)
	if err != nil {
		return err
	}
	owner, err := c.owner(ctx)
	if err != nil {
		return err
	}
	if !configuration.trust(ca, owner) {
		return nil
	}
	if !c.writes.TryAccept() {
		logging.FromContext(ctx).Warnf("Somebody changes %s %q again and again, last %q: the CA bundle is set once in %v only", configuration.kind, c.key.Name, lastWriter(configuration.meta), writePause)
		return controller.NewRequeueAfter(writePause)
	}
	if err := configuration.update(ctx); err != nil {
		return fmt.Errorf("updating %s %q: %w", configuration.kind, c.key.Name, err)
	}
	logging.FromContext(ctx).Infof("Updated the CA bundle of %s %q", configuration.kind, c.key.Name)
	return nil
}

func (c *caBundle) owner(ctx context.Context) (metav1.OwnerReference, error) {
	namespace, err := c.client.CoreV1().Namespaces().Get(ctx, system.Namespace(), metav1.GetOptions{})
	if err != nil {
		return metav1.OwnerReference{}, fmt.Errorf("reading namespace %q: %w", system.Namespace(), err)
	}
	return metav1.OwnerReference{
		APIVersion: corev1.SchemeGroupVersion.String(),
		Kind:       "Namespace",
		Name:       namespace.Name,
		UID:        namespace.UID,
	}, nil
}

// trust makes every webhook trust ca, and reports whether that changed the copy.
func (w writable) trust(ca []byte, owner metav1.OwnerReference) (changed bool) {
	if len(w.meta.OwnerReferences) != 1 || w.meta.OwnerReferences[0].UID != owner.UID {
		w.meta.OwnerReferences = []metav1.OwnerReference{owner}
		changed = true
	}
	for _, client := range w.clients {
		if bundle := bundleOf(ca, client.CABundle); !bytes.Equal(client.CABundle, bundle) {
			client.CABundle = bundle
			changed = true
		}
	}
	return changed
}

// lastWriter is the field manager that changed an object last.
func lastWriter(meta *metav1.ObjectMeta) string {
	var last metav1.ManagedFieldsEntry
	for _, entry := range meta.ManagedFields {
		if last.Time == nil || entry.Time != nil && !entry.Time.Before(last.Time) {
			last = entry
		}
	}
	return last.Manager
}

// formerCAs is how many former CAs a bundle has at most. Certificates are renewed every few
// days; several of them within serve.Overlap are somebody's doing.
const formerCAs = 3

// bundleOf returns the CA together with the former ones. The certificate of one of them is
// served until every API server knows the new one (serve.Overlap): the last but one as well,
// if the last one was replaced before its certificate was served. Other content and expired
// certificates are removed.
func bundleOf(ca, current []byte) []byte {
	bundle, former := slices.Clone(ca), 0
	if len(ca) > 0 && !bytes.HasSuffix(ca, []byte("\n")) {
		bundle = append(bundle, '\n') // or the next certificate would hide this one
	}
	for block, rest := pem.Decode(current); block != nil && former < formerCAs; block, rest = pem.Decode(rest) {
		encoded := pem.EncodeToMemory(block)
		if bytes.Contains(bundle, encoded) {
			continue
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err == nil && certificate.IsCA && time.Now().Before(certificate.NotAfter) {
			bundle = append(bundle, encoded...)
			former++
		}
	}
	if former == 0 {
		return ca
	}
	return bundle
}
