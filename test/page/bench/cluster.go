// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bufio"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gorilla/websocket"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/internal/logs/api"
	"github.com/entrypointer/entrypointer/internal/logs/endpoint"
	"github.com/entrypointer/entrypointer/internal/logs/storage"
	"github.com/entrypointer/entrypointer/internal/logs/streams"
	"github.com/entrypointer/entrypointer/internal/objects/objectstest"
)

const (
	namespace, taskRun, pod, step, container = "bench", "build", "build-pod", "main", "step-main"

	lineBytes = 100 // with the newline
)

// noon is when the step began. It prints a line each millisecond.
var noon = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)

// line is a line of the log, without its newline.
func line(n int) string {
	text := fmt.Sprintf("line %09d GET /orders/%d code=200 user=%x answered in %d ms ", n, n*7919%1000003, uint32(n)*2654435761, n%97) //nolint:gosec // G115: any bits
	return (text + strings.Repeat(".", lineBytes))[:lineBytes-1]
}

// A cluster stands in for an API server with one TaskRun that has ended, and with the log of its
// step twice: as the log of the pod, and in a log service.
type cluster struct {
	lines   int
	logs    *api.Server
	service http.Handler
	server  *httptest.Server
	folder  string
}

// newCluster fills the log service, and serves.
func newCluster(ctx context.Context, directory string, lines int) (*cluster, error) {
	if err := os.MkdirAll(filepath.Join(directory, "bucket"), 0o700); err != nil {
		return nil, err
	}
	bucket, err := storage.OpenFiles(filepath.Join(directory, "bucket"))
	if err != nil {
		return nil, err
	}
	store, err := streams.Open(ctx, bucket)
	if err != nil {
		return nil, err
	}
	c := &cluster{lines: lines, folder: directory}
	if err := c.fill(ctx, store); err != nil {
		return nil, err
	}
	c.logs = api.New(store, everybody{}, slog.New(slog.DiscardHandler))
	c.service = c.logs.Aggregated(everybody{})
	c.server = httptest.NewTLSServer(c)
	return c, os.WriteFile(c.authority(), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.server.Certificate().Raw}), 0o600)
}

// authority is the file with the CA of the API server.
func (c *cluster) authority() string { return filepath.Join(c.folder, "ca.crt") }

func (c *cluster) close() {
	c.logs.CutFollowers()
	c.server.CloseClientConnections()
	c.server.Close()
}

// fill writes the log as a supervisor would, and joins what it is written in, as the service does
// later.
func (c *cluster) fill(ctx context.Context, store *streams.Store) error {
	id, err := store.Create(ctx, streams.Source{
		Namespace: namespace, Pod: pod, PodUID: "uid-" + pod, Container: container, Start: noon.Format(time.RFC3339Nano), Name: "stdout",
		Labels: map[string]string{"tekton.dev/taskRun": taskRun},
	})
	if err != nil {
		return err
	}
	part, at := []byte{}, int64(0)
	for n := range c.lines {
		part = append(append(part, line(n)...), '\n')
		if len(part)+lineBytes > streams.MaxWrite || n == c.lines-1 {
			if err := store.Write(ctx, id, at, part); err != nil {
				return err
			}
			at += int64(len(part))
			part = part[:0]
		}
	}
	if err := store.End(ctx, id, at); err != nil {
		return err
	}
	for hours := range 4 {
		if _, err := store.Tidy(ctx, id, time.Now().Add(time.Duration(1+hours)*time.Hour), 0); err != nil {
			return err
		}
	}
	return nil
}

// writeText writes the log to a file.
func (c *cluster) writeText(path string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	to := bufio.NewWriterSize(file, 1<<20)
	for n := range c.lines {
		_, _ = to.WriteString(line(n) + "\n") // Flush returns the error
	}
	return errors.Join(to.Flush(), file.Sync())
}

