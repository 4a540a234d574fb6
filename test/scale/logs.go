// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/entrypointer/entrypointer/internal/logs/endpoint"
	"github.com/entrypointer/entrypointer/internal/logs/keeper"
	"github.com/entrypointer/entrypointer/test/framework"
	"github.com/entrypointer/entrypointer/test/program"
	"github.com/entrypointer/entrypointer/test/shipping"
)

const (
	logsAddress = address + ":9443"
	logsProbes  = "127.0.0.1:9081"
	// podsOfNamespace is how many pods a namespace has.
	podsOfNamespace = 1000
	// readAgain is how many streams are read again, and compared with what was sent.
	readAgain = 200
	// beginners is how many pods begin their streams at a time.
	beginners = 64
)

// A logged row is how the log service bore streams of a line a second.
type logged struct {
	Streams int
	Begun   time.Duration // until all streams existed
	// Writes are those that were answered in the time that was measured, and Repeated are
	// requests that were made again.
	Writes, Repeated int
	Measured         time.Duration
	P50, P99         time.Duration
	// Cores and ServerCores are what the log service and the API server used.
	Cores, ServerCores float64
	RSS, Highest       int64 // bytes
}

// measureLogs measures the log service, on files, with the pods and the tokens of a real API
// server.
func measureLogs(ctx context.Context, w *world, f *figures) error {
	f.Logs = nil
	if err := w.beginWithInjector(ctx); err != nil {
		return err
	}
	if err := w.installFrom(ctx, "logs/[1-4]*.yaml"); err != nil {
		return err
	}
	linger := fmt.Appendf(nil, `{"data":{"linger":"%v","quota":"0","streams":"0"}}`, w.plan.linger)
	_, err := w.cluster.Kube.CoreV1().ConfigMaps(endpoint.Namespace).Patch(ctx, keeper.ConfigMap, types.MergePatchType, linger, metav1.PatchOptions{})
	if err != nil {
		return err
	}
	var tokens []string
	for _, n := range w.plan.streams {
		if tokens, err = w.tokens(ctx, tokens, (n+shipping.StreamsOfPod-1)/shipping.StreamsOfPod); err != nil {
			return err
		}
		row, err := w.stream(ctx, n, tokens)
		if err != nil {
			return err
		}
		f.Logs = append(f.Logs, row)
	}
	return nil
}

// tokens adds to the tokens by which pods write logs, each of a pod of its own, until there
// are n.
func (w *world) tokens(ctx context.Context, former []string, n int) ([]string, error) {
	all := make([]string, n)
	first := copy(all, former)
	for i := 0; i < n; i += podsOfNamespace {
		name := logsNamespace(i)
		_, err := w.cluster.Kube.CoreV1().Namespaces().Create(ctx, namespace(name, false), metav1.CreateOptions{})
		if err := ignoreExisting(err); err != nil {
			return nil, err
		}
		if err := w.ensureAccount(ctx, name); err != nil {
			return nil, err
		}
	}
	return all, each(ctx, first, n, func(ctx context.Context, i int) (err error) {
		all[i], err = w.token(ctx, logsNamespace(i), fmt.Sprint("run-", i))
		return err
	})
}

func logsNamespace(pod int) string { return fmt.Sprint("logs-", pod/podsOfNamespace) }

// token creates a pod, and returns a token of it for the log service.
func (w *world) token(ctx context.Context, namespace, name string) (string, error) {
	p, err := w.cluster.Kube.CoreV1().Pods(namespace).Create(ctx, taskRunPod(name, ""), metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	hour := int64(time.Hour.Seconds())
	answer, err := w.cluster.Kube.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, "default", &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		Audiences: []string{endpoint.Audience}, ExpirationSeconds: &hour,
		BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: name, UID: p.UID},
	}}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("making a token of a pod: %w", err)
	}
	return answer.Status.Token, nil
}

// startLogs starts the log service as its Deployment does, on one core, with an empty
// directory.
func (w *world) startLogs(ctx context.Context) (*shipping.Service, error) {
	kubeconfig, err := w.kubeconfig(ctx, endpoint.Namespace, "logs")
	if err != nil {
		return nil, err
	}
	directory := filepath.Join(w.directory, "logs-data")
	if err := os.RemoveAll(directory); err != nil {
		return nil, err
	}
	if err := os.Mkdir(directory, 0o700); err != nil {
		return nil, err
	}
	w.logs, err = onCore(func() (*program.Process, error) {
		return w.start(logsProgram, []string{"GOMEMLIMIT=400MiB"},
			"-kubeconfig", kubeconfig, "-directory", directory, "-listen", logsAddress, "-listen-proxied", "127.0.0.1:9444", "-probes", logsProbes)
	})
	if err != nil {
		return nil, err
	}
	if _, err := await(ctx, w.logs, http.DefaultClient, get("http://"+logsProbes+"/readyz")); err != nil {
		return nil, err
	}
	return w.logService(ctx)
}

