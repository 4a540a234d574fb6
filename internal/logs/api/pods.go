// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/entrypointer/entrypointer/internal/logs/loglist"
	"github.com/entrypointer/entrypointer/internal/logs/streams"
	"github.com/entrypointer/entrypointer/pkg/loglabels"
)

// clockTolerance is by how much the clock of the storage may differ from the API server's.
const clockTolerance = time.Hour

// incompleteWarning is what kubectl prints about a list that is incomplete.
const incompleteWarning = `299 - "the namespace has more streams of logs than are searched: pods may be missing from this list; select them by a label or a name"`

// parsePodsQuery reads the parameters of a list as Kubernetes has them, and since and until.
func parsePodsQuery(r *http.Request) (q streams.PodsQuery, err error) {
	if q, err = parsePods(r); err != nil {
		return q, err
	}
	return q, parsePage(r.URL.Query(), &q)
}

// parsePods reads which pods are asked for.
func parsePods(r *http.Request) (q streams.PodsQuery, err error) {
	values := r.URL.Query()
	q = streams.PodsQuery{Namespace: namespaceOf(r), Pod: values.Get("pod"), Limit: streams.MaxPodsPage}
	if err := streams.CheckNamespace(q.Namespace); err != nil {
		return q, err
	}
	if q.Pod != "" {
		if err := streams.CheckPod(q.Namespace, q.Pod); err != nil {
			return q, err
		}
	}
	if text := values.Get("labelSelector"); text != "" {
		if q.Selector, err = labels.Parse(text); err != nil {
			return q, badParameter("labelSelector", text, "use labels such as tekton.dev/taskRun=build: "+err.Error())
		}
		if err := streams.CheckLabel(loglabels.Required(q.Selector)); err != nil {
			return q, err
		}
	}
	if q.Since, err = parseTime(values, "since"); err != nil {
		return q, err
	}
	q.Until, err = parseTime(values, "until")
	return q, err
}

// parsePage reads which of the pods are to be listed.
func parsePage(values url.Values, q *streams.PodsQuery) (err error) {
	if text := values.Get("limit"); text != "" {
		limit, err := strconv.Atoi(text)
		if err != nil || limit < 0 {
			return badParameter("limit", text, "use a number of pods")
		}
		if limit > 0 { // 0 stands for no limit
			q.Limit = limit
		}
	}
	if text := values.Get("continue"); text != "" {
		if q.After, err = parsePosition(text); err != nil {
			return badParameter("continue", text, "use that of a former page: "+err.Error())
		}
	}
	if text := values.Get("fieldSelector"); text != "" {
		return badParameter("fieldSelector", text, "use labelSelector, or the name of a pod")
	}
	if watch, err := strconv.ParseBool(values.Get("watch")); err == nil && watch {
		return newProblem(http.StatusMethodNotAllowed, "logs can't be watched: list them again")
	}
	return nil
}

// parseTime returns the time of a parameter, zero if it isn't set.
func parseTime(values url.Values, name string) (at time.Time, err error) {
	text := values.Get(name)
	if text == "" {
		return at, nil
	}
	if at, err = time.Parse(time.RFC3339, text); err != nil {
		return at, badParameter(name, text, "use a time such as 2026-11-26T03:00:00Z")
	}
	return at, nil
}

func badParameter(name, value, advice string) error {
	return newProblem(http.StatusBadRequest, fmt.Sprintf("parameter %s is %.100q: %s", name, value, advice))
}

// formatPosition returns a position as a parameter continue, which clients don't read.
func formatPosition(p streams.PodsPosition) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d/%s", p.Last.UnixNano(), p.Name))
}

func parsePosition(text string) (p streams.PodsPosition, err error) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return p, err
	}
	at, name, _ := strings.Cut(string(raw), "/")
	nanoseconds, err := strconv.ParseInt(at, 10, 64)
	return streams.PodsPosition{Last: time.Unix(0, nanoseconds), Name: name}, err
}

// listPods answers GET /pods, and a list of the aggregated API.
func (s readAPI) listPods(w http.ResponseWriter, r *http.Request) error {
	user, err := s.user(r)
	if err != nil {
		return err
	}
	q, err := parsePodsQuery(r)
	if err != nil {
		return err
	}
	list, err := s.findPods(r, user, q)
	if err != nil {
		return err
	}
	if list.Incomplete {
		w.Header().Set("Warning", incompleteWarning)
	}
	if wantsTable(r) {
		writeJSON(w, http.StatusOK, tableOf(list.ListMeta, list.Items, r.URL.Query().Get("includeObject"), time.Now()))
	} else {
		writeJSON(w, http.StatusOK, list)
	}
	return nil
}

