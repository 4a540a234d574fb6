// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"

	"github.com/entrypointer/entrypointer/internal/logs/endpoint"
	"github.com/entrypointer/entrypointer/internal/logs/notices"
	"github.com/entrypointer/entrypointer/internal/logs/storage"
	"github.com/entrypointer/entrypointer/internal/synced"
	"github.com/entrypointer/entrypointer/test/loopback"
)

// cluster returns an API server with two valid tokens: one of a pod, and one of a reader.
func cluster() *fake.Clientset {
	client := fake.NewClientset(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "tenant", UID: "uid-tenant"}})
	client.PrependReactor("create", "tokenreviews", func(action k8stesting.Action) (bool, runtime.Object, error) {
		review := action.(k8stesting.CreateAction).GetObject().(*authenticationv1.TokenReview)
		switch {
		case review.Spec.Token == "pod" && len(review.Spec.Audiences) > 0:
			review.Status = authenticationv1.TokenReviewStatus{Authenticated: true, Audiences: review.Spec.Audiences, User: authenticationv1.UserInfo{
				Username: "system:serviceaccount:tenant:default", Extra: map[string]authenticationv1.ExtraValue{
					"authentication.kubernetes.io/pod-name": {"pod"}, "authentication.kubernetes.io/pod-uid": {"uid"},
				},
			}}
		case review.Spec.Token == "reader" && len(review.Spec.Audiences) == 0:
			review.Status = authenticationv1.TokenReviewStatus{Authenticated: true, User: authenticationv1.UserInfo{Username: "reader"}}
		}
		return true, review, nil
	})
	client.PrependReactor("create", "subjectaccessreviews", func(action k8stesting.Action) (bool, runtime.Object, error) {
		review := action.(k8stesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview)
		review.Status.Allowed = true
		return true, review, nil
	})
	return client
}

// withAPIService adds a dynamic client to those of a cluster.
func withAPIService(client *fake.Clientset) clients {
	service := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": map[string]any{"name": apiServiceName},
	}}
	return clients{client, dynamicfake.NewSimpleDynamicClient(runtime.NewScheme(), service).Resource(apiServices), nil, nil}
}

// A service is a log service that runs in this process.
type service struct {
	t        *testing.T
	kube     *fake.Clientset
	client   *http.Client
	address  string
	proxied  string
	probes   string
	stop     func()
	ended    chan error
	logs     *synced.Buffer
	endpoint endpoint.Endpoint
}

// runs starts a service, in a cluster that has these objects as well.
func runs(t *testing.T, directory string, objects ...*corev1.ConfigMap) *service {
	t.Helper()
	return runsWith(t, directory, func(*clients, *settings) {}, objects...)
}

// runsWith starts a service with other clients and settings.
func runsWith(t *testing.T, directory string, change func(*clients, *settings), objects ...*corev1.ConfigMap) *service {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	s := &service{t: t, address: loopback.FreeAddressFor(t), proxied: loopback.FreeAddressFor(t), probes: loopback.FreeAddressFor(t), stop: stop, ended: make(chan error, 1), logs: &synced.Buffer{}}
	kube := cluster()
	s.kube = kube
	for _, o := range objects {
		require.NoError(t, kube.Tracker().Add(o))
	}
	done := make(chan struct{})
	t.Cleanup(func() { // before the directory is removed
		stop()
		<-done
	})
	with, set := withAPIService(kube), settings{directory: directory, listen: s.address, listenProxied: s.proxied, probes: s.probes}
	change(&with, &set)
	go func() {
		defer close(done)
		s.ended <- run(ctx, slog.New(slog.NewJSONHandler(s.logs, nil)), with, set)
	}()
	require.Eventually(t, func() bool {
		configMap, err := kube.CoreV1().ConfigMaps(endpoint.Namespace).Get(t.Context(), endpoint.ConfigMap, metav1.GetOptions{})
		if err != nil {
			return false
		}
		s.endpoint, err = endpoint.FromConfigMap(configMap.Data)
		return err == nil && s.probe("/readyz") == http.StatusOK
	}, time.Minute, 20*time.Millisecond, "it gets ready; it says %s", s.logs)
	config, err := s.endpoint.TLS()
	require.NoError(t, err)
	s.client = &http.Client{Transport: &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true, DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, s.address)
	}}}
	return s
}

