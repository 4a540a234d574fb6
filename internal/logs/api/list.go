// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"net/http"
	"strings"

	"github.com/entrypointer/entrypointer/internal/logs/streams"
)

// listedStream is a stream in the response to GET /logs.
type listedStream struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Container string `json:"container"`
	Start     string `json:"start"`
	Pod       string `json:"pod"`
	Namespace string `json:"namespace"`
	PodUID    string `json:"podUID"`
	// Labels are absent if the pod has none of package loglabels.
	Labels map[string]string `json:"labels,omitempty"`
}

func listedOf(l streams.Listed) listedStream {
	return listedStream{ID: l.ID, Name: l.Name, Container: l.Container, Start: l.Start, Pod: l.Pod, Namespace: l.Namespace, PodUID: l.PodUID, Labels: l.Labels}
}

// A listQuery selects the streams of a pod, or of a label.
type listQuery struct{ namespace, pod, key, value string }

func parseListQuery(r *http.Request) (q listQuery, err error) {
	values := r.URL.Query()
	q = listQuery{namespace: namespaceOf(r), pod: values.Get("pod")}
	if !values.Has("label") {
		return q, streams.CheckPod(q.namespace, q.pod)
	}
	q.key, q.value, _ = strings.Cut(values.Get("label"), "=")
	switch err := streams.CheckNamespace(q.namespace); {
	case err != nil:
		return q, err
	case q.pod != "":
		return q, newProblem(http.StatusBadRequest, "pod and label are both set: use one of them")
	}
	return q, streams.CheckLabel(q.key, q.value)
}

// list answers GET /logs. To list a label, the reader must be allowed to read all pods of
// the namespace, because the pods with that label aren't known beforehand.
func (s readAPI) list(w http.ResponseWriter, r *http.Request) error {
	user, err := s.user(r)
	if err != nil {
		return err
	}
	q, err := parseListQuery(r)
	if err != nil {
		return err
	}
	if err := s.authenticator.MayRead(r.Context(), user, q.namespace, q.pod); err != nil {
		return err
	}
	leave, err := s.enter(q.namespace, user)
	if err != nil {
		return err
	}
	defer leave()
	store, release := s.streams.WithMemoryHold(q.namespace)
	defer release()
	var all []streams.Listed
	var more bool
	if q.key == "" {
		all, more, err = store.List(r.Context(), q.namespace, q.pod)
	} else {
		all, more, err = store.ListLabel(r.Context(), q.namespace, q.key, q.value)
	}
	if err == nil {
		all, err = s.withoutFormer(r.Context(), user, q.namespace, all)
	}
	if err != nil {
		return err
	}
	body := struct {
		Logs []listedStream `json:"logs"`
		More bool           `json:"more,omitempty"`
	}{Logs: []listedStream{}, More: more}
	for _, l := range all {
		body.Logs = append(body.Logs, listedOf(l))
	}
	writeJSON(w, http.StatusOK, body)
	return nil
}
