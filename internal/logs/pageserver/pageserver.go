// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package pageserver serves the page of the kubectl plugin to users whose bearer tokens an
// authenticating proxy hands on.
//
// The page asks the API server with the token of its user, also for logs, so the API server
// decides as it does for the plugin, and the log service lends none of its own rights. With those it
// asks two questions only: whose the token is (TokenReview), and whether that user may still ask
// for a log that was indexed before, and read it (SubjectAccessReview).
//
// Tokens are in memory alone: their digests are the keys of what is kept, and nothing logs them.
package pageserver

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/rest"

	"github.com/entrypointer/entrypointer/internal/logs/api"
	"github.com/entrypointer/entrypointer/internal/logview"
	"github.com/entrypointer/entrypointer/internal/objects"
	"github.com/entrypointer/entrypointer/internal/page"
	"github.com/entrypointer/entrypointer/internal/target"
)

const (
	// mostTime bounds a request, also one that waits or is a whole log as text.
	mostTime = 2 * time.Minute
	// queueTime is how long a request waits until it is its turn.
	queueTime = 10 * time.Second
	// mostRequests and mostOfUser bound the requests at once, most of which wait for what comes
	// next in a log, mostMade and mostMadeOfUser those that take memory and processor time, and
	// mostTexts and mostTextsOfUser the logs as text, which take little of both, maybe for long.
	mostRequests, mostOfUser   = 200, 24
	mostMade, mostMadeOfUser   = 4, 2
	mostTexts, mostTextsOfUser = 8, 1
	// maxPage bounds a page of a list, in bytes: up to four are read at once for a request. An
	// object of the API server has 3 MiB at most.
	maxPage = 4 << 20
	// maxPods bounds the pods of a run, in bytes, which a request keeps until its response is made.
	maxPods = 32 << 20
	// mostSessions bounds the tokens of which something is kept, for sessionTime after the last
	// request, and mostAnswers what supervisors have said, each of 64 KiB at most.
	mostSessions = 64
	sessionTime  = 2 * time.Minute
	mostAnswers  = 20
	// Of the logs of all users, one may take an eighth of the disk, and a user may have four, which
	// take a quarter of it.
	mostLogs, mostLogsOfUser = 32, 4
	// logIdle is after how long a log that nobody reads is closed, and its token no longer used.
	logIdle = 2 * time.Minute
	// firstNamespace is where the page begins.
	firstNamespace = "default"
)

// A Reviewer asks the API server about users. Errors other than api.ErrUnauthenticated and
// api.ErrForbidden mean that it can't decide at the moment.
type Reviewer interface {
	// Reader returns the user of a token for the API server, or api.ErrUnauthenticated.
	Reader(ctx context.Context, token string) (api.User, error)
	// MayRead returns nil if a user may read the logs of a pod, or api.ErrForbidden. An empty pod
	// stands for all pods of the namespace, and an empty namespace for all namespaces.
	MayRead(ctx context.Context, user api.User, namespace, pod string) error
	// MayAsk returns nil if a user may ask the API server for lines of logs of a namespace, or
	// api.ErrForbidden.
	MayAsk(ctx context.Context, user api.User, namespace string) error
	// Namespace returns the namespace that has a name now.
	Namespace(ctx context.Context, name string) (api.Namespace, error)
}

// Options say how the page is served.
type Options struct {
	// Config says where the API server is. Its credentials aren't used.
	Config   *rest.Config
	Reviewer Reviewer
	Logger   *slog.Logger
	// Directory is where temporary files are, os.TempDir by default, and Disk bounds them, in
	// bytes.
	Directory string
	Disk      int64
}

// A Server serves the page.
type Server struct {
	options Options
	logs    *logview.Views
	// sessions has the page of each token and user.
	sessions         *cache.LRUExpireCache
	all, made, texts *gate
	answering        sync.WaitGroup
}

// New returns a Server. Close it.
func New(o Options) *Server {
	if o.Directory == "" {
		o.Directory = os.TempDir()
	}
	return &Server{
		options: o,
		logs: logview.New(logview.Options{
			Dir: o.Directory, MaxTotal: o.Disk, MaxLog: o.Disk / 8, MaxLogs: mostLogs, MaxLogsOfOwner: mostLogsOfUser,
			MaxOfOwner: o.Disk / 4, Idle: logIdle,
		}),
		sessions: cache.NewLRUExpireCache(mostSessions),
		all:      newGate(mostRequests, mostOfUser), made: newGate(mostMade, mostMadeOfUser), texts: newGate(mostTexts, mostTextsOfUser),
	}
}