func (s *service) probe(path string) int {
	response, err := http.Get("http://" + s.probes + path)
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	return response.StatusCode
}

// send returns the response. Its body may still be arriving.
func (s *service) send(method, path, token string, body io.Reader, headers ...string) (status int, answer io.Reader) {
	request, err := http.NewRequestWithContext(s.t.Context(), method, s.endpoint.Address+path, body)
	require.NoError(s.t, err)
	request.Header.Set("Authorization", "Bearer "+token)
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := s.client.Do(request)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = response.Body.Close() })
	return response.StatusCode, response.Body
}

func (s *service) stream() (path string) {
	status, answer := s.send(http.MethodPost, "/logs", "pod", strings.NewReader(`{"name":"stdout"}`))
	require.Equal(s.t, http.StatusOK, status)
	var made struct{ ID string }
	require.NoError(s.t, json.NewDecoder(answer).Decode(&made))
	return "/logs/" + made.ID
}

func TestAStoppingServiceAnswersRequestsInFlightAndCutsFollowers(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	s := runs(t, directory)
	path := s.stream()
	status, follower := s.send(http.MethodGet, path+"/data?follow=true", "reader", nil)
	require.Equal(t, http.StatusOK, status)

	// A body whose second half arrives while the service is stopping.
	body, half := io.Pipe()
	accepted := make(chan int, 1)
	go func() {
		status, _ := s.send(http.MethodPatch, path+"/data", "pod", body, "Content-Range", "bytes 0-9/10")
		accepted <- status
	}()
	_, err := half.Write([]byte("hello"))
	require.NoError(t, err)
	time.Sleep(100 * time.Millisecond) // it is on its way
	s.stop()
	cut := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, follower)
		cut <- err
	}()
	select {
	case err := <-cut:
		require.Error(t, err, "a cut connection doesn't look like the end")
	case <-time.After(5 * time.Second):
		t.Fatal("the follower still follows")
	}
	_, err = half.Write([]byte("world"))
	require.NoError(t, err)
	require.NoError(t, half.Close())
	require.Equal(t, http.StatusAccepted, <-accepted)
	select {
	case err := <-s.ended:
		require.NoError(t, err)
	case <-time.After(10 * time.Second):
		t.Fatal("it hasn't stopped")
	}

	again := runs(t, directory)
	_, answer := again.send(http.MethodGet, path+"/data", "reader", nil)
	text, err := io.ReadAll(answer)
	require.NoError(t, err)
	require.Equal(t, "helloworld", string(text))
	again.stop()
	require.NoError(t, <-again.ended)
}

// So the limit of connections bounds the requests in flight.
func TestAConnectionHasOneRequestAtATime(t *testing.T) {
	t.Parallel()
	s := runs(t, t.TempDir())
	response, err := s.client.Get(s.endpoint.Address + "/logs")
	require.NoError(t, err)
	defer response.Body.Close()
	require.Equal(t, "HTTP/1.1", response.Proto)
}

func TestHeadersHaveABound(t *testing.T) {
	t.Parallel()
	s := runs(t, t.TempDir())
	defer s.stop()
	status, _ := s.send(http.MethodGet, "/logs", "reader", nil, "X-Long", strings.Repeat("x", 2*maxHeader))
	require.Equal(t, http.StatusRequestHeaderFieldsTooLarge, status)
}

func TestTheServiceIsReadyWhileItCanUseItsDirectory(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	s := runs(t, directory)
	defer s.stop()
	require.Equal(t, http.StatusOK, s.probe("/healthz"))
	require.NoError(t, os.Rename(filepath.Join(directory, "key"), filepath.Join(directory, "elsewhere")))
	require.Equal(t, http.StatusServiceUnavailable, s.probe("/readyz"))
	require.Contains(t, s.logs.String(), `"msg":"The log service isn't ready"`)
	require.Equal(t, http.StatusOK, s.probe("/healthz"), "another process would find no more there")
	require.NoError(t, os.Rename(filepath.Join(directory, "elsewhere"), filepath.Join(directory, "key")))
	require.Equal(t, http.StatusOK, s.probe("/readyz"))
}

