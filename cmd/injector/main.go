// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Injector is the webhook that puts the supervisor into pods, and the reconciler that
// keeps the labels of namespaces in step with their annotations.
package main

import (
	"flag"
	"log"
	"strings"
	"time"

	"knative.dev/pkg/injection"
	"knative.dev/pkg/injection/sharedmain"
	"knative.dev/pkg/signals"
	"knative.dev/pkg/webhook"
	knativecertificates "knative.dev/pkg/webhook/certificates"

	"github.com/entrypointer/entrypointer/internal/admission"
	"github.com/entrypointer/entrypointer/internal/autodelivery"
	"github.com/entrypointer/entrypointer/internal/certificates"
	"github.com/entrypointer/entrypointer/internal/claims"
	"github.com/entrypointer/entrypointer/internal/config"
	"github.com/entrypointer/entrypointer/internal/namespaces"
	"github.com/entrypointer/entrypointer/internal/outage"
	"github.com/entrypointer/entrypointer/internal/podwebhook"
	"github.com/entrypointer/entrypointer/internal/uninstall"
	"github.com/entrypointer/entrypointer/internal/version"
	"github.com/entrypointer/entrypointer/internal/workloads"
	"github.com/entrypointer/entrypointer/pkg/pod"
)

// webhooks are the configurations by which API servers call the injector.
var webhooks = admission.Webhooks{
	Mutating:   []string{podwebhook.WebhookName, namespaces.WebhookName},
	Validating: []string{configWebhook, workloads.WebhookName},
}

const (
	port = 8443
	// An API server opens a connection for each request under way, by default for 600 at
	// most (--max-requests-inflight and --max-mutating-requests-inflight).
	maxConnections, maxConnectionsOfAddress = 1500, 750
	// After SIGTERM, a replica serves until no request has come for this long, so that
	// every node knows of the shutdown by then.
	quietPeriod = 20 * time.Second
	// The replica stops when the webhook configurations have been gone for this long,
	// because every API server knows of the deletion by then.
	deletionHeard = 2 * time.Second
	// The replica stops after this time in any case. The Deployment's
	// terminationGracePeriodSeconds is longer, for the last responses.
	longestDrain = time.Minute
)

func main() {
	var images podwebhook.Images
	flag.StringVar(&images.Copier, "copier-image", "", "image of the init container, with its digest (required)")
	flag.StringVar(&images.Entrypoint, "entrypoint-image", "", "image that is mounted as a volume if so configured, with its digest (required)")
	flag.StringVar(&images.CopierWithLogs, "copier-with-logs-image", "", "the same for pods whose output goes to the log service (required)")
	flag.StringVar(&images.EntrypointWithLogs, "entrypoint-with-logs-image", "", "the same for pods whose output goes to the log service (required)")
	given := flag.String("certificate-secret", "", "Secret of the injector's namespace with the certificate to serve, in the keys tls.crt, tls.key and ca.crt; without, the injector makes and renews its own")
	version.AddFlag("injector")
	ctx := webhook.WithOptions(signals.NewContext(), webhook.Options{
		ServiceName: config.WebhookService,
		SecretName:  config.ServedSecret,
	})
	ctx = sharedmain.WithOTelViews(ctx, webhookMetrics())
	// ParseAndGetRESTConfigOrDie parses the flags, so it comes before they are used.
	kubeconfig := injection.ParseAndGetRESTConfigOrDie()
	for _, image := range []string{images.Copier, images.Entrypoint, images.CopierWithLogs, images.EntrypointWithLogs} {
		if !strings.Contains(image, "@sha256:") {
			log.Fatalf("starting the injector: %q is no image with a digest, but each of the flags that end with -image needs one; install them with ko apply -f config/webhook, which fills them in", image)
		}
	}
	certificateControllers := []injection.ControllerConstructor{certificates.NewController, knativecertificates.NewController}
	switch *given {
	case "":
	case config.ServedSecret:
		log.Fatalf("starting the injector: -certificate-secret names %s, into which the certificate is copied: name another Secret", config.ServedSecret)
	default:
		certificateControllers = []injection.ControllerConstructor{certificates.NewGiven(*given)}
	}
	settings := &config.Store{}
	auto := autodelivery.New(autodelivery.Images{Entrypoint: images.Entrypoint, WithLogs: images.EntrypointWithLogs})
	settings.Follow(auto.Configure)
	volumes := claims.New()
	err := run(ctx, kubeconfig, settings, append(certificateControllers,
		podwebhook.NewAdmissionController(images, settings, auto, volumes.Ready),
		auto.NewController,
		namespaces.NewAdmissionController(settings, map[pod.Delivery]namespaces.Part{
			pod.DeliveryAuto:  {Folder: "config/auto", Absent: auto.Absent},
			pod.DeliveryClaim: {Folder: "config/claims", Absent: volumes.Absent},
		}),
		workloads.NewAdmissionController(settings),
		namespaces.NewReconciler(podwebhook.WebhookName),
		volumes.NewReconciler(claims.Images{Copier: images.Copier, CopierWithLogs: images.CopierWithLogs}, settings),
		outage.NewController(images.Copier, settings),
		newConfigValidation,
		uninstall.NewController(webhooks),
	)...)
	if err != nil {
		log.Fatalf("running the injector: %v", err)
	}
}
