// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"errors"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/internal/logs/endpoint"
	"github.com/entrypointer/entrypointer/internal/logs/streams"
)

// ErrNotProxy says that a request isn't the API server's: what its headers say of
// users isn't believed.
var ErrNotProxy = errors.New("only the API server may ask for what is below /apis: ask it, such as by kubectl entrypointer logs, or use a token and the paths below /logs")

// A FrontProxy knows the API server, and those in whose name it asks.
type FrontProxy interface {
	// User is who has sent a request to the API server, or ErrNotProxy. Other errors
	// mean that it can't tell at the moment.
	User(r *http.Request) (User, error)
}

// Aggregated has the paths that the API server passes on: the same to read as those
// of Handler, for users that it has authenticated.
func (s *Server) Aggregated(front FrontProxy) http.Handler {
	const root = "/apis/" + endpoint.Group + "/" + endpoint.Version
	reads := reading{s, front.User}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+root, discover)
	mux.HandleFunc("GET "+root+"/{$}", discover)
	for path, handle := range map[string]handler{
		"/logs":           reads.list,
		"/logs/{id}":      reads.state,
		"/logs/{id}/data": reads.read,
		// The API server cuts off what takes it longer than a minute, unless it ends
		// so or is a watch.
		"/logs/{id}/log": reads.read,
	} {
		mux.Handle("GET "+root+"/namespaces/{namespace}"+path, s.answeringBy(status, handle))
	}
	return mux
}

// discover answers those who ask what there is, which is the same for everybody. What
// has no verb list isn't listed by programs that go through all there is: it isn't
// made of Kubernetes objects.
func discover(w http.ResponseWriter, _ *http.Request) {
	list := metav1.APIResourceList{
		TypeMeta:     metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
		GroupVersion: endpoint.Group + "/" + endpoint.Version,
	}
	for _, name := range []string{"logs", "logs/data", "logs/log"} {
		resource := metav1.APIResource{Name: name, Namespaced: true, Kind: "Log", Verbs: metav1.Verbs{"get"}}
		if name == "logs" {
			resource.SingularName = "log"
		}
		list.APIResources = append(list.APIResources, resource)
	}
	answer(w, http.StatusOK, list)
}

// status is a problem as Kubernetes' clients know it.
func status(p *problem) any {
	reasons := map[int]metav1.StatusReason{
		http.StatusBadRequest: metav1.StatusReasonBadRequest, http.StatusUnauthorized: metav1.StatusReasonUnauthorized,
		http.StatusForbidden: metav1.StatusReasonForbidden, http.StatusNotFound: metav1.StatusReasonNotFound,
		http.StatusTooManyRequests: metav1.StatusReasonTooManyRequests, http.StatusServiceUnavailable: metav1.StatusReasonServiceUnavailable,
	}
	return metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Message: p.text, Reason: reasons[p.status], Code: int32(p.status), //nolint:gosec // a code of HTTP's
	}
}

// A reading answers those who read, as it knows who they are.
type reading struct {
	*Server
	user func(*http.Request) (User, error)
}

// namespaceOf is that of a request: of its path, if that has one.
func namespaceOf(r *http.Request) string {
	if namespace := r.PathValue("namespace"); namespace != "" {
		return namespace
	}
	return r.URL.Query().Get("namespace")
}

// readable is the stream of a request, if its client may read it. In a path with
// another namespace, there is no such stream.
func (s reading) readable(r *http.Request) (id string, source streams.Source, err error) {
	user, err := s.user(r)
	if err != nil {
		return "", source, err
	}
	id = r.PathValue("id")
	if source, err = s.sources.of(r.Context(), id); err != nil {
		return "", source, err
	}
	if namespace := r.PathValue("namespace"); namespace != "" && namespace != source.Namespace {
		return "", source, streams.ErrNoStream
	}
	return id, source, s.who.MayRead(r.Context(), user, source.Namespace, source.Pod)
}
