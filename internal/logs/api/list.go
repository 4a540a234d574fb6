// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"net/http"

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
}

// list answers GET /logs.
func (s reading) list(w http.ResponseWriter, r *http.Request) error {
	user, err := s.user(r)
	if err != nil {
		return err
	}
	namespace, pod := namespaceOf(r), r.URL.Query().Get("pod")
	if err := streams.CheckPod(namespace, pod); err != nil {
		return err
	}
	if err := s.who.MayRead(r.Context(), user, namespace, pod); err != nil {
		return err
	}
	leave, err := s.enter()
	if err != nil {
		return err
	}
	defer leave()
	all, more, err := s.streams.List(r.Context(), namespace, pod)
	if err != nil {
		return err
	}
	body := struct {
		Logs []listed `json:"logs"`
		More bool     `json:"more,omitempty"`
	}{Logs: []listed{}, More: more}
	for _, l := range all {
		body.Logs = append(body.Logs, listed{ID: l.ID, Name: l.Name, Container: l.Container, Start: l.Start, Pod: l.Pod, Namespace: l.Namespace, PodUID: l.PodUID})
	}
	answer(w, http.StatusOK, body)
	return nil
}
