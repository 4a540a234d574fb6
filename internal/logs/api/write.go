// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/entrypointer/entrypointer/internal/logs/streams"
	"github.com/entrypointer/entrypointer/internal/logs/times"
)

const (
	// maxName bounds what a client calls things, in bytes.
	maxName = 253
	// dropped is the marker of bytes that will never come.
	dropped = "dropped"
)

// A declaration is the body of POST /logs. The RFC has the name alone.
type declaration struct {
	Name      string `json:"name"`
	Container string `json:"container"`
	Start     string `json:"start"`
	// Labels are those of the pod by which the stream is found.
	Labels map[string]string `json:"labels"`
}

// create answers POST /logs.
func (s *Server) create(w http.ResponseWriter, r *http.Request) error {
	pod, err := s.writer(r)
	if err != nil {
		return err
	}
	var d declaration
	if err := readJSON(w, r, &d); err != nil {
		return err
	}
	if d.Name == "" {
		return refused(http.StatusBadRequest, `"name" is missing: say what the stream is, such as stdout`)
	}
	for _, name := range []string{d.Name, d.Container, d.Start} {
		if len(name) > maxName {
			return refused(http.StatusBadRequest, fmt.Sprintf(`"name", "container" and "start" have %d bytes at most`, maxName))
		}
	}
	source := streams.Source{
		Namespace: pod.Namespace, Pod: pod.Name, PodUID: pod.UID, Container: d.Container, Start: d.Start, Name: d.Name, Labels: d.Labels,
	}
	if source.Surplus, err = s.surplus(r.Context(), source); err != nil {
		return err
	}
	id, err := s.counting(pod.Namespace, "").Create(r.Context(), source)
	if err != nil {
		return err
	}
	answer(w, http.StatusOK, map[string]string{"id": id, "name": d.Name})
	return nil
}

// readJSON reads a document of a client's.
func readJSON(w http.ResponseWriter, r *http.Request, into any) error {
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxDocument))
	if err := decoder.Decode(into); err != nil {
		if isTooLong(err) {
			return err
		}
		return refused(http.StatusBadRequest, fmt.Sprintf("reading the body as JSON: %v", err))
	}
	return nil
}

// appendData answers POST /logs/{id}/data.
func (s *Server) appendData(w http.ResponseWriter, r *http.Request) error {
	id, pod, err := s.writable(r)
	if err != nil {
		return err
	}
	sent, release, err := s.body(w, r, pod, maxAppend)
	if err != nil {
		return err
	}
	defer release()
	if len(sent.data) > 0 {
		if _, err := s.counting(pod.Namespace, id).Append(r.Context(), id, sent.data); err != nil {
			return err
		}
		s.metrics.accepted.Add(float64(len(sent.data)))
	}
	w.WriteHeader(http.StatusAccepted)
	return nil
}

// patchData answers PATCH /logs/{id}/data.
func (s *Server) patchData(w http.ResponseWriter, r *http.Request) error {
	id, pod, err := s.writable(r)
	if err != nil {
		return err
	}
	at, err := parseContentRange(r.Header.Get("Content-Range"))
	if err != nil {
		return refused(http.StatusBadRequest, fmt.Sprintf("reading Content-Range: %v", err))
	}
	if at.Len() > streams.MaxWrite {
		return refused(http.StatusRequestEntityTooLarge, fmt.Sprintf("the range has %d bytes, but at most %d are taken at a time: send them in parts", at.Len(), streams.MaxWrite))
	}
	sent, release, err := s.body(w, r, pod, at.Len())
	if err != nil {
		return err
	}
	defer release()
	if int64(len(sent.data)) != at.Len() {
		return refused(http.StatusBadRequest, fmt.Sprintf("the body has %d bytes, its Content-Range %d", len(sent.data), at.Len()))
	}
	if err := s.counting(pod.Namespace, id).WriteMember(r.Context(), id, at.From, sent.data, sent.member, times.Decode(sent.extra, at.From, at.To)...); err != nil {
		return err
	}
	s.metrics.accepted.Add(float64(len(sent.data)))
	return s.accept(w, r, id, at)
}

// accept answers a request about a range, which may be the last.
func (s *Server) accept(w http.ResponseWriter, r *http.Request, id string, at contentRange) error {
	if at.ends {
		if err := s.streams.End(r.Context(), id, at.total); err != nil {
			return err
		}
	}
	w.WriteHeader(http.StatusAccepted)
	return nil
}

// marks is the body of POST /logs/{id}/markers.
type marks struct {
	Range   string   `json:"range"`
	Markers []string `json:"markers"`
}

// mark answers POST /logs/{id}/markers. It is never asked to come again later
// because there is too much to do: a marker is what a client sends that has given up.
func (s *Server) mark(w http.ResponseWriter, r *http.Request) error {
	id, pod, err := s.writable(r)
	if err != nil {
		return err
	}
	var m marks
	if err := readJSON(w, r, &m); err != nil {
		return err
	}
	at, err := parseContentRange(m.Range)
	if err != nil {
		return refused(http.StatusBadRequest, fmt.Sprintf(`reading "range": %v`, err))
	}
	if len(m.Markers) != 1 || m.Markers[0] != dropped {
		return refused(http.StatusBadRequest, fmt.Sprintf(`"markers" are %.200q, but the only one is "dropped"`, m.Markers))
	}
	if at.Len() > 0 {
		if noRoom := s.limits.RoomForMarker(pod.Namespace); noRoom != nil {
			return full(noRoom, becauseQuota)
		}
		if err := s.counting(pod.Namespace, id).Drop(r.Context(), id, at.Range); err != nil {
			return err
		}
		s.metrics.dropped.Add(float64(at.Len()))
	}
	return s.accept(w, r, id, at)
}