func TestAStreamThatTheDirectoryRefusedIsThereWhenTheDirectoryHasRecovered(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	s := runs(t, directory)
	defer s.stop()
	logs := func() int {
		entries, _ := filepath.Glob(filepath.Join(directory, "streams", "*", "meta"))
		return len(entries)
	}
	unfinished, elsewhere := filepath.Join(directory, "unfinished"), filepath.Join(directory, "elsewhere")
	require.NoError(t, os.Rename(unfinished, elsewhere))
	status, _ := s.send(http.MethodPost, "/logs", "pod", strings.NewReader(`{"name":"stdout"}`))
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Zero(t, logs())
	require.NoError(t, os.Rename(elsewhere, unfinished))
	require.Eventually(t, func() bool { return logs() == 1 }, time.Minute, 20*time.Millisecond)
}

func TestErrorsAtTheStartAreReported(t *testing.T) {
	t.Parallel()
	broken := cluster()
	broken.PrependReactor("get", "secrets", func(k8stesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewServiceUnavailable("no leader")
	})
	busy, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = busy.Close() })
	badKey := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(badKey, "key"), []byte("short"), 0o600))
	for name, test := range map[string]struct {
		client   *fake.Clientset
		settings settings
		says     string
	}{
		"no directory":          {cluster(), settings{directory: "/none", listen: "127.0.0.1:0", listenProxied: "127.0.0.1:0", probes: "127.0.0.1:0"}, "locking the directory of the logs"},
		"a truncated key":       {cluster(), settings{directory: badKey, listen: "127.0.0.1:0", listenProxied: "127.0.0.1:0", probes: "127.0.0.1:0"}, "the key of the streams has 5 bytes"},
		"no such bucket":        {cluster(), settings{bucket: "logs", listen: "127.0.0.1:0", listenProxied: "127.0.0.1:0", probes: "127.0.0.1:0"}, "opening the bucket of the logs"},
		"no API server":         {broken, settings{directory: t.TempDir(), listen: "127.0.0.1:0", listenProxied: "127.0.0.1:0", probes: "127.0.0.1:0"}, "looking for the CA of the log service"},
		"a port in use":         {cluster(), settings{directory: t.TempDir(), listen: busy.Addr().String(), listenProxied: "127.0.0.1:0", probes: "127.0.0.1:0"}, "listening for logs"},
		"a proxied port in use": {cluster(), settings{directory: t.TempDir(), listen: "127.0.0.1:0", listenProxied: busy.Addr().String(), probes: "127.0.0.1:0"}, "listening for the API server"},
		"a probes port in use":  {cluster(), settings{directory: t.TempDir(), listen: "127.0.0.1:0", listenProxied: "127.0.0.1:0", probes: busy.Addr().String()}, "listening for probes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := run(t.Context(), slog.New(slog.DiscardHandler), withAPIService(test.client), test.settings)
			require.ErrorContains(t, err, test.says)
		})
	}
	for _, s := range []settings{{}, {directory: "/logs", bucket: "s3://logs"}} {
		require.ErrorContains(t, start(t.Context(), slog.New(slog.DiscardHandler), "", s), "set either -directory or -bucket")
	}
	require.ErrorContains(t, start(t.Context(), slog.New(slog.DiscardHandler), "/none", settings{directory: "/none"}), "set -kubeconfig")
}

