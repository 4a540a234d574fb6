// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"net/http"

	"github.com/entrypointer/entrypointer/internal/logs/streams"
)

// Notices tell the owners of pods what becomes of their output. They don't wait.
type Notices interface {
	// Refused says that a pod's output is refused because of a limit, and how to change that.
	Refused(pod Pod, container, stream, why string)
	// Dropped says that a pod has marked output as dropped.
	Dropped(pod Pod, container, stream string)
}

// noNotices is the absence of notices.
type noNotices struct{}

func (noNotices) Refused(Pod, string, string, string) {}
func (noNotices) Dropped(Pod, string, string)         {}

// Notify sets the notices. It must be called before the first request.
func (s *Server) Notify(notices Notices) { s.notices = notices }

// noteRefusal notes the error of a request if a limit is its reason, and the pod gives the
// output up. The pod sends again after all other errors.
func (s *Server) noteRefusal(pod Pod, source streams.Source, err error) {
	if p := problemOf(err); p.status == http.StatusRequestEntityTooLarge && p.reason != "" {
		s.notices.Refused(pod, source.Container, source.Name, p.text)
	}
}
