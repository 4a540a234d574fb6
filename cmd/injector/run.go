// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/go-logr/zapr"
	"go.opentelemetry.io/otel"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	kubeclient "knative.dev/pkg/client/injection/kube/client"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/injection"
	secretinformer "knative.dev/pkg/injection/clients/namespacedkube/informers/core/v1/secret"
	"knative.dev/pkg/injection/sharedmain"
	"knative.dev/pkg/leaderelection"
	"knative.dev/pkg/logging"
	knativetls "knative.dev/pkg/network/tls"
	k8sruntime "knative.dev/pkg/observability/runtime/k8s"
	"knative.dev/pkg/system"
	"knative.dev/pkg/webhook"
	certresources "knative.dev/pkg/webhook/certificates/resources"

	"github.com/entrypointer/entrypointer/internal/admission"
	"github.com/entrypointer/entrypointer/internal/config"
	"github.com/entrypointer/entrypointer/internal/connections"
	"github.com/entrypointer/entrypointer/internal/intake"
	"github.com/entrypointer/entrypointer/internal/namespaces"
	"github.com/entrypointer/entrypointer/internal/podwebhook"
	"github.com/entrypointer/entrypointer/internal/serve"
	"github.com/entrypointer/entrypointer/internal/version"
)

// component names the injector in the ConfigMaps for logging and observability.
const component = "injector"

// run does the work of sharedmain.MainWithConfig, except for the server: draining in
// knative.dev/pkg doesn't end under load. The context is done when the process is told to
// stop; all constructors share the settings.
func run(signalled context.Context, kubeconfig *rest.Config, settings *config.Store, constructors ...injection.ControllerConstructor) error {
	kubeconfig.QPS, kubeconfig.Burst = float32(len(constructors))*rest.DefaultQPS, len(constructors)*rest.DefaultBurst
	ctx, startInformers := enableInjection(signalled, kubeconfig)
	logger, level, err := newLogger(ctx)
	if err != nil {
		return err
	}
	logger.Infow("Starting the injector", zap.String("version", version.Own()))
	defer func() { _ = logger.Sync() }()
	ctx = logging.WithLogger(ctx, logger)
	klog.SetLogger(zapr.NewLogger(logger.Desugar()))
	rest.SetDefaultWarningHandler(&logging.WarningHandler{Logger: logger})

	sharedmain.CheckK8sClientMinimumVersionOrDie(ctx, logger)
	watcher := sharedmain.SetupConfigMapWatchOrDie(ctx, logger)
	election, err := sharedmain.GetLeaderElectionConfig(ctx)
	if err != nil {
		return fmt.Errorf("reading ConfigMap %q: %w", leaderelection.ConfigMapName(), err)
	}
	ctx = leaderelection.WithDynamicLeaderElectorBuilder(ctx, kubeclient.Get(ctx), election.GetComponentConfig(component))
	profiling := k8sruntime.NewProfilingServer(logger.Named("pprof"))
	sendLast, err := observe(ctx, logger, profiling)
	if err != nil {
		return err
	}
	defer sendLast()

	controllers, handlers := sharedmain.ControllersAndWebhooksFromCtors(ctx, watcher, constructors...)
	settings.Watch(logger, watcher)
	sharedmain.WatchLoggingConfigOrDie(ctx, watcher, logger, level, component)
	sharedmain.WatchObservabilityConfigOrDie(ctx, watcher, profiling, logger, component)
	if err := watcher.Start(ctx.Done()); err != nil {
		return fmt.Errorf("watching ConfigMaps in namespace %q: %w", system.Namespace(), err)
	}
	handler, err := newHandler(ctx, handlers)
	if err != nil {
		return err
	}
	certificates := &serve.Certificates{Read: certificate(ctx)}
	readiness, err := newReadiness(ctx, certificates)
	if err != nil {
		return err
	}

	parts := []func(context.Context) error{
		func(context.Context) error { return profiling.ListenAndServe() },
		func(ctx context.Context) error { <-ctx.Done(); return profiling.Shutdown(context.WithoutCancel(ctx)) },
		func(ctx context.Context) error { return serveWebhooks(ctx, handler, settings, certificates, readiness) },
		func(ctx context.Context) error {
			startInformers(ctx)
			handler.InformersHaveSynced()
			readiness.InformersHaveSynced()
			return controller.StartAll(ctx, controllers...)
		},
		func(ctx context.Context) error {
			return injection.ServeHealthProbes(ctx, injection.HealthCheckDefaultPort)
		},
		checkConfinement,
	}
	return together(ctx, parts)
}

// newReadiness returns whether API servers can call this replica, which serves certificates.
func newReadiness(ctx context.Context, certificates *serve.Certificates) (*admission.Readiness, error) {
	configurations, err := admission.NewConfigurations(ctx, webhooks)
	if err != nil {
		return nil, err
	}
	return &admission.Readiness{
		Configurations: configurations,
		Certificate:    func() (*tls.Certificate, error) { return certificates.Get(nil) },
	}, nil
}

