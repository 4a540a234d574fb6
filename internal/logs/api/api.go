// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package api is the HTTP API of the log service: that of the RFC "Entrypoint injection
// and tenant pod logging", and extensions. openapi.yaml specifies it.
//
// Replicas share nothing but the storage, so a client can send each request to another
// replica. All requests are idempotent except for appends, which send bytes without an
// offset.
package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/entrypointer/entrypointer/internal/logs/retries"
	"github.com/entrypointer/entrypointer/internal/logs/storage"
	"github.com/entrypointer/entrypointer/internal/logs/streams"
	"github.com/entrypointer/entrypointer/internal/tracelink"
	"github.com/entrypointer/entrypointer/pkg/tenants"
)

// A Pod is the pod to which a token is bound. NamespaceUID is "" if it isn't known.
type Pod struct{ Namespace, NamespaceUID, Name, UID string }

// A User is a user of the API server.
type User struct {
	Name, UID string
	Groups    []string
	Extra     map[string][]string
}

// The answers of an Authenticator that refuse a client.
var (
	ErrUnauthenticated = errors.New("the token isn't valid for this service, or isn't bound to a pod")
	ErrForbidden       = errors.New("reading these logs needs permission to get pods/log")
)

// errFormer refuses a reader of logs whose namespace was deleted.
var errFormer = newProblem(http.StatusForbidden, "the namespace of these logs was deleted: reading them needs permission to get pods/log in all namespaces")

// A Namespace is what the API server knows of a namespace. It has no UID if the namespace
// doesn't exist.
type Namespace struct {
	UID     string
	Created time.Time
}

// An Authenticator authenticates and authorizes clients. An error other than
// ErrUnauthenticated and ErrForbidden means that it can't decide at the moment.
type Authenticator interface {
	// Writer returns the pod to which a token is bound, or ErrUnauthenticated. The pod may
	// have been deleted some minutes ago.
	Writer(ctx context.Context, token string) (Pod, error)
	// Beginner is Writer for a request that begins a stream: it notices sooner that a pod was
	// deleted.
	Beginner(ctx context.Context, token string) (Pod, error)
	// Reader returns the user of a token, or ErrUnauthenticated.
	Reader(ctx context.Context, token string) (User, error)
	// MayRead returns nil if a user may read the logs of a pod, or ErrForbidden. An empty
	// pod stands for all pods of the namespace, and an empty namespace for all namespaces.
	MayRead(ctx context.Context, user User, namespace, pod string) error
	// Namespace returns the namespace that has a name now.
	Namespace(ctx context.Context, name string) (Namespace, error)
}

const (
	// maxBodyMemory bounds the bodies that are being received and stored, in bytes. Each
	// body takes up to three times as much: two copies, and a compressed one. The others
	// are the shares of a namespace and of a pod.
	maxBodyMemory          = 32 << 20
	maxBodyMemoryNamespace = maxBodyMemory / 4
	maxBodyMemoryPod       = maxBodyMemory / 8
	// minBodyMemory is what a short body counts as, because of its compressor.
	minBodyMemory = 64 << 10
	// maxReaders bounds the requests that read. The others are the shares of a namespace
	// and of a user. Their memory has a bound of its own
	// (internal/logs/streams/memory.go).
	maxReaders          = 1024
	maxReadersNamespace = maxReaders / 2
	maxReadersUser      = maxReaders / 4
	// maxDocument bounds a JSON body, in bytes.
	maxDocument = 16 << 10
	// maxAppend bounds a body without a Content-Range, in bytes.
	maxAppend = 4 * streams.MaxWrite
	// retryAfter is the usual Retry-After, in seconds.
	retryAfter = "1"
	// retryAfterFull is the Retry-After while the storage is full.
	retryAfterFull = "10"
)

// retryAfterJoining is the Retry-After of a stream with too many pieces: by then, they may
// have been joined. No response asks for a longer pause.
var retryAfterJoining = strconv.Itoa(int(retries.LongestRetryAfter / time.Second))

// timing has the timeouts and intervals of a server.
type timing struct {
	body    time.Duration // timeout of receiving a body
	reader  time.Duration // timeout of sending a part
	follow  time.Duration // shortest interval between checks for new bytes
	idle    time.Duration // longest one, while none come
	beat    time.Duration // interval of keep-alives to a client that gets no bytes
	silence time.Duration // timeout without bytes, where a keep-alive would look like output
	// postponed is the interval of tries to create the streams that the storage has refused.
	postponed time.Duration
}

var defaultTiming = timing{body: 15 * time.Second, reader: 30 * time.Second, follow: 500 * time.Millisecond, idle: 3 * time.Second, beat: 15 * time.Second, silence: 10 * time.Minute, postponed: 5 * time.Second}

// A Server answers the requests of the API.
type Server struct {
	streams       *streams.Store
	authenticator Authenticator
	logger        *slog.Logger
	memory        *tenants.Shares
	readers       *tenants.Shares // of places for maxReaders
	searches      *tenants.Shares // of places for maxSearches
	bounds        searchBounds
	sources       *sources
	postponed     *postponed
	timing        timing
	limits        Limits
	notices       Notices
	exports       Exports
	permissions   Permissions
	traces        tracelink.Template // where they are
	metrics       *metrics

	stopFollowingOnce sync.Once
	stopFollowing     chan struct{} // closed by CutFollowers
}

