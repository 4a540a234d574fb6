// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/entrypointer/entrypointer/internal/logs/api"
	"github.com/entrypointer/entrypointer/internal/logs/authority"
	"github.com/entrypointer/entrypointer/internal/logs/endpoint"
	"github.com/entrypointer/entrypointer/internal/logs/export"
	"github.com/entrypointer/entrypointer/internal/logs/frontproxy"
	"github.com/entrypointer/entrypointer/internal/logs/identity"
	"github.com/entrypointer/entrypointer/internal/logs/keeper"
	"github.com/entrypointer/entrypointer/internal/logs/notices"
	"github.com/entrypointer/entrypointer/internal/logs/storage"
	"github.com/entrypointer/entrypointer/internal/logs/streams"
	"github.com/entrypointer/entrypointer/internal/tracelink"
	"github.com/entrypointer/entrypointer/internal/version"
)

// settings are the values of the flags, and podConnections, which tests set.
type settings struct {
	directory, bucket, listen, listenProxied, probes string
	export, traces                                   export.Options // without a URL, nothing is sent on
	traceURL                                         tracelink.Template
	listenPage                                       string // "" for no page
	pageDisk                                         int64  // bytes
	podConnections                                   int    // at most, maxConnections if it is 0
}

// clients are the clients of the API server.
type clients struct {
	kubernetes.Interface
	apiServices dynamic.ResourceInterface
	read        export.Read
	// config says where the API server is, for what users ask with their own tokens.
	config *rest.Config
}

// newRegistry returns a registry with the version of this program.
func newRegistry() *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registerBuild(registry)
	return registry
}

// registerBuild registers the metric of this program's version.
func registerBuild(registry prometheus.Registerer) {
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "entrypointer_logs_build_info", Help: "1, with the version of the service."}, []string{"version"})
	build.WithLabelValues(version.Own()).Set(1)
	registry.MustRegister(build)
}

// listen listens for pods, for what API servers proxy, and for probes.
func listen(ctx context.Context, s settings) (pods, proxied, probes net.Listener, err error) {
	if pods, err = (&net.ListenConfig{}).Listen(ctx, "tcp", s.listen); err != nil {
		return nil, nil, nil, fmt.Errorf("listening for logs: %w", err)
	}
	if proxied, err = (&net.ListenConfig{}).Listen(ctx, "tcp", s.listenProxied); err != nil {
		return nil, nil, nil, fmt.Errorf("listening for the API server: %w", errors.Join(err, pods.Close()))
	}
	if probes, err = (&net.ListenConfig{}).Listen(ctx, "tcp", s.probes); err != nil {
		return nil, nil, nil, fmt.Errorf("listening for probes: %w", errors.Join(err, pods.Close(), proxied.Close()))
	}
	return pods, proxied, probes, nil
}

// newService returns the service of a store, whose users a reviewer authenticates.
func newService(store *streams.Store, reviewer *identity.Reviewer, traces tracelink.Template, logger *slog.Logger, registry *prometheus.Registry) *api.Server {
	service := api.New(store, reviewer, logger)
	service.Permit(reviewer)
	service.LinkTraces(traces)
	service.RegisterMetrics(registry)
	return service
}

// newKeeper returns the keeper for the storage that is chosen.
func newKeeper(store *streams.Store, bucket storage.Bucket, logger *slog.Logger, registry prometheus.Registerer, s settings) *keeper.Keeper {
	k := keeper.New(store, bucket, logger, registry)
	if s.bucket == "" {
		k.OwnLinger, k.Alone = keeper.LingerOnVolume, true // the directory is locked
	}
	return k
}

// newExporters has a service send lines and spans on, as far as that is asked for, and returns
// what runs then.
func newExporters(service *api.Server, store *streams.Store, bucket storage.Bucket, read export.Read, logger *slog.Logger, registry prometheus.Registerer, s settings) (run []func(context.Context) error, err error) {
	pause := export.PauseOnVolume
	if s.bucket != "" {
		pause = export.PauseOnBucket
	}
	s.export.Pause, s.traces.Pause = pause, pause
	s.traces.Timeout, s.traces.Namespaces = s.export.Timeout, s.export.Namespaces
	var exporters []*export.Exporter
	if s.export.URL != "" {
		lines, err := export.New(store, bucket, s.export, logger, registry)
		if err != nil {
			return nil, err
		}
		exporters = append(exporters, lines)
	}
	if s.traces.URL != "" {
		spans, err := export.NewSpans(store, bucket, s.traces, read, logger, registry)
		if err != nil {
			return nil, err
		}
		exporters = append(exporters, spans)
	}
	for _, e := range exporters {
		run = append(run, e.Run)
	}
	if len(exporters) > 0 {
		service.Export(export.Exporters(exporters))
	}
	return run, nil
}

