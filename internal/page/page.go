// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/entrypointer/entrypointer/internal/logview"
	"github.com/entrypointer/entrypointer/internal/objects"
	"github.com/entrypointer/entrypointer/internal/podstatus"
	"github.com/entrypointer/entrypointer/internal/printable"
	"github.com/entrypointer/entrypointer/internal/runs"
	"github.com/entrypointer/entrypointer/internal/target"
	"github.com/entrypointer/entrypointer/internal/tracelink"
)

//go:embed assets
var assets embed.FS

//go:embed templates
var templates embed.FS

// patience bounds how long a page is made.
const patience = 45 * time.Second

// Options say what a page shows.
type Options struct {
	// Client asks the API server as the user. Its namespace is where the page begins.
	Client objects.Client
	// Base is the path of the page, "" for the root. It doesn't end with a slash. The handler
	// gets paths without it.
	Base string
	// Statuses returns what asks the supervisors of pods, podstatus.NewReader by default.
	Statuses func(*objects.Client) *podstatus.Reader
	// Logs shows the logs of runs. Without it, pages have none.
	Logs *logview.Views
	// Traces makes the links to the traces of runs. Without it, the log service is asked where
	// they are.
	Traces tracelink.Template
	// Perfetto is where runs can be opened. Without it, pages have no button for that.
	Perfetto Perfetto
	// Readable returns the Access by which the user may read the log of a target now, or an
	// error. It is asked for each request about a log: what was indexed before may be read only by
	// who may read it still. Without it, Logs has what one user reads, and nobody else.
	Readable func(ctx context.Context, namespace string, of target.Target) (Access, error)
	// MostAnswers bounds the answers of supervisors that are kept, each of 64 KiB at most, 500 by
	// default.
	MostAnswers int
	// Now returns the time, time.Now by default.
	Now func() time.Time
}

// An Access says who reads a log, and with which rights. Logs that were read by another one are
// read anew.
type Access struct {
	// Owner is who reads, whose logs are bounded together.
	Owner string
	// Identity tells who reads from others of the same owner, who may have other rights.
	Identity string
	// Rights tell what the owner reads from what the same owner would read with other rights.
	Rights string
}

// A server serves the page.
type server struct {
	Options

	views map[string]*template.Template
	kept  podstatus.Kept
	found keptTemplate
}

// New returns a handler that serves the page.
func New(o Options) http.Handler {
	if o.Statuses == nil {
		o.Statuses = podstatus.NewReader
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &server{Options: o, views: map[string]*template.Template{}, kept: podstatus.Kept{Most: o.MostAnswers}}
	for _, name := range []string{"runs", "run", "problem"} {
		// A mistake in an embedded template would be found by every test.
		s.views[name] = template.Must(template.New("frame.html.tmpl").Funcs(functions).ParseFS(templates, "templates/frame.html.tmpl", "templates/"+name+".html.tmpl"))
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /assets/{file}", serveAsset)
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, s.Path(s.Client.Namespace, nil), http.StatusSeeOther)
	})
	mux.HandleFunc("GET /namespaces/{namespace}/{$}", s.asked(s.serveRuns))
	mux.HandleFunc("GET /namespaces/{namespace}/{type}/{name}/{$}", s.asked(s.serveRun))
	mux.HandleFunc("GET /namespaces/{namespace}/{type}/{name}/{file}", s.asked(s.serveFile))
	if s.Logs != nil {
		mux.Handle("GET /assets/log/", http.StripPrefix("/assets/log", logview.Assets()))
		mux.HandleFunc("GET /namespaces/{namespace}/{type}/{name}/logs/", s.serveLog)
	}
	return bounded(mux)
}

// types are the media types of assets. Those that a system has for names may be wrong.
var types = map[string]string{".css": "text/css; charset=utf-8", ".mjs": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}

func serveAsset(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("file")
	content, err := assets.ReadFile(path.Join("assets", name))
	if err != nil {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", types[path.Ext(name)])
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(content))
}

