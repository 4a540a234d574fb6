// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/entrypointer/entrypointer/internal/logs/endpoint"
	"github.com/entrypointer/entrypointer/internal/logs/streams"
)

// redact answers DELETE of a stream: it deletes the bytes of the ranges in the body.
func (s readAPI) redact(w http.ResponseWriter, r *http.Request) error {
	user, err := s.user(r)
	if err != nil {
		return err
	}
	q, err := s.parseErase(w, r)
	if err != nil {
		return err
	}
	ranges, err := parseRanges(q.ranges)
	if err != nil {
		return err
	}
	id, source, err := s.redactable(r, user, q)
	if err != nil {
		return err
	}
	leave, err := s.enter(q.namespace, user)
	if err != nil {
		return err
	}
	defer leave()
	ctx, cancel := context.WithTimeout(r.Context(), eraseTime)
	defer cancel()
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(eraseTime + s.timing.reader))
	store, release := s.streams.WithMemoryHold(q.namespace)
	defer release()
	bytes, err := store.Redact(ctx, id, source, ranges, q.dryRun)
	s.audit(user, outcome("deleted", err != nil, q.dryRun, err), q.namespace, source.Pod, "container", source.Container, "podUID", source.PodUID, "stream", id,
		"dryRun", q.dryRun, "ranges", len(ranges), "bytes", bytes, "error", errorText(err))
	if errors.Is(err, context.DeadlineExceeded) {
		return &problem{status: http.StatusServiceUnavailable, retry: true, text: "some of these bytes are still stored: repeat the request"}
	}
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess,
		Message: fmt.Sprintf("deleted %d bytes of a stream", bytes),
		Details: &metav1.StatusDetails{Name: id, Group: endpoint.Group, Kind: "logs", UID: types.UID("deleted")},
	})
	return nil
}

// redactable returns the stream of a request, if its user may delete the logs of its pod.
func (s readAPI) redactable(r *http.Request, user User, q eraseRequest) (id string, source streams.Source, err error) {
	id = q.pod
	if source, err = s.streams.Source(r.Context(), id); err != nil {
		return id, source, err
	}
	if source.Namespace != q.namespace {
		return id, source, streams.ErrNoStream
	}
	if err := s.permissions.MayChange(r.Context(), user, verbDelete, "", source.Namespace, source.Pod); err != nil {
		return id, source, err
	}
	created, err := s.streams.Created(r.Context(), id)
	if err != nil {
		return id, source, err
	}
	q.pod = source.Pod
	chosen, err := s.erasable(r.Context(), user, q)
	if err != nil {
		return id, source, err
	}
	isChosen, err := chosen(streams.Listed{ID: id, Created: created, Source: source})
	if err == nil && !isChosen {
		err = streams.ErrNoStream
	}
	return id, source, err
}

// parseRanges parses what formatRanges formats, in any order.
func parseRanges(list []string) (ranges streams.Ranges, err error) {
	switch {
	case len(list) == 0:
		return nil, newProblem(http.StatusBadRequest, `name the bytes of the stream in the body, as {"ranges":["0-5"]}: to delete all logs of a container, use the name of its pod in the path, and the parameter container`)
	case len(list) > streams.MaxRedactions:
		return nil, newProblem(http.StatusBadRequest, fmt.Sprintf("the body has %d ranges: use %d at most", len(list), streams.MaxRedactions))
	}
	for _, text := range list {
		first, last, _ := strings.Cut(text, "-")
		from, ok1 := parseOffset(first)
		to, ok2 := parseOffset(last)
		if !ok1 || !ok2 || to < from || to == streams.MaxOffset {
			return nil, newProblem(http.StatusBadRequest, fmt.Sprintf("the range %.100q is invalid: use 0-5 for the first six bytes", text))
		}
		ranges = ranges.With(streams.Range{From: from, To: to + 1})
	}
	return ranges, nil
}
