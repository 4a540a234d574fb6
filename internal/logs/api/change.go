// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/entrypointer/entrypointer/internal/logs/endpoint"
	"github.com/entrypointer/entrypointer/internal/logs/loglist"
	"github.com/entrypointer/entrypointer/internal/logs/streams"
)

// Logs are changed through the API server alone, which authorizes each request by its verb
// and writes it to its audit log.

// ErrMayNotChange refuses a user who may read logs, but not delete or hold them.
var ErrMayNotChange = errors.New("this needs the right to delete logs of the API group logs.entrypointer.dev, or to create or delete logs/hold, such as by the ClusterRole entrypointer-log-deletion")

// Permissions decide who may change logs.
type Permissions interface {
	// MayChange returns nil if a user may do something with the logs of a pod, or
	// ErrMayNotChange. The verb and the subresource, "" for none, are those of the resource
	// logs in the API group of the log service. An empty namespace stands for all namespaces.
	MayChange(ctx context.Context, user User, verb, subresource, namespace, pod string) error
}

// noPermissions refuse everybody.
type noPermissions struct{}

func (noPermissions) MayChange(context.Context, User, string, string, string, string) error {
	return ErrMayNotChange
}

// Permit sets who may change logs: nobody before. It must be called before the first request.
func (s *Server) Permit(permissions Permissions) { s.permissions = permissions }

const (
	verbCreate, verbDelete = "create", "delete"
	subresourceHold        = "hold"
	// anyPod stands in a path for the pods of a label. No pod has this name.
	anyPod = "-"
	// eraseTime bounds the work of one request. The API server waits for a minute.
	eraseTime = 40 * time.Second
	// maxDeletion bounds the body of a deletion, in bytes: of MaxRedactions ranges.
	maxDeletion = 64 << 10
)

// eraseRequest says which streams of a pod are to be erased, or which bytes of a stream.
type eraseRequest struct {
	namespace, pod, container string
	uid                       string // of the pod, "" for all with the name
	ranges                    []string
	dryRun                    bool
}

// deleteOptions are the body of a deletion.
type deleteOptions struct {
	metav1.DeleteOptions

	// Ranges are bytes of the stream that the path names, as formatRanges formats them.
	Ranges []string `json:"ranges"`
}

func (s *Server) parseErase(w http.ResponseWriter, r *http.Request) (q eraseRequest, err error) {
	values := r.URL.Query()
	q = eraseRequest{namespace: r.PathValue("namespace"), pod: r.PathValue("id"), container: values.Get("container")}
	if err := streams.CheckPod(q.namespace, q.pod); err != nil {
		return q, err
	}
	options := deleteOptions{}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxDeletion))
	if err != nil {
		return q, err
	}
	if len(body) > 0 {
		if kind := r.Header.Get("Content-Type"); kind != "" && !strings.HasPrefix(kind, "application/json") {
			return q, newProblem(http.StatusUnsupportedMediaType, fmt.Sprintf("the body is %.100q: send DeleteOptions as application/json", kind))
		}
		if err := json.Unmarshal(body, &options); err != nil {
			return q, newProblem(http.StatusBadRequest, fmt.Sprintf("reading the body as DeleteOptions: %v", err))
		}
	}
	q.ranges = options.Ranges
	// As the API server does, an option of either place counts.
	for _, value := range slices.Concat(options.DryRun, values["dryRun"]) {
		if value != metav1.DryRunAll {
			return q, badParameter("dryRun", value, "use "+metav1.DryRunAll)
		}
		q.dryRun = true
	}
	if p := options.Preconditions; p != nil {
		if p.ResourceVersion != nil {
			return q, newProblem(http.StatusConflict, "logs have no resource version: leave it out of the preconditions")
		}
		if p.UID != nil {
			q.uid = string(*p.UID)
		}
	}
	return q, nil
}

// eraseEither deletes bytes of a stream, or the Log of a pod. A name that is an ID stands for
// the stream.
func (s readAPI) eraseEither(w http.ResponseWriter, r *http.Request) error {
	if streams.IsID(r.PathValue("id")) {
		return s.redact(w, r)
	}
	return s.erase(w, r)
}

// erase answers DELETE of the Log of a pod: it deletes all logs of the pods with a name, or
// those of a container or of the pod with a UID.
func (s readAPI) erase(w http.ResponseWriter, r *http.Request) error {
	user, err := s.user(r)
	if err != nil {
		return err
	}
	q, err := s.parseErase(w, r)
	if err != nil {
		return err
	}
	if len(q.ranges) > 0 { // or everything would be deleted
		return newProblem(http.StatusBadRequest, "ranges are those of a stream: use its ID in the path instead of a pod's name")
	}
	if err := s.permissions.MayChange(r.Context(), user, verbDelete, "", q.namespace, q.pod); err != nil {
		return err
	}
	leave, err := s.enter(q.namespace, user)
	if err != nil {
		return err
	}
	defer leave()
	chosen, err := s.erasable(r.Context(), user, q)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), eraseTime)
	defer cancel()
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(eraseTime + s.timing.reader))
	done, err := s.streams.ErasePod(ctx, q.namespace, q.pod, chosen, q.dryRun)
	s.audit(user, outcome("deleted", done.Streams == 0, q.dryRun, err), q.namespace, q.pod, "container", q.container, "podUID", q.uid, "dryRun", q.dryRun,
		"streams", done.Streams, "bytes", done.Bytes, "left", done.Left, "error", errorText(err))
	switch {
	case done.Left > 0:
		if !errors.Is(err, context.DeadlineExceeded) {
			s.logger.Error("Logs couldn't be deleted", "namespace", q.namespace, "pod", q.pod, "error", err)
		}
		return &problem{status: http.StatusServiceUnavailable, retry: true, text: fmt.Sprintf("%d streams are deleted, and %d are left: repeat the request", done.Streams, done.Left)}
	case err != nil:
		return err
	case done.Streams == 0:
		return newProblem(http.StatusNotFound, fmt.Sprintf("there are no logs of a pod %q in namespace %q that you may delete: list those that there are", q.pod, q.namespace))
	}
	writeJSON(w, http.StatusOK, metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess,
		Message: fmt.Sprintf("deleted %d streams with %d bytes", done.Streams, done.Bytes),
		// kubectl delete waits until the object has another UID: a pod that goes on is no failure.
		Details: &metav1.StatusDetails{Name: q.pod, Group: endpoint.Group, Kind: "logs", UID: types.UID("deleted")},
	})
	return nil
}

