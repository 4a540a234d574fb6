// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"net/http"
	"strings"

	"github.com/entrypointer/entrypointer/internal/logs/streams"
)

// listed is a stream in the answer to GET /logs.
type listed struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Container string `json:"container"`
	Start     string `json:"start"`
	Pod       string `json:"pod"`
	Namespace string `json:"namespace"`
	PodUID    string `json:"podUID"`
	// Labels are absent if the pod has none by which streams are found.
	Labels map[string]string `json:"labels,omitempty"`
}

// A query is whose streams are listed: those of a pod, or of a label.
type query struct{ namespace, pod, key, value string }

func queryOf(r *http.Request) (q query, err error) {
	values := r.URL.Query()
	q = query{namespace: namespaceOf(r), pod: values.Get("pod")}
	if !values.Has("label") {
		return q, streams.CheckPod(q.namespace, q.pod)
	}
	q.key, q.value, _ = strings.Cut(values.Get("label"), "=")
	switch err := streams.CheckNamespace(q.namespace); {
	case err != nil:
		return q, err
	case q.pod != "":
		return q, refused(http.StatusBadRequest, "use pod or label, not both")
	}
	return q, streams.CheckLabel(q.key, q.value)
}

// list answers GET /logs. Whoever lists those of a label may read those of each pod
// of the namespace: which pods have the label isn't known before.
func (s reading) list(w http.ResponseWriter, r *http.Request) error {
	user, err := s.user(r)
	if err != nil {
		return err
	}
	q, err := queryOf(r)
	if err != nil {
		return err
	}
	if err := s.who.MayRead(r.Context(), user, q.namespace, q.pod); err != nil {
		return err
	}
	leave, err := s.enter()
	if err != nil {
		return err
	}
	defer leave()
	store, release := s.streams.Holding(q.namespace)
	defer release()
	var all []streams.Listed
	var more bool
	if q.key == "" {
		all, more, err = store.List(r.Context(), q.namespace, q.pod)
	} else {
		all, more, err = store.ListLabel(r.Context(), q.namespace, q.key, q.value)
	}
	if err != nil {
		return err
	}
	body := struct {
		Logs []listed `json:"logs"`
		More bool     `json:"more,omitempty"`
	}{Logs: []listed{}, More: more}
	for _, l := range all {
		body.Logs = append(body.Logs, listed{ID: l.ID, Name: l.Name, Container: l.Container, Start: l.Start, Pod: l.Pod, Namespace: l.Namespace, PodUID: l.PodUID, Labels: l.Labels})
	}
	answer(w, http.StatusOK, body)
	return nil
}
