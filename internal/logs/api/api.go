// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package api is the HTTP API of the log service: the one that the RFC "Entrypoint
// injection and tenant pod logging" describes, and what it needs beyond that.
// openapi.yaml describes it.
//
// Replicas share nothing but the streams, so a client may send each request to
// another. Every request can be repeated, but one: bytes that are sent without an
// offset are appended again.
package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/entrypointer/entrypointer/internal/logs/room"
	"github.com/entrypointer/entrypointer/internal/logs/streams"
)

// A Pod is one that a token belongs to.
type Pod struct{ Namespace, Name, UID string }

// A User is somebody whom the API server knows.
type User struct {
	Name, UID string
	Groups    []string
	Extra     map[string][]string
}

// What the identity of a client comes to.
var (
	ErrUnauthenticated = errors.New("the token isn't one of a pod, for this service, that is valid")
	ErrForbidden       = errors.New("whose token this is may not read logs of that pod")
)

// An Authenticator knows whose a token is. Other errors than those above mean
// that it can't tell at the moment.
type Authenticator interface {
	// Writer is the pod that a token belongs to, or ErrUnauthenticated.
	Writer(ctx context.Context, token string) (Pod, error)
	// Reader is whose token this is, or ErrUnauthenticated.
	Reader(ctx context.Context, token string) (User, error)
	// MayRead returns nil if somebody may read the logs of a pod, or of all pods of
	// the namespace if the pod is "", or ErrForbidden.
	MayRead(ctx context.Context, user User, namespace, pod string) error
}

const (
	// bytesAtOnce bounds the bodies that are being read and stored, in bytes: of a
	// body there are two copies, and its compressed one. No pod has more than bytesOfPod.
	bytesAtOnce = 32 << 20
	bytesOfPod  = bytesAtOnce / 8
	// leastBytes is what a short one counts: there is a compressor for each.
	leastBytes = 64 << 10
	// readersAtOnce bounds those who read and follow. What they hold is bounded beside
	// that (internal/logs/streams/memory.go).
	readersAtOnce = 256
	// maxDocument is the longest JSON document, in bytes.
	maxDocument = 16 << 10
	// maxAppend is the longest body without a Content-Range, in bytes.
	maxAppend = 4 * streams.MaxWrite
	// retryAfter is in seconds.
	retryAfter = "1"
	// joinedAfter is when pieces of a stream may have been joined.
	joinedAfter = "30"
)

// timing is what a server waits for, and how long.
type timing struct {
	body    time.Duration // for all of a body
	reader  time.Duration // for a client to take a part
	follow  time.Duration // between looks at a stream that somebody follows
	beat    time.Duration // between signs of life to a client that gets none of the stream
	silence time.Duration // for the stream to go on, where signs of life would be taken for it
}

var usual = timing{body: 15 * time.Second, reader: 30 * time.Second, follow: 500 * time.Millisecond, beat: 15 * time.Second, silence: 10 * time.Minute}

// A Server answers requests.
type Server struct {
	streams *streams.Store
	who     Authenticator
	logger  *slog.Logger
	room    *room.Room
	readers chan struct{}
	sources *sources
	timing  timing
	limits  Limits
	metrics *metrics

	cutOnce sync.Once
	cut     chan struct{} // closed when those who follow shall go
}

// counting is where a namespace's bytes are stored, of one stream unless it is new.
func (s *Server) counting(namespace, id string) *streams.Store {
	return s.streams.Counting(namespace, func(bytes, made int64) {
		s.limits.Took(namespace, id, bytes, made)
		s.metrics.stored.Add(float64(bytes))
	})
}

// New returns a server of streams.
func New(store *streams.Store, who Authenticator, logger *slog.Logger) *Server {
	return &Server{
		streams: store, who: who, logger: logger, sources: newSources(store), timing: usual, limits: unlimited{}, metrics: newMetrics(),
		room: room.New(bytesAtOnce, bytesOfPod), readers: make(chan struct{}, readersAtOnce),
		cut: make(chan struct{}),
	}
}

// CutFollowers has those who follow a stream go elsewhere: for a server that stops,
// they would never end. What has been sent ends as if the connection had broken.
func (s *Server) CutFollowers() { s.cutOnce.Do(func() { close(s.cut) }) }

// Handler has the paths of the API.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /logs", s.answering(s.create))
	reads := reading{s, s.tokenUser}
	mux.Handle("GET /logs", s.answering(reads.list))
	mux.Handle("GET /logs/{id}", s.answering(reads.state))
	mux.Handle("GET /logs/{id}/data", s.answering(reads.read))
	mux.Handle("POST /logs/{id}/data", s.answering(s.appendData))
	mux.Handle("PATCH /logs/{id}/data", s.answering(s.patchData))
	mux.Handle("POST /logs/{id}/markers", s.answering(s.mark))
	return mux
}

// A problem is an answer that isn't what the client wanted.
type problem struct {
	status int
	text   string
	// again asks the client to come again.
	again bool
	after string // in seconds, if it isn't retryAfter
	// because says which limit it is.
	because string
}

// Error implements error.
func (p *problem) Error() string { return p.text }

func refused(status int, text string) error { return &problem{status: status, text: text} }

// full refuses what a namespace has no room for.
func full(err error, because string) error {
	return &problem{status: http.StatusRequestEntityTooLarge, text: err.Error(), because: because}
}

