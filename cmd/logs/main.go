// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Logs is the log service: it takes what containers print, and gives it back to
// whoever may read it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/entrypointer/entrypointer/internal/logs/endpoint"
)

// serverNames are what pods may call the service by, that search some domains or none.
var serverNames = []string{
	serviceName + "." + endpoint.Namespace + ".svc",
	serviceName + "." + endpoint.Namespace + ".svc.cluster.local",
	serviceName + "." + endpoint.Namespace,
}

// Questions to the API server: each token is asked about once a minute. Its own
// flow control is what limits them, but not to as many as whoever makes up tokens likes.
const questionsPerSecond, questionsAtOnce = 200, 400

func main() {
	var s settings
	flag.StringVar(&s.directory, "directory", "", "where the logs are kept, on a file system with hard links; or say -bucket")
	flag.StringVar(&s.bucket, "bucket", "", "where the logs are kept by any number of replicas: s3://NAME?region=REGION, gs://NAME or azblob://NAME; or say -directory")
	flag.StringVar(&s.listen, "listen", ":8443", "address to serve on, over TLS")
	flag.StringVar(&s.probes, "probes", ":8080", "address to answer on: /healthz, /readyz and /metrics")
	kubeconfig := flag.String("kubeconfig", "", "path of a kubeconfig, outside of a cluster")
	flag.Parse()
	logger := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	klog.SetSlogLogger(logger)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := start(ctx, logger, *kubeconfig, s); err != nil {
		logger.Error("The log service failed", "error", err)
		os.Exit(1) //nolint:gocritic // the process ends, and so does the notification
	}
}

func start(ctx context.Context, logger *slog.Logger, kubeconfig string, s settings) error {
	if (s.directory == "") == (s.bucket == "") || flag.NArg() > 0 {
		return errors.New("starting the log service: say where the logs are kept by either -directory or -bucket, and nothing that is no flag")
	}
	config, err := clusterConfig(kubeconfig)
	if err != nil {
		return fmt.Errorf("finding the cluster: %w; outside of one, set -kubeconfig", err)
	}
	config.QPS, config.Burst = questionsPerSecond, questionsAtOnce
	config = rest.AddUserAgent(config, "entrypointer-logs")
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a Kubernetes client: %w", err)
	}
	untyped, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a Kubernetes client: %w", err)
	}
	return run(ctx, logger, clients{client, untyped.Resource(apiServices)}, s)
}

func clusterConfig(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		return rest.InClusterConfig()
	}
	return clientcmd.BuildConfigFromFlags("", kubeconfig)
}