// Path returns the path of the runs of a namespace, or of one of them.
func Path(base, namespace string, t *target.Target) string {
	address := base + "/namespaces/" + url.PathEscape(namespace) + "/"
	if t != nil {
		address += t.Name + "/" + url.PathEscape(t.Of) + "/"
	}
	return address
}

// Path is Path below the base of the server.
func (s *server) Path(namespace string, t *target.Target) string { return Path(s.Base, namespace, t) }

// A question is what a request asks for.
type question struct {
	*http.Request

	client objects.Client // of the namespace of the path
	target target.Target  // zero for all runs
}

// errNoPage is the error of a path that names nothing.
var errNoPage = errors.New("there is no such page")

// question returns what a request asks for.
func (s *server) question(r *http.Request) (q question, err error) {
	q = question{Request: r, client: s.Client}
	q.client.Namespace = r.PathValue("namespace")
	return q, q.parse()
}

// asked makes a handler of a function that answers a question, for some time at most.
func (s *server) asked(answer func(http.ResponseWriter, question) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), patience)
		defer cancel()
		q, err := s.question(r.WithContext(ctx))
		if err == nil {
			err = answer(w, q)
		}
		if err != nil {
			s.serveProblem(w, q, err)
		}
	}
}

// parse reads the namespace and the object of the path.
func (q *question) parse() (err error) {
	if len(validation.IsDNS1123Label(q.client.Namespace)) > 0 {
		q.client.Namespace = ""
		return errNoPage
	}
	typed, name := q.PathValue("type"), q.PathValue("name")
	if typed == "" {
		return nil
	}
	at := slices.IndexFunc(target.All(), func(k target.Kind) bool { return k.Name == typed })
	if at < 0 {
		return errNoPage // one address for one page
	}
	if q.target, err = target.Parse(typed+"/"+name, target.All()); err != nil {
		return errNoPage
	}
	return nil
}

// A frame is what all views have in common.
type frame struct {
	Base, Title string
	Namespace   string
	Target      string // TYPE/NAME, "" for all runs
	// Seconds is after how many seconds the browser asks again, 0 for never.
	Seconds int
	Asked   time.Time
}

func (s *server) frame(q question, title string) frame {
	f := frame{Base: s.Base, Title: title, Namespace: q.client.Namespace, Asked: s.Now().UTC()}
	if q.target.Of != "" {
		f.Target = q.target.String()
	}
	return f
}

// render responds with a view. It is made as a whole first, so that a failure is no half
// page.
func (s *server) render(w http.ResponseWriter, code int, view string, data any) error {
	var body bytes.Buffer
	if err := s.views[view].Execute(&body, data); err != nil {
		return fmt.Errorf("making the page: %w", err)
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write(body.Bytes()) // an error is that of a client that is gone
	return nil
}

// A problem is a page that couldn't be made.
type problem struct {
	frame

	Text string
}

// serveProblem responds with what went wrong.
func (s *server) serveProblem(w http.ResponseWriter, q question, err error) {
	code, title, text := describe(err)
	if err := s.render(w, code, "problem", problem{s.frame(q, title), text}); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// describe returns the status, the title and the text of an error.
func describe(err error) (code int, title, text string) {
	code, title = http.StatusBadGateway, "That couldn't be read"
	switch {
	case errors.Is(err, errNoPage):
		code, title = http.StatusNotFound, "Not found"
	case errors.Is(err, runs.ErrSelector):
		code, title = http.StatusBadRequest, "These aren't labels"
	case apierrors.IsNotFound(err):
		code, title = http.StatusNotFound, "Not found"
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		code, title = http.StatusForbidden, "You may not read that"
	}
	return code, title, printable.Line(cut(err.Error(), longestError))
}

// longestError bounds the text of an error, in bytes. It may quote what a tenant has written.
const longestError = 2000

// cut returns the beginning of a text, of so many bytes at most.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "..."
}