// ServeHTTP implements the API server.
func (c *cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, what, _ := strings.Cut(r.URL.Path, "/namespaces/"+namespace+"/")
	what = strings.TrimSuffix(what, "/")
	switch {
	case strings.HasPrefix(r.URL.Path, "/apis/"+endpoint.Group+"/"):
		c.service.ServeHTTP(w, r)
	case websocket.IsWebSocketUpgrade(r):
		watch(w, r)
	case what == "taskruns/"+taskRun:
		objectstest.Respond(w, theTaskRun())
	case what == "pods/"+pod:
		objectstest.Respond(w, thePod())
	case what == "pods/"+pod+"/log":
		c.writeLog(w)
	case what == "pods":
		objectstest.Respond(w, corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: []corev1.Pod{thePod()}})
	case what == "events":
		objectstest.Respond(w, corev1.EventList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "EventList"}})
	case strings.HasSuffix(r.URL.Path, "/api/v1/namespaces/"):
		objectstest.Respond(w, corev1.NamespaceList{Items: []corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: namespace}}}})
	default:
		objectstest.Refuse(w, http.StatusNotFound, what+" not found")
	}
}

// watch keeps a watch open in which nothing happens.
func watch(w http.ResponseWriter, r *http.Request) {
	upgrader := websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }}
	connection, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		return
	}
	defer connection.Close()
	for err == nil {
		_, _, err = connection.ReadMessage()
	}
}

// writeLog writes the log as a kubelet does if timestamps=true, as the Dashboard asks.
func (c *cluster) writeLog(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/plain")
	to := bufio.NewWriterSize(w, 32<<10)
	for n := range c.lines {
		_, _ = to.WriteString(noon.Add(time.Duration(n)*time.Millisecond+1).Format(time.RFC3339Nano) + " " + line(n) + "\n")
	}
	_ = to.Flush() // a client that has gone
}

func theTaskRun() any {
	ended := map[string]any{"exitCode": 0, "reason": "Completed", "startedAt": metav1.NewTime(noon), "finishedAt": metav1.NewTime(noon.Add(time.Hour))}
	return map[string]any{
		"apiVersion": "tekton.dev/v1", "kind": "TaskRun",
		"metadata": map[string]any{"name": taskRun, "namespace": namespace, "uid": "uid-" + taskRun, "creationTimestamp": metav1.NewTime(noon), "resourceVersion": "1"},
		"spec":     map[string]any{"taskSpec": map[string]any{"steps": []any{map[string]any{"name": step, "image": "registry.example/builder"}}}},
		"status": map[string]any{
			"podName": pod, "startTime": metav1.NewTime(noon), "completionTime": metav1.NewTime(noon.Add(time.Hour)),
			"conditions": []any{map[string]any{"type": "Succeeded", "status": "True", "reason": "Succeeded"}},
			"steps":      []any{map[string]any{"name": step, "container": container, "terminated": ended}},
			"taskSpec":   map[string]any{"steps": []any{map[string]any{"name": step, "image": "registry.example/builder"}}},
		},
	}
}

func thePod() corev1.Pod {
	isController := true
	return corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Name: pod, Namespace: namespace, UID: "uid-" + pod, ResourceVersion: "1", CreationTimestamp: metav1.NewTime(noon), Labels: map[string]string{"tekton.dev/taskRun": taskRun},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "tekton.dev/v1", Kind: "TaskRun", Name: taskRun, Controller: &isController}},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: container, Image: "registry.example/builder"}}},
		Status: corev1.PodStatus{Phase: corev1.PodSucceeded, ContainerStatuses: []corev1.ContainerStatus{{Name: container, State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{Reason: "Completed", StartedAt: metav1.NewTime(noon), FinishedAt: metav1.NewTime(noon.Add(time.Hour))},
		}}}},
	}
}

// everybody may read everything.
type everybody struct{}

// User implements api.FrontProxy.
func (everybody) User(*http.Request) (api.User, error) { return api.User{Name: "reader"}, nil }

// Writer implements api.Authenticator.
func (everybody) Writer(context.Context, string) (api.Pod, error) {
	return api.Pod{}, api.ErrUnauthenticated
}

// Beginner implements api.Authenticator.
func (everybody) Beginner(context.Context, string) (api.Pod, error) {
	return api.Pod{}, api.ErrUnauthenticated
}

// Reader implements api.Authenticator.
func (everybody) Reader(context.Context, string) (api.User, error) {
	return api.User{Name: "reader"}, nil
}

// MayRead implements api.Authenticator.
func (everybody) MayRead(context.Context, api.User, string, string) error { return nil }

// Namespace implements api.Authenticator.
func (everybody) Namespace(_ context.Context, name string) (api.Namespace, error) {
	return api.Namespace{}, nil
}