// newHandler returns the handler of the webhooks.
func newHandler(ctx context.Context, webhooks []any) (*webhook.Webhook, error) {
	handler, err := webhook.New(logging.WithLogger(ctx, forLibrary(logging.FromContext(ctx))), webhooks)
	if err != nil {
		return nil, fmt.Errorf("making the webhooks: %w", err)
	}
	return handler, nil
}

// takeIn bounds the requests of the webhooks. The webhook for the configuration accepts
// every caller: otherwise, nobody could correct a wrong CA.
func takeIn(webhooks http.Handler, settings *config.Store, logger *zap.SugaredLogger) (*intake.Intake, error) {
	callers := func(r *http.Request) *x509.CertPool {
		if r.URL.Path == configPath {
			return nil
		}
		return settings.Load().Callers
	}
	bounded, err := intake.New(webhooks, callers, logger, otel.GetMeterProvider())
	if err != nil {
		return nil, fmt.Errorf("making the webhooks: %w", err)
	}
	bounded.Ignored = func(r *http.Request) bool { return r.URL.Path != podwebhook.Path }
	return bounded, nil
}

// observe sets metrics and traces up. The function that it returns sends the last of them.
func observe(ctx context.Context, logger *zap.SugaredLogger, profiling *k8sruntime.ProfilingServer) (sendLast func(), _ error) {
	metrics, traces := sharedmain.SetupObservabilityOrDie(ctx, component, logger, profiling)
	sendLast = func() {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		if err := errors.Join(metrics.Shutdown(last), traces.Shutdown(last)); err != nil {
			logger.Errorw("Failed to send the last metrics and traces", zap.Error(err))
		}
	}
	if err := registerBuild(metrics); err != nil {
		sendLast()
		return nil, err
	}
	return sendLast, nil
}

// enableInjection returns a context that is done with signalled, and a function that
// starts the informers. The informers outlive the context: while the server drains, they
// still report namespaces and webhook configurations.
func enableInjection(signalled context.Context, kubeconfig *rest.Config) (ctx context.Context, startInformers func(context.Context)) {
	lasting, stopInformers := context.WithCancel(context.WithoutCancel(signalled))
	injected, start := injection.EnableInjectionOrDie(lasting, kubeconfig)
	ctx, stop := context.WithCancel(injected)
	context.AfterFunc(signalled, stop)
	return ctx, func(ctx context.Context) {
		// Informers that can't sync return only after they are stopped.
		keep := context.AfterFunc(ctx, stopInformers)
		start()
		keep()
	}
}

// together runs the parts until all have returned. The first failure stops the others.
func together(ctx context.Context, parts []func(context.Context) error) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, part := range parts {
		group.Go(func() error {
			if err := part(ctx); !errors.Is(err, http.ErrServerClosed) {
				return err
			}
			return nil
		})
	}
	return group.Wait()
}

// checkConfinement only logs a problem: an injector that isn't confined does its work.
func checkConfinement(ctx context.Context) error {
	if err := namespaces.CheckConfinement(ctx, kubeclient.Get(ctx), system.Namespace()); err != nil {
		logging.FromContext(ctx).Errorw("Failed to prove that the injector is confined", zap.Error(err))
	}
	return nil
}

func serveWebhooks(ctx context.Context, handler http.Handler, settings *config.Store, certificates *serve.Certificates, readiness *admission.Readiness) error {
	bounded, err := takeIn(handler, settings, logging.FromContext(ctx))
	if err != nil {
		return err
	}
	// The environment can set another version of TLS (WEBHOOK_TLS_MIN_VERSION).
	tlsConfig, err := knativetls.DefaultConfigFromEnv("WEBHOOK_")
	if err != nil {
		return fmt.Errorf("configuring TLS: %w", err)
	}
	tlsConfig.GetCertificate = certificates.Get
	// Probes show no certificate; the key api-server-ca decides whether callers have to.
	tlsConfig.ClientAuth, tlsConfig.VerifyConnection = tls.RequestClientCert, intake.CheckCertificates
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", fmt.Sprint(":", port))
	if err != nil {
		return fmt.Errorf("listening for webhooks: %w", err)
	}
	server := &serve.Server{
		Handler: bounded, TLS: tlsConfig, Logger: logging.FromContext(ctx),
		Connections: connections.New(maxConnections, maxConnectionsOfAddress),
		Ready:       readiness.Check, Quiet: quietPeriod, Longest: longestDrain,
		Uncalled: func() bool { return readiness.Configurations.Gone(deletionHeard) },
	}
	return server.Run(ctx, listener)
}

// certificate returns a function that reads the current certificate in the Secret.
func certificate(ctx context.Context) func() (*tls.Certificate, error) {
	secrets, name := secretinformer.Get(ctx).Lister().Secrets(system.Namespace()), webhook.GetOptions(ctx).SecretName
	return func() (*tls.Certificate, error) {
		secret, err := secrets.Get(name)
		if err != nil {
			return nil, fmt.Errorf("reading the webhook's certificate: %w", err)
		}
		pair, err := tls.X509KeyPair(secret.Data[certresources.ServerCert], secret.Data[certresources.ServerKey])
		if err != nil {
			return nil, fmt.Errorf("reading the webhook's certificate in Secret %q: %w", name, err)
		}
		return &pair, nil
	}
}
