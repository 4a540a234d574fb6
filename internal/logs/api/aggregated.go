// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"errors"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/internal/logs/endpoint"
	"github.com/entrypointer/entrypointer/internal/logs/loglist"
	"github.com/entrypointer/entrypointer/internal/logs/streams"
	"github.com/entrypointer/entrypointer/internal/tracelink"
)

// ErrNotProxy says that a request below /apis doesn't come from the API server, so its
// headers about the user don't count.
var ErrNotProxy = errors.New("only the API server may use the paths below /apis: ask the API server, such as by kubectl entrypointer logs, or use a token and the paths below /logs")

// A FrontProxy authenticates the API server, and tells for whom it asks.
type FrontProxy interface {
	// User returns the user for whom the API server asks, or ErrNotProxy. Other errors mean
	// that it can't decide at the moment.
	User(r *http.Request) (User, error)
}

// Aggregated returns the handler of the paths that the API server proxies (an
// APIService). It has the same reads as Handler, for users that the API server has
// authenticated.
func (s *Server) Aggregated(front FrontProxy) http.Handler {
	const root = "/apis/" + endpoint.Group + "/" + endpoint.Version
	reads := readAPI{s, front.User}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+root, s.discover)
	mux.HandleFunc("GET "+root+"/{$}", s.discover)
	for path, handle := range map[string]handler{
		"/logs":           reads.listEither,
		"/logs/{id}":      reads.getEither,
		"/logs/{id}/data": reads.read,
		// The API server limits requests to a minute, except for watches and for the
		// subresource log.
		"/logs/{id}/log":   reads.read,
		"/logs/search/log": reads.search,
	} {
		mux.Handle("GET "+root+"/namespaces/{namespace}"+path, s.handleWith(kubernetesStatus, handle))
	}
	const named = root + "/namespaces/{namespace}/logs/{id}"
	for pattern, handle := range map[string]handler{
		"DELETE " + named: reads.eraseEither, "POST " + named + "/hold": reads.hold, "DELETE " + named + "/hold": reads.hold,
	} {
		mux.Handle(pattern, s.handleWith(kubernetesStatus, handle))
	}
	mux.Handle("GET "+root+"/logs", s.handleWith(kubernetesStatus, refuseAllNamespaces))
	return s.limitTime(mux)
}

// listEither lists the streams of a pod or a label, or as Kubernetes' clients expect it, the
// Logs of a namespace.
func (s readAPI) listEither(w http.ResponseWriter, r *http.Request) error {
	if values := r.URL.Query(); values.Has("pod") || values.Has("label") {
		return s.list(w, r)
	}
	return s.listPods(w, r)
}

// getEither returns the state of a stream, or the Log of a pod. A name that is an ID stands
// for the stream.
func (s readAPI) getEither(w http.ResponseWriter, r *http.Request) error {
	if streams.IsID(r.PathValue("id")) {
		return s.state(w, r)
	}
	return s.getPod(w, r)
}

// refuseAllNamespaces answers kubectl get logs -A: the index is searched by namespace.
func refuseAllNamespaces(http.ResponseWriter, *http.Request) error {
	return newProblem(http.StatusMethodNotAllowed, "logs are listed by namespace: name one, such as by kubectl get logs -n NAMESPACE")
}

// discover answers API discovery, which is the same for everybody. Of the verbs, logs have
// those that can be answered with Kubernetes' objects. Kubernetes' own controllers leave
// them alone: to delete a namespace needs the verb delete of a resource, to collect garbage
// delete, list and watch, and a quota create as well. So logs outlast their namespace, and
// kubectl delete works without it.
func (s *Server) discover(w http.ResponseWriter, _ *http.Request) {
	list := metav1.APIResourceList{
		TypeMeta:     metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
		GroupVersion: endpoint.Group + "/" + endpoint.Version,
	}
	for _, name := range []string{"logs", "logs/data", "logs/log", "logs/hold"} {
		resource := metav1.APIResource{Name: name, Namespaced: true, Kind: loglist.Kind, Verbs: metav1.Verbs{"get"}}
		switch name {
		case "logs":
			resource.SingularName, resource.Verbs = "log", metav1.Verbs{"get", "list"}
		case "logs/hold":
			resource.Verbs = metav1.Verbs{verbCreate, verbDelete}
		}
		list.APIResources = append(list.APIResources, resource)
	}
	writeJSON(w, http.StatusOK, loglist.Discovery{APIResourceList: list, TraceURL: s.traces.String()})
}

// LinkTraces has API discovery say where traces are, before the service serves.
func (s *Server) LinkTraces(at tracelink.Template) { s.traces = at }

// kubernetesStatus returns a problem as the Status that Kubernetes clients expect.
func kubernetesStatus(p *problem) any {
	reasons := map[int]metav1.StatusReason{
		http.StatusBadRequest: metav1.StatusReasonBadRequest, http.StatusUnauthorized: metav1.StatusReasonUnauthorized,
		http.StatusForbidden: metav1.StatusReasonForbidden, http.StatusConflict: metav1.StatusReasonConflict, http.StatusMethodNotAllowed: metav1.StatusReasonMethodNotAllowed, http.StatusNotFound: metav1.StatusReasonNotFound,
		http.StatusTooManyRequests: metav1.StatusReasonTooManyRequests, http.StatusServiceUnavailable: metav1.StatusReasonServiceUnavailable,
	}
	return metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Message: p.text, Reason: reasons[p.status], Code: int32(p.status), //nolint:gosec // a code of HTTP's
	}
}

// A readAPI has the handlers that read, with a way to authenticate the user.
type readAPI struct {
	*Server
	user func(*http.Request) (User, error)
}

// namespaceOf returns the namespace in the path of a request, or else in the query.
func namespaceOf(r *http.Request) string {
	if namespace := r.PathValue("namespace"); namespace != "" {
		return namespace
	}
	return r.URL.Query().Get("namespace")
}

// readable returns the stream of a request and its user, who may read it. If the path has
// another namespace than the stream, it returns ErrNoStream.
func (s readAPI) readable(r *http.Request) (id string, source streams.Source, user User, err error) {
	if user, err = s.user(r); err != nil {
		return "", source, user, err
	}
	id = r.PathValue("id")
	if source, err = s.sources.get(r.Context(), id, readSourceTTL); err != nil {
		return "", source, user, err
	}
	if namespace := r.PathValue("namespace"); namespace != "" && namespace != source.Namespace {
		return "", source, user, streams.ErrNoStream
	}
	if err = s.authenticator.MayRead(r.Context(), user, source.Namespace, source.Pod); err == nil {
		err = s.checkNamespace(r.Context(), user, id, source)
	}
	return id, source, user, err
}
