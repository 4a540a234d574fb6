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
	"knative.dev/pkg/controller"
	"knative.dev/pkg/logging"
	"knative.dev/pkg/reconciler"
	"knative.dev/pkg/system"
	certresources "knative.dev/pkg/webhook/certificates/resources"
)

// caBundle maintains one MutatingWebhookConfiguration: the API server needs the CA of the
// webhook's certificate, which is replaced every few days.
//
// It also makes the injector's namespace the owner of the configuration: otherwise, the
// deletion of the namespace, and with it of the injector, would leave a webhook behind
// that refuses every pod it selects.
type caBundle struct {
	reconciler.LeaderAwareFuncs

	client         kubernetes.Interface
	key            types.NamespacedName
	secretName     string
	secrets        corelisters.SecretLister
	configurations admissionlisters.MutatingWebhookConfigurationLister
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
	current, err := c.configurations.Get(c.key.Name)
	if err != nil {
		return fmt.Errorf("reading MutatingWebhookConfiguration %q: %w", c.key.Name, err)
	}
	owner, err := c.owner(ctx)
	if err != nil {
		return err
	}
	wanted, changed := withCABundle(current, ca, owner)
	if !changed {
		return nil
	}
	if _, err := c.client.AdmissionregistrationV1().MutatingWebhookConfigurations().Update(ctx, wanted, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("updating MutatingWebhookConfiguration %q: %w", c.key.Name, err)
	}
	logging.FromContext(ctx).Infof("Updated the CA bundle of MutatingWebhookConfiguration %q", c.key.Name)
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

// withCABundle returns a copy in which every webhook trusts ca, and whether the copy
// differs.
func withCABundle(current *admissionregistrationv1.MutatingWebhookConfiguration, ca []byte, owner metav1.OwnerReference) (*admissionregistrationv1.MutatingWebhookConfiguration, bool) {
	wanted := current.DeepCopy()
	changed := false
	if len(current.OwnerReferences) != 1 || current.OwnerReferences[0].UID != owner.UID {
		wanted.OwnerReferences = []metav1.OwnerReference{owner}
		changed = true
	}
	for i := range wanted.Webhooks {
		config := &wanted.Webhooks[i].ClientConfig
		if bundle := bundleOf(ca, config.CABundle); !bytes.Equal(config.CABundle, bundle) {
			config.CABundle = bundle
			changed = true
		}
	}
	return wanted, changed
}

// bundleOf returns the CA together with the former CA, whose certificate is served until
// every API server knows the new one (serve.Overlap). Other content and expired
// certificates are removed.
func bundleOf(ca, current []byte) []byte {
	rest := bytes.TrimPrefix(current, ca)
	block, _ := pem.Decode(rest)
	if block == nil || bytes.Contains(ca, pem.EncodeToMemory(block)) {
		return ca
	}
	former, err := x509.ParseCertificate(block.Bytes)
	if err != nil || !former.IsCA || time.Now().After(former.NotAfter) {
		return ca
	}
	return slices.Concat(ca, pem.EncodeToMemory(block))
}
