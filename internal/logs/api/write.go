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
	// maxNameLength bounds the names that a client chooses, in bytes.
	maxNameLength = 253
	// droppedMarker marks bytes that will never come.
	droppedMarker = "dropped"
)

// A declaration is the body of POST /logs. In the RFC, it has only the name.
type declaration struct {
	Name      string `json:"name"`
	Container string `json:"container"`
	Start     string `json:"start"`
	// Labels are those labels of the pod by which the stream can be listed.
	Labels map[string]string `json:"labels"`
}

// create answers POST /logs.
func (s *Server) create(w http.ResponseWriter, r *http.Request) error {
	pod, err := sender(r, s.authenticator.Beginner)
	if err != nil {
		return err
	}
	var d declaration
	if err := readJSON(w, r, &d); err != nil {
		return err
	}
	if d.Name == "" {
		return newProblem(http.StatusBadRequest, `"name" is missing: set the name of the stream, such as stdout`)
	}
	for _, name := range []string{d.Name, d.Container, d.Start} {
		if len(name) > maxNameLength {
			return newProblem(http.StatusBadRequest, fmt.Sprintf(`"name", "container" or "start" is too long: use at most %d bytes`, maxNameLength))
		}
	}
	source := streams.Source{
		Namespace: pod.Namespace, Pod: pod.Name, PodUID: pod.UID, Container: d.Container, Start: d.Start, Name: d.Name, Labels: d.Labels,
		NamespaceUID: pod.NamespaceUID,
	}
	if source.Surplus, err = s.surplus(r.Context(), source); err != nil {
		s.noteRefusal(pod, source, err)
		return err
	}
	id, err := s.createStream(r.Context(), source)
	if err != nil {
		s.postpone(source, err)
		s.noteRefusal(pod, source, err)
		return err
	}
	s.postponed.remove(source)
	writeJSON(w, http.StatusOK, map[string]string{"id": id, "name": d.Name})
	return nil
}

// readJSON reads a JSON body.
func readJSON(w http.ResponseWriter, r *http.Request, into any) error {
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxDocument))
	if err := decoder.Decode(into); err != nil {
		if isBodyTooLong(err) {
			return err
		}
		return newProblem(http.StatusBadRequest, fmt.Sprintf("reading the body as JSON: %v", err))
	}
	return nil
}

// appendData answers POST /logs/{id}/data.
func (s *Server) appendData(w http.ResponseWriter, r *http.Request, to target) error {
	sent, release, err := s.receiveBody(w, r, to, maxAppend)
	if err != nil {
		return err
	}
	defer release()
	if len(sent.data) > 0 {
		from, err := s.countingStore(to.pod.Namespace, to.id).Append(r.Context(), to.id, sent.data)
		if err != nil {
			return err
		}
		s.exports.Wrote(to.id, to.source, from+int64(len(sent.data)))
		s.metrics.accepted.Add(float64(len(sent.data)))
	}
	s.accept(w, r, to)
	return nil
}

// patchData answers PATCH /logs/{id}/data.
func (s *Server) patchData(w http.ResponseWriter, r *http.Request, to target) error {
	at, err := parseContentRange(r.Header.Get("Content-Range"))
	if err != nil {
		return newProblem(http.StatusBadRequest, fmt.Sprintf("reading Content-Range: %v", err))
	}
	if at.Len() > streams.MaxWrite {
		return newProblem(http.StatusRequestEntityTooLarge, fmt.Sprintf("the range has %d bytes, more than %d: send it in parts", at.Len(), streams.MaxWrite))
	}
	sent, release, err := s.receiveBody(w, r, to, at.Len())
	if err != nil {
		return err
	}
	defer release()
	if int64(len(sent.data)) != at.Len() {
		return newProblem(http.StatusBadRequest, fmt.Sprintf("the body has %d bytes, but its Content-Range has %d", len(sent.data), at.Len()))
	}
	if err := s.countingStore(to.pod.Namespace, to.id).WriteMember(r.Context(), to.id, at.From, sent.data, sent.member, times.Decode(sent.extra, at.From, at.To)...); err != nil {
		return err
	}
	s.metrics.accepted.Add(float64(len(sent.data)))
	return s.acceptRange(w, r, to, at)
}

// acceptRange answers a request about a range, and ends the stream if the request says
// so.
func (s *Server) acceptRange(w http.ResponseWriter, r *http.Request, to target, at contentRange) error {
	if at.isLast {
		if err := s.streams.End(r.Context(), to.id, at.total); err != nil {
			return err
		}
		s.exports.Wrote(to.id, to.source, at.total)
		w.WriteHeader(http.StatusAccepted)
		return nil
	}
	s.exports.Wrote(to.id, to.source, at.To)
	s.accept(w, r, to)
	return nil
}

// A markerRequest is the body of POST /logs/{id}/markers.
type markerRequest struct {
	Range   string   `json:"range"`
	Markers []string `json:"markers"`
}

// mark answers POST /logs/{id}/markers. It never answers 429: a client sends a marker
// after it has given up bytes, so it must get rid of the marker.
func (s *Server) mark(w http.ResponseWriter, r *http.Request, to target) error {
	var m markerRequest
	if err := readJSON(w, r, &m); err != nil {
		return err
	}
	at, err := parseContentRange(m.Range)
	if err != nil {
		return newProblem(http.StatusBadRequest, fmt.Sprintf(`reading "range": %v`, err))
	}
	if len(m.Markers) != 1 || m.Markers[0] != droppedMarker {
		return newProblem(http.StatusBadRequest, fmt.Sprintf(`"markers" are %.200q: use ["dropped"]`, m.Markers))
	}
	if at.Len() > 0 {
		if err := s.checkMarker(to.pod.Namespace); err != nil {
			return err
		}
		if err := s.countingStore(to.pod.Namespace, to.id).Drop(r.Context(), to.id, at.Range); err != nil {
			return err
		}
		s.metrics.dropped.Add(float64(at.Len()))
		s.notices.Dropped(to.pod, to.source.Container, to.source.Name)
	}
	return s.acceptRange(w, r, to, at)
}