// Close waits for the requests in flight, and removes all logs. Call it once no further requests
// come.
func (s *Server) Close() {
	s.answering.Wait()
	s.logs.Close()
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.answering.Add(1)
	defer s.answering.Done()
	ctx, cancel := context.WithTimeout(r.Context(), mostTime)
	defer cancel()
	page.Protect(w.Header())
	if isForeign(r.Header) {
		http.Error(w, "Another site may link to this page, but not ask for it.", http.StatusForbidden)
		return
	}
	token, is := bearer(r)
	if !is {
		refuse(w, "This page needs a bearer token in the header Authorization, and there is none. The proxy in front of it has to hand on the token of its user.")
		return
	}
	user, err := s.options.Reviewer.Reader(ctx, token)
	switch {
	case errors.Is(err, api.ErrUnauthenticated):
		refuse(w, "The API server of this cluster doesn't accept the bearer token that the proxy has handed on: it has expired, or it is for another audience or of another issuer. Log in again.")
		return
	case err != nil:
		s.options.Logger.Error("The page can't find out whose a token is", "error", err)
		busy(w, "The API server doesn't say at the moment whose the bearer token is. Try again.")
		return
	}
	owner := digestOf(user.Name, user.UID)
	identity, err := identityOf(user)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	leave, entered := s.enter(ctx, owner, r.URL)
	if !entered {
		busy(w, "Too many pages are read at once. Try again.")
		return
	}
	defer leave()
	handler, err := s.session(token, owner, identity, user)
	if err != nil {
		s.options.Logger.Error("The page can't ask the API server", "error", err)
		http.Error(w, "The page can't ask the API server.", http.StatusInternalServerError)
		return
	}
	ctx = objects.WithBounds(ctx, objects.Bounds{Page: maxPage, Pods: maxPods})
	serveTimed(w, withoutSecrets(ctx, r), handler)
}

// withoutSecrets returns a request without what identifies its user to the page and to the proxy.
func withoutSecrets(ctx context.Context, r *http.Request) *http.Request {
	r = r.Clone(ctx)
	r.Header.Del("Authorization")
	r.Header.Del("Cookie")
	return r
}

// isForeign reports whether a browser asks for another site, with the cookie of its proxy, and
// doesn't show the response as a page. Such a request would take a place of the user, and could
// run a command in a container.
func isForeign(h http.Header) bool {
	return h.Get("Sec-Fetch-Site") == "cross-site" && h.Get("Sec-Fetch-Mode") != "navigate"
}

// serveTimed serves a request until its context is done. A response that isn't whole then ends in
// a way that the client can tell.
func serveTimed(w http.ResponseWriter, r *http.Request, handler http.Handler) {
	timed := &timedWriter{ResponseWriter: w, ctx: r.Context()}
	handler.ServeHTTP(timed, r)
	switch {
	case timed.begun && timed.err != nil:
		panic(http.ErrAbortHandler) // or it would read as if it were whole
	case !timed.begun && r.Context().Err() != nil:
		busy(w, "That takes too long. Try again.")
	}
}