// outcome says what has become of a change, which may have changed nothing.
func outcome(did string, nothing, dryRun bool, err error) string {
	switch {
	case err != nil && nothing:
		return "Logs couldn't be " + did
	case err != nil:
		return "Logs were " + did + " in part"
	case nothing:
		return "No logs were " + did
	case dryRun:
		return "Logs would be " + did
	default:
		return "Logs were " + did
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// erasable returns the condition for the streams of a request that a user may delete: as for
// reading, rights in a namespace don't count for a former one of the same name.
func (s readAPI) erasable(ctx context.Context, user User, q eraseRequest) (func(streams.Listed) (bool, error), error) {
	now, err := s.authenticator.Namespace(ctx, q.namespace)
	if err != nil {
		return nil, err
	}
	errEverywhere := s.permissions.MayChange(ctx, user, verbDelete, "", "", "")
	if errEverywhere != nil && !errors.Is(errEverywhere, ErrMayNotChange) {
		return nil, errEverywhere
	}
	return func(l streams.Listed) (bool, error) {
		return (errEverywhere == nil || now.has(l.Source, l.Created)) && l.Namespace == q.namespace && l.Pod == q.pod &&
			(q.container == "" || l.Container == q.container) && (q.uid == "" || l.PodUID == q.uid), nil
	}, nil
}

// holdScope returns whose logs a request holds or releases.
func holdScope(r *http.Request) (namespace string, scope streams.HoldScope, err error) {
	namespace, scope.Pod = r.PathValue("namespace"), r.PathValue("id")
	label := r.URL.Query().Get("label")
	if scope.Pod != anyPod {
		if label != "" {
			return "", scope, badParameter("label", label, "use it with the name - instead of a pod")
		}
		return namespace, scope, streams.CheckPod(namespace, scope.Pod)
	}
	scope.Pod = ""
	scope.Key, scope.Value, _ = strings.Cut(label, "=")
	if err := streams.CheckNamespace(namespace); err != nil {
		return "", scope, err
	}
	return namespace, scope, streams.CheckLabel(scope.Key, scope.Value)
}

// hold answers POST and DELETE of logs/{pod}/hold.
func (s readAPI) hold(w http.ResponseWriter, r *http.Request) error {
	user, err := s.user(r)
	if err != nil {
		return err
	}
	namespace, scope, err := holdScope(r)
	if err != nil {
		return err
	}
	verb := verbCreate
	if r.Method == http.MethodDelete {
		verb = verbDelete
	}
	if err := s.permissions.MayChange(r.Context(), user, verb, subresourceHold, namespace, r.PathValue("id")); err != nil {
		return err
	}
	if r.URL.Query().Has("dryRun") {
		return newProblem(http.StatusBadRequest, "holds have no dry run: leave dryRun out")
	}
	leave, err := s.enter(namespace, user)
	if err != nil {
		return err
	}
	defer leave()
	text, did := "held", true
	if verb == verbCreate {
		err = s.countingStore(namespace, "").Hold(r.Context(), namespace, scope, user.Name)
	} else {
		text = "released"
		did, err = s.streams.Release(r.Context(), namespace, scope)
	}
	s.audit(user, outcome(text, !did || err != nil, false, err), namespace, scope.Pod, "label", scope.Key+"="+scope.Value, "error", errorText(err))
	if err != nil {
		return err
	}
	if !did {
		return newProblem(http.StatusNotFound, "these logs aren't held")
	}
	writeJSON(w, http.StatusOK, metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess, Message: text,
		Details: &metav1.StatusDetails{Name: r.PathValue("id"), Group: endpoint.Group, Kind: "logs"},
	})
	return nil
}

// changeProblem returns the problem of a change that is refused, nil for another error.
func changeProblem(err error) *problem {
	for refusal, status := range map[error]int{
		streams.ErrHeld: http.StatusConflict, streams.ErrNotStored: http.StatusConflict, streams.ErrManyRedactions: http.StatusConflict, streams.ErrManyHolds: http.StatusForbidden, ErrMayNotChange: http.StatusForbidden,
	} {
		if errors.Is(err, refusal) {
			return &problem{status: status, text: refusal.Error()}
		}
	}
	return nil
}

// audit logs what a user has changed. Whoever reads the log of the service learns of it also
// where the API server has no audit log.
func (s *Server) audit(user User, what, namespace, pod string, details ...any) {
	s.logger.Info(what, append([]any{"audit", true, "user", user.Name, "userUID", user.UID, "groups", user.Groups, "namespace", namespace, "pod", pod}, details...)...)
}

// noteHolds sets which pods of a list are held.
func noteHolds(holds streams.Holds, pods []streams.ListedPod, items []loglist.Log) {
	held := map[string]bool{}
	for _, p := range pods {
		held[p.Name] = slices.ContainsFunc(p.Streams, func(l streams.ListedStream) bool { return holds.Has(l.Source) })
	}
	for at := range items {
		items[at].Status.Held = held[items[at].Name]
	}
}
