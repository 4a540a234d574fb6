// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/internal/config"
	"github.com/entrypointer/entrypointer/internal/objects"
	"github.com/entrypointer/entrypointer/pkg/pod"
)

const (
	certificateKey = "server-cert.pem" // as knative.dev/pkg writes it
	serverName     = config.WebhookService + "." + objects.InjectorNamespace + ".svc"
	// lateRenewal is how long before its end a certificate should have been renewed: the
	// injector does it a day before.
	lateRenewal = 12 * time.Hour
)

// checkCertificates compares the CA bundles of the webhooks with the certificate that the
// injector serves, if the user may read it.
func checkCertificates(ctx context.Context, q *inquiry) (a answer) {
	manifests, err := manifestsOf("webhook")
	if err != nil {
		return found(Unknown, err.Error(), "")
	}
	served, between, err := q.certificate(ctx)
	switch {
	case err != nil:
		a.findings = append(a.findings, hindered(err, "the certificate", "get secrets -n "+objects.InjectorNamespace))
	case time.Until(served.NotAfter) < lateRenewal:
		a.add(Failed, "the certificate ends at "+served.NotAfter.UTC().Format(time.RFC3339)+", and should have been renewed a day before", showInjector)
	default:
		a.note = "the certificate ends at " + served.NotAfter.UTC().Format(time.RFC3339) + ", and is renewed a day before"
	}
	looked := 0
	for _, m := range manifests {
		if !strings.HasSuffix(m.Kind, "WebhookConfiguration") {
			continue
		}
		var live struct {
			Webhooks []struct {
				Name         string
				ClientConfig struct {
					CABundle []byte
					Service  struct{ Namespace, Name string }
				}
			}
		}
		if err := q.get(ctx, m.path(), &live); err != nil {
			if !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) { // which another check says
				a.findings = append(a.findings, hindered(err, m.String(), m.right("get")))
			}
			continue
		}
		looked++
		for _, w := range live.Webhooks {
			if service := w.ClientConfig.Service; service.Namespace != objects.InjectorNamespace || service.Name != config.WebhookService {
				continue // somebody else's, as another check says
			}
			if problem := trusts(w.ClientConfig.CABundle, served, between); problem != "" {
				a.add(Failed, "webhook "+w.Name+" of "+m.String()+" "+problem, showInjector)
			}
		}
	}
	if looked == 0 {
		a.findings = append(a.findings, Finding{State: Unknown, Message: "the CA bundles are unknown: no webhook configuration could be read", lacksRight: true})
	}
	return a
}

// certificate reads the certificate that the injector serves, and those of authorities that
// it serves with it.
func (q *inquiry) certificate(ctx context.Context) (served *x509.Certificate, between *x509.CertPool, err error) {
	var secret corev1.Secret
	if err := q.get(ctx, "/api/v1/namespaces/"+objects.InjectorNamespace+"/secrets/"+config.ServedSecret, &secret); err != nil {
		return nil, nil, err
	}
	block, rest := pem.Decode(secret.Data[certificateKey])
	if block == nil {
		return nil, nil, fmt.Errorf("reading Secret %q: it has no certificate in %q", config.ServedSecret, certificateKey)
	}
	between = x509.NewCertPool()
	between.AppendCertsFromPEM(rest)
	served, err = x509.ParseCertificate(block.Bytes)
	return served, between, err
}

// trusts says why a CA bundle doesn't verify a certificate, "" if it does. Of an unknown
// certificate, only the bundle is judged.
func trusts(bundle []byte, served *x509.Certificate, between *x509.CertPool) string {
	roots := x509.NewCertPool()
	switch {
	case len(bundle) == 0:
		return "has no CA bundle, which the leader among the injectors sets"
	case !roots.AppendCertsFromPEM(bundle):
		return "has a CA bundle without a certificate"
	case served == nil:
		return ""
	}
	// That it has ended is said once, and not of each webhook.
	begin := served.NotBefore.Add(time.Second)
	if _, err := served.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, DNSName: serverName, CurrentTime: begin}); err != nil {
		return "doesn't trust the certificate: " + err.Error()
	}
	return ""
}

// probeAnnotation is the value of an annotation that the injector refuses.
const probeAnnotation = "asked-by-kubectl-entrypointer-check"

// checkReach has the injector refuse something in a dry run: a namespace with a wrong
// annotation, or, where the user may create no namespaces, a pod.
func checkReach(ctx context.Context, q *inquiry) answer {
	meta := metav1.ObjectMeta{GenerateName: "entrypointer-check-", Annotations: map[string]string{pod.InjectAnnotation: probeAnnotation}}
	ns := corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: meta}
	err := q.try(ctx, "/api/v1/namespaces", ns)
	switch {
	case isOurs(err):
		return passed("it refuses a wrong annotation, in a dry run")
	case err == nil:
		// Its failurePolicy is Ignore.
		return found(Failed, "a namespace with a wrong annotation is admitted, in a dry run: the API server doesn't reach the injector", showInjector)
	case !objects.MayNotCreate(err, "namespaces"):
		return found(Unknown, "whether the webhook is reached is unknown: "+err.Error(), "")
	}
	trial := corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: meta, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "check", Image: "check", Command: []string{"check"}}}}}
	err = q.try(ctx, "/api/v1/namespaces/"+q.Namespace+"/pods", trial)
	switch {
	case isOurs(err):
		return passed("it refuses a pod with a wrong annotation, in a dry run")
	case err == nil:
		return found(Unknown, "whether the webhook is reached is unknown: you may not create namespaces, and namespace "+q.Namespace+" doesn't opt in", "kubectl auth can-i create namespaces")
	case objects.CannotReachUs(err):
		return found(Failed, err.Error(), showInjector)
	case !objects.MayNotCreate(err, "pods"):
		return found(Unknown, "whether the webhook is reached is unknown: "+err.Error(), "")
	}
	return hinderedAnswer(err, "whether the webhook is reached", "create pods -n "+q.Namespace)
}

// isOurs reports whether an error is the refusal of one of our webhooks.
func isOurs(err error) bool {
	_, is := objects.IsRefusedByUs(err)
	return is
}