// bearer returns the token of a request, which has to be the only one.
func bearer(r *http.Request) (token string, is bool) {
	values := r.Header.Values("Authorization")
	if len(values) != 1 {
		return "", false
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	return token, strings.EqualFold(scheme, "Bearer") && token != ""
}

// identityOf returns what tells a user from all others, with all that the API server decides by. It
// isn't the same for all tokens of a user: those of a ServiceAccount each have an ID of their own.
func identityOf(user api.User) (string, error) {
	encoded, err := json.Marshal(user)
	if err != nil {
		return "", fmt.Errorf("encoding a user: %w", err)
	}
	return digestOf(string(encoded)), nil
}

// digestOf returns a digest of some texts.
func digestOf(texts ...string) string {
	digest := sha256.Sum256(fmt.Appendf(nil, "%q", texts))
	return string(digest[:])
}

// session returns the page of a user, who asks with a token. The owner is the same for all tokens
// of the user.
func (s *Server) session(token, owner, identity string, user api.User) (http.Handler, error) {
	key := digestOf(token, identity)
	if found, is := s.sessions.Get(key); is {
		s.sessions.Add(key, found, sessionTime)
		return found.(http.Handler), nil
	}
	config := rest.AnonymousClientConfig(s.options.Config)
	config.BearerToken = token
	client, err := objects.NewClient(config, firstNamespace)
	if err != nil {
		return nil, err
	}
	handler := page.New(page.Options{
		Client: *client, Logs: s.logs, MostAnswers: mostAnswers,
		Readable: func(ctx context.Context, namespace string, of target.Target) (page.Access, error) {
			rights, err := s.rights(ctx, user, namespace, of)
			return page.Access{Owner: owner, Identity: identity, Rights: rights}, err
		},
	})
	s.sessions.Add(key, handler, sessionTime)
	return handler, nil
}

// rights returns what the log of a target depends on, if the user may read it as the aggregated
// API demands: the namespace that has its name now, and whether the user may read logs of former
// namespaces.
func (s *Server) rights(ctx context.Context, user api.User, namespace string, of target.Target) (string, error) {
	pod := ""
	if of.Name == target.Pod {
		pod = of.Of
	}
	err := s.options.Reviewer.MayRead(ctx, user, namespace, pod)
	if err == nil {
		err = s.options.Reviewer.MayAsk(ctx, user, namespace)
	}
	if errors.Is(err, api.ErrForbidden) {
		return "", apierrors.NewForbidden(schema.GroupResource{Resource: "pods/log"}, pod, err)
	} else if err != nil {
		return "", err
	}
	now, err := s.options.Reviewer.Namespace(ctx, namespace)
	if err != nil {
		return "", err
	}
	err = s.options.Reviewer.MayRead(ctx, user, "", "")
	if err != nil && !errors.Is(err, api.ErrForbidden) {
		return "", err
	}
	return fmt.Sprintf("%s %t", now.UID, err == nil), nil
}

// enter takes the places that a request needs.
func (s *Server) enter(ctx context.Context, owner string, asked *url.URL) (leave func(), entered bool) {
	if !s.all.try(owner) {
		return nil, false
	}
	second := s.gateOf(asked)
	if second == nil {
		return func() { s.all.leave(owner) }, true
	}
	limited, cancel := context.WithTimeout(ctx, queueTime)
	defer cancel()
	if !second.enter(limited, owner) {
		s.all.leave(owner)
		return nil, false
	}
	return func() { second.leave(owner); s.all.leave(owner) }, true
}

// gateOf returns the further gate of a request, nil for one that takes next to nothing, maybe for
// long: that for a file of the page, or one that waits for a change of a log.
func (s *Server) gateOf(asked *url.URL) *gate {
	switch {
	case strings.HasPrefix(asked.Path, "/assets/"), strings.HasSuffix(asked.Path, "/logs/info") && logview.Waits(asked):
		return nil
	case strings.HasSuffix(asked.Path, "/logs/text"):
		return s.texts
	default:
		return s.made
	}
}

// refuse responds that a request has no token that is accepted.
func refuse(w http.ResponseWriter, text string) {
	w.Header().Set("WWW-Authenticate", "Bearer")
	http.Error(w, text, http.StatusUnauthorized)
}

// busy responds that a request may succeed later.
func busy(w http.ResponseWriter, text string) {
	w.Header().Set("Retry-After", "2")
	http.Error(w, text, http.StatusServiceUnavailable)
}

// A timedWriter writes until the time of its request is over.
type timedWriter struct {
	http.ResponseWriter

	ctx   context.Context //nolint:containedctx // of one request
	begun bool
	err   error // of what wasn't written
}

// WriteHeader implements http.ResponseWriter.
func (w *timedWriter) WriteHeader(code int) {
	w.begun = true
	w.ResponseWriter.WriteHeader(code)
}

// Write implements io.Writer.
func (w *timedWriter) Write(p []byte) (int, error) {
	if w.err = cmp.Or(w.err, w.ctx.Err()); w.err != nil {
		return 0, w.err
	}
	w.begun = true
	return w.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (w *timedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
