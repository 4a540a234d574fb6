// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Logs is the log service: it stores the output of containers, and serves it to users who
// may read it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/entrypointer/entrypointer/internal/logs/endpoint"
	"github.com/entrypointer/entrypointer/internal/logs/export"
	"github.com/entrypointer/entrypointer/internal/tracelink"
	"github.com/entrypointer/entrypointer/internal/version"
)

// serverNames are the DNS names by which pods may call the service, whatever search
// domains they have.
var serverNames = []string{
	serviceName + "." + endpoint.Namespace + ".svc",
	serviceName + "." + endpoint.Namespace + ".svc.cluster.local",
	serviceName + "." + endpoint.Namespace,
}

// The limits of requests to the API server, which reviews each token once a minute. They
// are for clients that make up tokens: other requests are left to the API server's own flow
// control.
const clientQPS, clientBurst = 200, 400

// The limits of requests about Tekton's runs and about pods, for traces.
const tracesQPS, tracesBurst = 20, 40

// maxObject bounds an object of the API server, in bytes.
const maxObject = 4 << 20

func main() {
	var s settings
	flag.StringVar(&s.directory, "directory", "", "the directory of the logs, on a file system with hard links, for a single replica; or set -bucket")
	flag.StringVar(&s.bucket, "bucket", "", "the bucket of the logs, for any number of replicas: s3://NAME?region=REGION, gs://NAME or azblob://NAME; or set -directory")
	flag.StringVar(&s.listen, "listen", ":8443", "the address to serve the API on, over TLS")
	flag.StringVar(&s.listenProxied, "listen-proxied", ":8444", "the address to serve users on for whom the API server asks (an APIService), over TLS with its front proxy's certificate")
	flag.StringVar(&s.probes, "probes", ":8080", "the address to serve /healthz, /readyz and /metrics on")
	addPageFlags(&s)
	addExportFlags(&s.export, &s.traces)
	flag.Func("trace-url", "where users find a trace, for the links of kubectl entrypointer ui: a URL with "+tracelink.Placeholder+" in the place of the id of the trace, such as https://jaeger.example/trace/"+tracelink.Placeholder, func(value string) (err error) {
		s.traceURL, err = tracelink.Parse(value)
		return err
	})
	kubeconfig := flag.String("kubeconfig", "", "the path of a kubeconfig, outside of a cluster")
	version.AddFlag("logs")
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

// addPageFlags adds the flags of the page.
func addPageFlags(s *settings) {
	flag.StringVar(&s.listenPage, "listen-page", "", "the address to serve the page on, over TLS, to users whose bearer tokens an authenticating proxy hands on, such as :8445; if it isn't set, there is no page")
	s.pageDisk = 2 << 30
	flag.Func("page-disk", "how much of the directory for temporary files the page may take for logs that users have open, such as 2Gi, which is the default", func(value string) error {
		quantity, err := resource.ParseQuantity(value)
		if err != nil || quantity.Value() < minPageDisk {
			return errors.New("use a size of at least 64Mi, such as 2Gi")
		}
		s.pageDisk = quantity.Value()
		return nil
	})
}

// minPageDisk is the least that the page can take of the disk, in bytes.
const minPageDisk = 64 << 20

// addExportFlags adds the flags for sending logs and traces on.
func addExportFlags(o, traces *export.Options) {
	flag.StringVar(&traces.URL, "export-traces", "", "the URL to send the spans of containers on to that are traced, by OTLP over HTTP, such as https://HOST:4318/v1/traces")
	flag.StringVar(&traces.Headers, "export-traces-headers", "", "a file with headers for -export-traces, as that of -export-headers")
	flag.StringVar(&traces.CA, "export-traces-ca", "", "a file with the certificates of the CA of -export-traces, as PEM, instead of those of the system")
	flag.StringVar(&o.URL, "export-otlp", "", "the URL to send logs on to, by OTLP over HTTP, such as https://HOST:4318/v1/logs for a collector or https://HOST:3100/otlp/v1/logs for Loki")
	flag.StringVar(&o.Headers, "export-headers", "", "a file with headers for -export-otlp, NAME: VALUE on each line, such as a key of a Secret that is mounted")
	flag.StringVar(&o.CA, "export-ca", "", "a file with the certificates of the CA of -export-otlp, as PEM, instead of those of the system")
	flag.DurationVar(&o.Timeout, "export-timeout", 30*time.Second, "how long a request to -export-otlp or -export-traces may take, a minute at most")
	flag.Func("export-namespaces", "the namespaces whose logs and traces are sent on, separated by commas; all if it isn't set", func(value string) error {
		o.Namespaces = strings.Split(value, ",")
		return nil
	})
	flag.Func("export-since", "the time since when a stream has to be created to be sent on, such as 2026-11-26T00:00:00Z; if it isn't set, all that is stored is sent on", func(value string) (err error) {
		o.Since, err = time.Parse(time.RFC3339, value)
		return err
	})
}

func start(ctx context.Context, logger *slog.Logger, kubeconfig string, s settings) error {
	if (s.directory == "") == (s.bucket == "") || flag.NArg() > 0 {
		return errors.New("starting the log service: set either -directory or -bucket, and pass no arguments that aren't flags")
	}
	config, err := clusterConfig(kubeconfig)
	if err != nil {
		return fmt.Errorf("finding the cluster: %w; outside of a cluster, set -kubeconfig", err)
	}
	config.QPS, config.Burst = clientQPS, clientBurst
	config = rest.AddUserAgent(config, "entrypointer-logs")
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("creating a Kubernetes client: %w", err)
	}
	untyped, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("creating a Kubernetes client: %w", err)
	}
	config.QPS, config.Burst = tracesQPS, tracesBurst
	reader, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("creating a Kubernetes client: %w", err)
	}
	return run(ctx, logger, clients{client, untyped.Resource(apiServices), readOf(reader), config}, s)
}

// readOf returns a function that reads objects of the API server.
func readOf(client kubernetes.Interface) export.Read {
	return func(ctx context.Context, path string) ([]byte, error) {
		body, err := client.Discovery().RESTClient().Get().AbsPath(path).SetHeader("Accept", "application/json").Stream(ctx)
		if err != nil {
			return nil, err
		}
		defer body.Close()
		content, err := io.ReadAll(io.LimitReader(body, maxObject+1))
		if err == nil && len(content) > maxObject {
			err = fmt.Errorf("%w: %s has more than %d bytes", export.ErrUnreadable, path, maxObject)
		}
		return content, err
	}
}

func clusterConfig(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		return rest.InClusterConfig()
	}
	return clientcmd.BuildConfigFromFlags("", kubeconfig)
}