// logService returns how to reach the log service.
func (w *world) logService(ctx context.Context) (*shipping.Service, error) {
	var published *corev1.ConfigMap
	err := framework.Eventually(ctx, startLimit, "the log service to publish its address", func(ctx context.Context) (err error) {
		published, err = w.cluster.Kube.CoreV1().ConfigMaps(endpoint.Namespace).Get(ctx, endpoint.ConfigMap, metav1.GetOptions{})
		return err
	})
	if err != nil {
		return nil, err
	}
	service, err := endpoint.FromConfigMap(published.Data)
	if err != nil {
		return nil, err
	}
	trusting, err := service.TLS()
	if err != nil {
		return nil, err
	}
	return &shipping.Service{URL: service.Address, Client: &http.Client{Timeout: shipping.RequestTimeout, Transport: &http.Transport{
		TLSClientConfig: trusting, MaxConnsPerHost: atOnce, MaxIdleConnsPerHost: atOnce, DisableCompression: true,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, logsAddress)
		},
	}}}, nil
}

// stream has streams print a line a second, and measures them once each has sent a part.
func (w *world) stream(ctx context.Context, n int, tokens []string) (l logged, err error) {
	service, err := w.startLogs(ctx)
	if err != nil {
		return l, err
	}
	defer w.logs.Kill()
	l.Streams = n
	var record shipping.Recorder
	began := time.Now()
	list, err := beginStreams(ctx, service, n, tokens, &record)
	if err != nil {
		return l, err
	}
	l.Begun = time.Since(began)
	group, printing := errgroup.WithContext(ctx)
	pace := shipping.Pace{Every: time.Second, Speed: 1, Began: time.Now(), Lasts: w.plan.linger + w.plan.streamLast}
	for _, s := range list {
		group.Go(func() error { return s.Print(printing, pace, &record) })
	}
	err = l.measure(printing, w, &record)
	if failed := group.Wait(); failed != nil {
		err = failed
	}
	if err != nil {
		return l, err
	}
	some := list[:0:0]
	for i := range min(n, readAgain) {
		some = append(some, list[i*n/min(n, readAgain)])
	}
	return l, shipping.Check(ctx, adminToken, some)
}

func beginStreams(ctx context.Context, service *shipping.Service, n int, tokens []string, record *shipping.Recorder) ([]*shipping.Stream, error) {
	list := make([]*shipping.Stream, n)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(beginners)
	for first := 0; first < n; first += shipping.StreamsOfPod {
		group.Go(func() error {
			made, err := shipping.Begin(ctx, service, tokens[first/shipping.StreamsOfPod], first, min(n-first, shipping.StreamsOfPod), record)
			copy(list[first:], made)
			return err
		})
	}
	return list, group.Wait()
}

// measure measures streams that print, after the first parts.
func (l *logged) measure(ctx context.Context, w *world, record *shipping.Recorder) error {
	shipping.Sleep(ctx, w.plan.linger)
	repeated := record.Failures()
	before, err := w.logs.Usage()
	if err != nil {
		return err
	}
	serverBefore, err := w.apiServer.Usage()
	if err != nil {
		return err
	}
	began := time.Now()
	shipping.Sleep(ctx, w.plan.streamLast)
	ended := time.Now()
	after, err := w.logs.Usage()
	if err != nil {
		return err
	}
	server, err := w.apiServer.Usage()
	if err != nil {
		return err
	}
	took := record.Between(began, ended)
	l.Measured = ended.Sub(began)
	l.Writes, l.Repeated = len(took), record.Failures()-repeated
	l.P50, l.P99 = framework.Percentile(took, 50), framework.Percentile(took, 99)
	l.Cores = (after.CPU - before.CPU).Seconds() / l.Measured.Seconds()
	l.ServerCores = (server.CPU - serverBefore.CPU).Seconds() / l.Measured.Seconds()
	l.RSS, l.Highest = after.RSS, after.HighestRSS
	return ctx.Err()
}