func TestALockedDirectoryIsLeftAlone(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	lock, err := storage.LockDirectory(t.Context(), directory, 0)
	require.NoError(t, err)
	defer func() { require.NoError(t, lock.Release()) }()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	err = run(ctx, slog.New(slog.DiscardHandler), withAPIService(cluster()), settings{directory: directory, listen: "127.0.0.1:0", listenProxied: "127.0.0.1:0", probes: "127.0.0.1:0"})
	require.ErrorIs(t, err, context.DeadlineExceeded, "the service waits for its predecessor")
	_, err = os.Stat(filepath.Join(directory, "key"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestTheConfigMapIsRepaired(t *testing.T) {
	t.Parallel()
	client := cluster()
	maps := client.CoreV1().ConfigMaps(endpoint.Namespace)
	want := endpoint.Endpoint{Address: "https://" + serverNames[0], CA: "sha256:" + strings.Repeat("0a", 32)}
	require.NoError(t, applyEndpoint(t.Context(), maps, want))
	change := func(configMap map[string]string) {
		have, err := maps.Get(t.Context(), endpoint.ConfigMap, metav1.GetOptions{})
		require.NoError(t, err)
		have.Data = configMap
		_, err = maps.Update(t.Context(), have, metav1.UpdateOptions{FieldManager: "somebody"})
		require.NoError(t, err)
	}
	for name, spoil := range map[string]func(){
		"changed": func() { change(map[string]string{"address": "https://example.com", "ca": want.CA}) },
		"emptied": func() { change(nil) },
		"deleted": func() {
			require.NoError(t, maps.Delete(t.Context(), endpoint.ConfigMap, metav1.DeleteOptions{}))
		},
		"as it was": func() {},
	} {
		spoil()
		require.NoError(t, applyEndpoint(t.Context(), maps, want), name)
		configMap, err := maps.Get(t.Context(), endpoint.ConfigMap, metav1.GetOptions{})
		require.NoError(t, err)
		got, err := endpoint.FromConfigMap(configMap.Data)
		require.NoError(t, err, name)
		require.Equal(t, want, got, name)
		require.Equal(t, "entrypointer", configMap.Labels["app.kubernetes.io/part-of"])
	}
}

func TestTheIPAddressOfTheServiceIsPublishedIfItHasOne(t *testing.T) {
	t.Parallel()
	client := cluster()
	maps, services := client.CoreV1().ConfigMaps(endpoint.Namespace), client.CoreV1().Services(endpoint.Namespace)
	e := endpoint.Endpoint{Address: "https://" + serverNames[0], CA: "sha256:" + strings.Repeat("0a", 32)}
	published := func() string {
		configMap, err := maps.Get(t.Context(), endpoint.ConfigMap, metav1.GetOptions{})
		require.NoError(t, err)
		got, err := endpoint.FromConfigMap(configMap.Data)
		require.NoError(t, err)
		require.Equal(t, e.Address, got.Address)
		return got.IP
	}
	require.ErrorContains(t, publishEndpoint(t.Context(), maps, services, e), `looking for the IP address of Service "logs"`)
	require.Empty(t, published(), "the rest is said all the same")
	service, err := services.Create(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "logs"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	for ip, want := range map[string]string{"10.96.3.4": "10.96.3.4", "fd00::1": "fd00::1", corev1.ClusterIPNone: ""} {
		service.Spec.ClusterIP = ip
		_, err = services.Update(t.Context(), service, metav1.UpdateOptions{})
		require.NoError(t, err)
		require.NoError(t, publishEndpoint(t.Context(), maps, services, e))
		require.Equal(t, want, published())
	}
}

func TestTheServiceRunsOnWhileTheAPIServerIsDown(t *testing.T) {
	t.Parallel()
	client := cluster()
	client.PrependReactor("patch", "configmaps", func(k8stesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("connection refused")
	})
	logs := &synced.Buffer{}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- publish(ctx, slog.New(slog.NewJSONHandler(logs, nil)), "Failed", func(ctx context.Context) error {
			return applyEndpoint(ctx, client.CoreV1().ConfigMaps(endpoint.Namespace), endpoint.Endpoint{})
		})
	}()
	require.Eventually(t, func() bool { return strings.Contains(logs.String(), "connection refused") }, 5*time.Second, 10*time.Millisecond)
	require.Contains(t, logs.String(), `applying ConfigMap \"log-service\"`)
	stop()
	require.NoError(t, <-ended)
}

func TestADropIsAnEventOfThePod(t *testing.T) {
	t.Parallel()
	s := runs(t, t.TempDir())
	defer s.stop()
	path := s.stream()
	status, _ := s.send(http.MethodPost, path+"/markers", "pod", strings.NewReader(`{"range":"bytes 0-4/*","markers":["dropped"]}`))
	require.Equal(t, http.StatusAccepted, status)
	require.Eventually(t, func() bool {
		events, err := s.kube.CoreV1().Events("tenant").List(t.Context(), metav1.ListOptions{})
		return err == nil && len(events.Items) == 1 && events.Items[0].InvolvedObject.UID == "uid" && events.Items[0].Reason == notices.ReasonDropped
	}, time.Minute, 20*time.Millisecond)
}