// getPod answers the request for one object of the aggregated API, by the name of a pod.
func (s readAPI) getPod(w http.ResponseWriter, r *http.Request) error {
	user, err := s.user(r)
	if err != nil {
		return err
	}
	q := streams.PodsQuery{Namespace: namespaceOf(r), Pod: r.PathValue("id"), Limit: 1}
	if err := streams.CheckPod(q.Namespace, q.Pod); err != nil {
		return err
	}
	list, err := s.findPods(r, user, q)
	switch {
	case err != nil:
		return err
	case len(list.Items) == 0:
		return newProblem(http.StatusNotFound, fmt.Sprintf("there are no logs of a pod %q in namespace %q: list those that there are", q.Pod, q.Namespace))
	case wantsTable(r):
		writeJSON(w, http.StatusOK, tableOf(list.ListMeta, list.Items, r.URL.Query().Get("includeObject"), time.Now()))
	default:
		writeJSON(w, http.StatusOK, list.Items[0])
	}
	return nil
}

// findPods returns the pods of a query that a user may read. To find more than the pod of a
// name, the user must be allowed to read all pods of the namespace.
func (s readAPI) findPods(r *http.Request, user User, q streams.PodsQuery) (list loglist.List, err error) {
	list = loglist.List{TypeMeta: metav1.TypeMeta{Kind: loglist.ListKind, APIVersion: loglist.APIVersion}, Items: []loglist.Log{}}
	if err := s.authenticator.MayRead(r.Context(), user, q.Namespace, q.Pod); err != nil {
		return list, err
	}
	leave, err := s.enter(q.Namespace, user)
	if err != nil {
		return list, err
	}
	defer leave()
	keep, err := s.keepReadable(r, user, &q)
	if err != nil {
		return list, err
	}
	store, release := s.streams.WithMemoryHold(q.Namespace)
	defer release()
	page, err := store.ListPods(r.Context(), q, keep)
	if err != nil {
		return list, err
	}
	for _, p := range page.Pods {
		if len(p.Streams) > 0 {
			list.Items = append(list.Items, logOf(q.Namespace, p))
		}
	}
	holds, err := store.Holds(r.Context(), q.Namespace)
	if err != nil {
		return list, err
	}
	noteHolds(holds, page.Pods, list.Items)
	if page.Remaining > 0 {
		remaining := int64(page.Remaining)
		list.RemainingItemCount, list.Continue = &remaining, formatPosition(page.Pods[len(page.Pods)-1].PodsPosition)
	}
	list.Incomplete = page.Incomplete
	return list, nil
}

// keepReadable returns the condition for the streams of a list that a user may read, as
// withoutFormer does. A query without it could have pages of nothing else.
func (s readAPI) keepReadable(r *http.Request, user User, q *streams.PodsQuery) (keep func(streams.Listed) bool, err error) {
	now, err := s.authenticator.Namespace(r.Context(), q.Namespace)
	if err != nil {
		return nil, err
	}
	err = s.mayReadFormer(r.Context(), user)
	switch {
	case err == nil:
		return func(streams.Listed) bool { return true }, nil
	case errors.Is(err, errFormer):
		q.NotBefore = now.Created.Add(-clockTolerance)
		return func(l streams.Listed) bool { return now.has(l.Source, l.Created) }, nil
	default:
		return nil, err
	}
}

// logOf returns what there is of a pod as an object.
func logOf(namespace string, p streams.ListedPod) loglist.Log {
	found := p.Summary()
	return loglist.Log{
		TypeMeta: metav1.TypeMeta{Kind: loglist.Kind, APIVersion: loglist.APIVersion},
		ObjectMeta: metav1.ObjectMeta{
			Name: p.Name, Namespace: namespace, UID: types.UID(found.UIDs[0]), CreationTimestamp: metav1.NewTime(p.First), Labels: found.Labels,
		},
		Status: loglist.Status{
			Owner: loglabels.OwnerOf(found.Labels), FirstStreamTime: metav1.NewTime(p.First), LastStreamTime: metav1.NewTime(p.Last),
			Streams: p.Count, Pods: len(found.UIDs), Containers: found.Containers, Runs: found.Runs, Bytes: &found.Bytes, Complete: found.Ended, Partial: p.IsPartial(),
		},
	}
}
