// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"encoding/json"
	"encoding/pem"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// An api is as much of an API server as a container takes that watches its own pod. It
// says at once what it knows: no kubelet is before it.
type api struct {
	server *httptest.Server

	mu       sync.Mutex
	pod      *corev1.Pod
	watchers int
	changed  chan struct{} // closed when the pod's status has changed
}

// newAPI starts one, and writes what a container needs for it into a directory.
func newAPI(account string) (*api, error) {
	a := &api{changed: make(chan struct{}), pod: &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{Name: "pod", Namespace: "default", ResourceVersion: "1"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{
			{Name: "first", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
		}},
	}}
	a.server = httptest.NewTLSServer(a)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.server.Certificate().Raw})
	err := errors.Join(
		mkdirForAll(account),
		writeForAll(filepath.Join(account, "ca.crt"), string(ca)),
		writeForAll(filepath.Join(account, "token"), "nobody asks for it"),
	)
	return a, err
}

func (a *api) close() {
	a.server.CloseClientConnections()
	a.server.Close()
}

// environ is by what a container finds it.
func (a *api) environ() []string {
	u, err := url.Parse(a.server.URL)
	if err != nil {
		return nil
	}
	host, port, _ := net.SplitHostPort(u.Host)
	return []string{"KUBERNETES_SERVICE_HOST=" + host, "KUBERNETES_SERVICE_PORT=" + port}
}

func (a *api) watched() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.watchers > 0
}

// ready says that the first container is, and returns when.
func (a *api) ready() time.Duration {
	return a.say(func(s *corev1.ContainerStatus) { s.Ready = true })
}

// ended says that it has ended.
func (a *api) ended(code int) {
	a.say(func(s *corev1.ContainerStatus) {
		s.Ready, s.State = false, corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: int32(code)}} //nolint:gosec // G115: from 0 to 255
	})
}

func (a *api) say(change func(*corev1.ContainerStatus)) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.pod = a.pod.DeepCopy()
	a.pod.ResourceVersion += "1"
	change(&a.pod.Status.ContainerStatuses[0])
	at := now()
	close(a.changed)
	a.changed = make(chan struct{})
	return at
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	to := json.NewEncoder(w)
	a.mu.Lock()
	pod, changed := a.pod, a.changed
	watches := r.URL.Query().Get("watch") != ""
	if watches {
		a.watchers++
	}
	a.mu.Unlock()
	if !watches {
		_ = to.Encode(corev1.PodList{
			TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"},
			ListMeta: metav1.ListMeta{ResourceVersion: pod.ResourceVersion}, Items: []corev1.Pod{*pod},
		})
		return
	}
	if r.URL.Query().Get("resourceVersion") != pod.ResourceVersion { // it has changed since the list
		_ = to.Encode(map[string]any{"type": "MODIFIED", "object": pod})
	}
	for {
		if http.NewResponseController(w).Flush() != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-changed:
		}
		a.mu.Lock()
		pod, changed = a.pod, a.changed
		a.mu.Unlock()
		if to.Encode(map[string]any{"type": "MODIFIED", "object": pod}) != nil {
			return
		}
	}
}