// createStream creates a stream. What is stored counts against the limits, also after an
// error, when the ID isn't known.
func (s *Server) createStream(ctx context.Context, source streams.Source) (id string, err error) {
	var meta, index int64
	id, err = s.streams.WithAccounting(source.Namespace, func(bytes, made int64) {
		s.metrics.stored.Add(float64(bytes))
		if made > 0 {
			meta += bytes
		} else {
			index += bytes
		}
	}).Create(ctx, source)
	if meta > 0 {
		s.limits.RecordStream(source.Namespace, id, meta, index)
	} else if index > 0 { // it lacked an entry
		s.limits.RecordUsage(source.Namespace, id, index, 0)
	}
	return id, err
}

// countingStore returns the store for writing to a stream of a namespace. What is stored
// counts against the limits.
func (s *Server) countingStore(namespace, id string) *streams.Store {
	return s.streams.WithAccounting(namespace, func(bytes, made int64) {
		s.limits.RecordUsage(namespace, id, bytes, made)
		s.metrics.stored.Add(float64(bytes))
	})
}

// New returns a server of the streams of a store.
func New(store *streams.Store, authenticator Authenticator, logger *slog.Logger) *Server {
	return &Server{
		streams: store, authenticator: authenticator, logger: logger, sources: newSources(store), postponed: newPostponed(), timing: defaultTiming, limits: unlimited{}, notices: noNotices{}, exports: noExports{}, permissions: noPermissions{}, metrics: newMetrics(),
		memory:        tenants.NewShares(maxBodyMemory, maxBodyMemoryNamespace, maxBodyMemoryPod),
		readers:       tenants.NewShares(maxReaders, maxReadersNamespace, maxReadersUser),
		searches:      tenants.NewShares(maxSearches, maxSearchesNamespace, maxSearchesUser),
		bounds:        defaultBounds,
		stopFollowing: make(chan struct{}),
	}
}

// CutFollowers ends searches, and the responses to followers, which would keep a server from
// stopping. To followers, it looks like a broken connection, so they reconnect to another
// replica.
func (s *Server) CutFollowers() { s.stopFollowingOnce.Do(func() { close(s.stopFollowing) }) }

// Handler returns the handler of the paths below /logs.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /logs", s.handle(s.create))
	reads := readAPI{s, s.tokenUser}
	mux.Handle("GET /logs", s.handle(reads.list))
	mux.Handle("GET /pods", s.handle(reads.listPods))
	mux.Handle("GET /search", s.handle(reads.search))
	mux.Handle("GET /logs/{id}", s.handle(reads.state))
	mux.Handle("GET /logs/{id}/data", s.handle(reads.read))
	mux.Handle("POST /logs/{id}/data", s.handle(s.writing(s.appendData)))
	mux.Handle("PATCH /logs/{id}/data", s.handle(s.writing(s.patchData)))
	mux.Handle("POST /logs/{id}/markers", s.handle(s.writing(s.mark)))
	return s.limitTime(mux)
}

// A problem is an error with its HTTP response.
type problem struct {
	status int
	text   string
	// retry says that the response has a Retry-After.
	retry      bool
	retryAfter string // in seconds, "" for retryAfter
	// reason is the limit for the metrics, "" for none.
	reason string
}

// Error implements error.
func (p *problem) Error() string { return p.text }

func newProblem(status int, text string) error { return &problem{status: status, text: text} }

// quotaProblem is the response to a request that exceeds a limit of its namespace.
func quotaProblem(err error, reason string) error {
	return &problem{status: http.StatusRequestEntityTooLarge, text: err.Error(), reason: reason}
}

// busyProblem is the response to a client that has to retry later.
func busyProblem() error {
	return &problem{status: http.StatusTooManyRequests, text: "too many requests are being answered: try again later", retry: true, reason: reasonBusy}
}

// A handler answers a request, unless it returns an error.
type handler func(http.ResponseWriter, *http.Request) error

// handle returns an http.Handler that turns errors into JSON responses.
func (s *Server) handle(handle handler) http.Handler {
	return s.handleWith(func(p *problem) any { return map[string]string{"error": p.text} }, handle)
}

// handleWith is handle with another JSON document for errors.
func (s *Server) handleWith(document func(*problem) any, handle handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := handle(w, r)
		if err == nil {
			return
		}
		p := problemOf(err)
		if p.status >= http.StatusInternalServerError && r.Context().Err() == nil {
			s.logger.Error("A request failed", "method", r.Method, "path", r.URL.Path, "error", err)
		}
		if p.reason != "" {
			s.metrics.refused.WithLabelValues(p.reason).Inc()
		}
		if p.retry {
			w.Header().Set("Retry-After", cmp.Or(p.retryAfter, retryAfter))
		}
		if p.status == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", "Bearer")
		}
		writeJSON(w, p.status, document(p))
	})
}