// publishing publishes the address and the CA of the service until ctx is done.
func publishing(ctx context.Context, group *errgroup.Group, logger *slog.Logger, client clients, address endpoint.Endpoint, ca []byte) {
	group.Go(func() error {
		maps := client.CoreV1().ConfigMaps(endpoint.Namespace)
		return publish(ctx, logger, "Failed to publish the address of the log service", func(ctx context.Context) error {
			return publishEndpoint(ctx, maps, client.CoreV1().Services(endpoint.Namespace), address)
		})
	})
	group.Go(func() error {
		return publish(ctx, logger, "Failed to publish the CA of the log service to the API server", func(ctx context.Context) error {
			return publishCA(ctx, client.apiServices, ca)
		})
	})
}

// openStreams returns the streams in a bucket, and the bucket as it is measured.
func openStreams(ctx context.Context, bucket storage.Bucket, registry prometheus.Registerer) (storage.Bucket, *streams.Store, error) {
	if files, is := bucket.(*storage.Files); is {
		storage.MeasureSpace(files, registry)
	}
	bucket = storage.Measured(bucket, registry)
	store, err := streams.Open(ctx, bucket)
	return bucket, store, err
}

// following has what API servers' proxies are known by, and the limits of the operator, followed
// by group.
func following(ctx context.Context, group *errgroup.Group, logger *slog.Logger, client clients, front *frontproxy.Proxy, maintenance *keeper.Keeper) {
	group.Go(func() error { return front.Watch(ctx, logger, client.CoreV1().ConfigMaps(metav1.NamespaceSystem)) })
	group.Go(func() error { return maintenance.Follow(ctx, client.CoreV1().ConfigMaps(endpoint.Namespace)) })
}

// run serves until ctx is done.
func run(ctx context.Context, logger *slog.Logger, client clients, s settings) (err error) {
	bucket, closeBucket, err := openBucket(ctx, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeBucket()) }()
	registry := newRegistry()
	bucket, store, err := openStreams(ctx, bucket, registry)
	if err != nil {
		return err
	}
	ca, err := authority.Open(ctx, client.CoreV1().Secrets(endpoint.Namespace), namesOf(s)...)
	if err != nil {
		return err
	}
	address := endpoint.Endpoint{Address: "https://" + serverNames[0], CA: ca.Pin()}
	reviewer := identity.New(client, logger)
	service, front := newService(store, reviewer, s.traceURL, logger, registry), frontproxy.New()
	maintenance, notifier := newKeeper(store, bucket, logger, registry, s), notices.New(client.CoreV1(), reviewer, logger)
	service.Limit(maintenance)
	service.Notify(notifier)
	exports, err := newExporters(service, store, bucket, client.read, logger, registry, s)
	if err != nil {
		return err
	}

	pods, proxied, probes, err := listen(ctx, s)
	if err != nil {
		return err
	}
	site, err := newSite(ctx, reviewer, client.config, logger, s)
	if err != nil {
		return errors.Join(err, pods.Close(), proxied.Close(), probes.Close())
	}
	ports := map[string]*port{"pods": podsPort(pods, service, cmp.Or(s.podConnections, maxConnections)), "proxied": proxiedPort(proxied, service, front)}
	registerConnections(registry, site.with(ports))
	logger.Info("Serving logs", "version", version.Own(), "listen", pods.Addr().String(), "where", cmp.Or(s.directory, withoutQuery(s.bucket)), "address", address.Address, "ca", address.CA)
	group, ctx := errgroup.WithContext(ctx)
	for _, p := range ports {
		group.Go(func() error { return serveLogs(ctx, logger, service, p, ca) })
	}
	group.Go(func() error { return serveProbes(ctx, logger, probes, readinessCheck(store, ca), registry) })
	publishing(ctx, group, logger, client, address, ca.PEM())
	following(ctx, group, logger, client, front, maintenance)
	for _, work := range append(exports, maintenance.Run, notifier.Run, service.CreatePostponed, func(ctx context.Context) error { return site.serve(ctx, logger, ca) }) {
		group.Go(func() error { return work(ctx) })
	}
	defer maintenance.Leave(ctx)
	return group.Wait()
}