// busy asks a client to come again.
func busy() error {
	return &problem{status: http.StatusTooManyRequests, text: "too many requests are being answered: try again later", again: true, because: becauseBusy}
}

// A handler answers a request, unless it returns an error.
type handler func(http.ResponseWriter, *http.Request) error

// answering turns an error into an answer.
func (s *Server) answering(handle handler) http.Handler {
	return s.answeringBy(func(p *problem) any { return map[string]string{"error": p.text} }, handle)
}

// answeringBy does that by a document that is made of it.
func (s *Server) answeringBy(document func(*problem) any, handle handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := s.limitTime(w, r)
		if err == nil {
			err = handle(w, r)
		}
		if err == nil {
			return
		}
		p := problemOf(err)
		if p.status >= http.StatusInternalServerError && r.Context().Err() == nil {
			s.logger.Error("A request failed", "method", r.Method, "path", r.URL.Path, "error", err)
		}
		if p.because != "" {
			s.metrics.refused.WithLabelValues(p.because).Inc()
		}
		if p.again {
			w.Header().Set("Retry-After", cmp.Or(p.after, retryAfter))
		}
		if p.status == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", "Bearer")
		}
		answer(w, p.status, document(p))
	})
}

// limitTime bounds how long a client may take for its body, which net/http reads
// also if the handler doesn't, and for the answer.
func (s *Server) limitTime(w http.ResponseWriter, r *http.Request) error {
	connection := http.NewResponseController(w)
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		if err := connection.SetReadDeadline(time.Now().Add(s.timing.body)); err != nil {
			return fmt.Errorf("limiting the time for a body: %w", err)
		}
	}
	if err := connection.SetWriteDeadline(time.Now().Add(s.timing.body + s.timing.reader)); err != nil {
		return fmt.Errorf("limiting the time for an answer: %w", err)
	}
	return nil
}

func problemOf(err error) *problem {
	if errors.Is(err, streams.ErrBusy) {
		err = busy()
	}
	if p, is := errors.AsType[*problem](err); is {
		return p
	}
	switch {
	case isTooLong(err):
		return &problem{status: http.StatusRequestEntityTooLarge, text: "the body is too long"}
	case errors.Is(err, streams.ErrNoStream):
		return &problem{status: http.StatusNotFound, text: "there is no such stream: make it by POST /logs"}
	case errors.Is(err, streams.ErrEnded), errors.Is(err, streams.ErrConflict):
		return &problem{status: http.StatusConflict, text: err.Error()}
	case errors.Is(err, streams.ErrTooMany):
		return &problem{status: http.StatusTooManyRequests, text: streams.ErrTooMany.Error(), again: true, after: joinedAfter, because: becausePieces}
	case errors.Is(err, streams.ErrScattered):
		return &problem{status: http.StatusRequestEntityTooLarge, text: streams.ErrScattered.Error(), because: becausePieces}
	case errors.Is(err, streams.ErrTooLong):
		return &problem{status: http.StatusRequestEntityTooLarge, text: streams.ErrTooLong.Error(), because: becausePieces}
	case errors.Is(err, streams.ErrNoPod), errors.Is(err, streams.ErrNoLabel):
		return &problem{status: http.StatusBadRequest, text: err.Error()}
	case errors.Is(err, ErrUnauthenticated):
		return &problem{status: http.StatusUnauthorized, text: ErrUnauthenticated.Error()}
	case errors.Is(err, ErrNotProxy):
		return &problem{status: http.StatusUnauthorized, text: ErrNotProxy.Error()}
	case errors.Is(err, ErrForbidden):
		return &problem{status: http.StatusForbidden, text: ErrForbidden.Error()}
	default: // which may have paths of the storage, and words of the API server
		return &problem{status: http.StatusServiceUnavailable, text: "the log service can't do that at the moment", again: true}
	}
}

func isTooLong(err error) bool {
	_, is := errors.AsType[*http.MaxBytesError](err)
	return is
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client has gone
}

// token is the bearer token of a request.
func token(r *http.Request) (string, error) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if token = strings.TrimSpace(token); !strings.EqualFold(scheme, "Bearer") || token == "" {
		return "", ErrUnauthenticated
	}
	return token, nil
}

// writer is the pod that sends a request.
func (s *Server) writer(r *http.Request) (Pod, error) {
	token, err := token(r)
	if err != nil {
		return Pod{}, err
	}
	return s.who.Writer(r.Context(), token)
}

// writable is the stream of a request and the pod that sends it, if it is that
// pod's. Another pod doesn't learn that there is such a stream.
func (s *Server) writable(r *http.Request) (id string, pod Pod, err error) {
	if pod, err = s.writer(r); err != nil {
		return "", pod, err
	}
	id = r.PathValue("id")
	source, err := s.sources.of(r.Context(), id)
	if err == nil && (source.Namespace != pod.Namespace || source.PodUID != pod.UID) {
		err = streams.ErrNoStream
	}
	return id, pod, err
}

// tokenUser is whose token a request has.
func (s *Server) tokenUser(r *http.Request) (User, error) {
	token, err := token(r)
	if err != nil {
		return User{}, err
	}
	return s.who.Reader(r.Context(), token)
}