// limitTime bounds the time in which a client has to send its body, which net/http reads
// even if no handler does, and the time in which it has to receive the response.
func (s *Server) limitTime(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		connection := http.NewResponseController(w)
		if r.ContentLength != 0 {
			_ = connection.SetReadDeadline(time.Now().Add(s.timing.body))
		}
		_ = connection.SetWriteDeadline(time.Now().Add(s.timing.body + s.timing.reader))
		next.ServeHTTP(w, r)
	})
}

func problemOf(err error) *problem {
	if errors.Is(err, streams.ErrBusy) {
		err = busyProblem()
	}
	if p, is := errors.AsType[*problem](err); is {
		return p
	}
	if p := cmp.Or(limitProblem(err), changeProblem(err)); p != nil {
		return p
	}
	switch {
	case isBodyTooLong(err):
		return &problem{status: http.StatusRequestEntityTooLarge, text: "the body is too long: send less at a time"}
	case errors.Is(err, streams.ErrNoStream):
		return &problem{status: http.StatusNotFound, text: "there is no such stream: create it by POST /logs"}
	case errors.Is(err, streams.ErrEnded), errors.Is(err, streams.ErrConflict):
		return &problem{status: http.StatusConflict, text: err.Error()}
	case errors.Is(err, streams.ErrTooMany):
		return &problem{status: http.StatusTooManyRequests, text: streams.ErrTooMany.Error(), retry: true, retryAfter: retryAfterJoining, reason: reasonPieces}
	case errors.Is(err, storage.ErrFull):
		return &problem{status: http.StatusInsufficientStorage, text: "the storage of the log service is full: ask its operator for more space", retry: true, retryAfter: retryAfterFull, reason: reasonFull}
	case errors.Is(err, streams.ErrNoPod), errors.Is(err, streams.ErrNoLabel):
		return &problem{status: http.StatusBadRequest, text: err.Error()}
	case errors.Is(err, ErrUnauthenticated):
		return &problem{status: http.StatusUnauthorized, text: ErrUnauthenticated.Error()}
	case errors.Is(err, ErrNotProxy):
		return &problem{status: http.StatusUnauthorized, text: ErrNotProxy.Error()}
	case errors.Is(err, ErrForbidden):
		return &problem{status: http.StatusForbidden, text: ErrForbidden.Error()}
	default: // its text may have paths of the storage, and answers of the API server
		return &problem{status: http.StatusServiceUnavailable, text: "the log service can't do that at the moment", retry: true}
	}
}

// limitProblem returns the problem of a stream or a pod that has reached a limit for good,
// nil for another error.
func limitProblem(err error) *problem {
	for limit, reason := range map[error]string{
		streams.ErrTooLong: reasonPieces, streams.ErrPodStreams: reasonStreams,
	} {
		if errors.Is(err, limit) {
			return &problem{status: http.StatusRequestEntityTooLarge, text: limit.Error(), reason: reason}
		}
	}
	return nil
}

func isBodyTooLong(err error) bool {
	_, is := errors.AsType[*http.MaxBytesError](err)
	return is
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // fails if the client has disconnected
}

// token returns the bearer token of a request.
func token(r *http.Request) (string, error) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if token = strings.TrimSpace(token); !strings.EqualFold(scheme, "Bearer") || token == "" {
		return "", ErrUnauthenticated
	}
	return token, nil
}

// sender returns the pod that sends a request, by a method of the authenticator.
func sender(r *http.Request, pod func(context.Context, string) (Pod, error)) (Pod, error) {
	token, err := token(r)
	if err != nil {
		return Pod{}, err
	}
	return pod(r.Context(), token)
}

// A target is the stream to which a request writes, and the pod that sends it.
type target struct {
	id     string
	source streams.Source
	pod    Pod
}

// writing returns a handler that finds the target of a request, and notes why output is
// refused.
func (s *Server) writing(handle func(http.ResponseWriter, *http.Request, target) error) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		to, err := s.target(r)
		if err != nil {
			return err
		}
		if err = handle(w, r, to); err != nil {
			s.noteRefusal(to.pod, to.source, err)
		}
		return err
	}
}

// target returns the target of a request. For a stream of another pod, it returns
// ErrNoStream, so that its existence isn't disclosed.
func (s *Server) target(r *http.Request) (to target, err error) {
	if to.pod, err = sender(r, s.authenticator.Writer); err != nil {
		return to, err
	}
	to.id = r.PathValue("id")
	to.source, err = s.sources.get(r.Context(), to.id, writeSourceTTL)
	if err == nil && (to.source.Namespace != to.pod.Namespace || to.source.PodUID != to.pod.UID) {
		err = streams.ErrNoStream
	}
	return to, err
}

// tokenUser returns the user of a request's bearer token.
func (s *Server) tokenUser(r *http.Request) (User, error) {
	token, err := token(r)
	if err != nil {
		return User{}, err
	}
	return s.authenticator.Reader(r.Context(), token)
}
