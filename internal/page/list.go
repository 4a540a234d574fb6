// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/entrypointer/entrypointer/internal/runs"
)

const (
	// onPage is how many runs a page has.
	onPage = 200
	// listSeconds is after how many seconds the list is asked for again.
	listSeconds = 10
	// longestFilter bounds a filter, in bytes.
	longestFilter = 500
)

// A listView is the view of the runs of a namespace.
type listView struct {
	frame
	filter

	Kinds []string
	Runs  []listed
	// First and Last count the runs on this page, from 1 on, of Found.
	First, Last, Found int
	Previous, Next     string // addresses, "" without such a page
	Hidden             int    // parts that aren't shown
	Sized              bool   // whether it is known of a run how much it has printed
	Absent             []string
	Notes              []string
}

// A filter is what the form asks for.
type filter struct {
	Text, Labels, Kind string
	Parts              bool
	page               int
}

// A listed is a run in the list.
type listed struct {
	runs.Run

	Href string
	Took string
	Ago  string
	// Size is how much it has printed, and Bytes the same as an exact number; "" for unknown.
	Size, Bytes string
}

func (s *server) serveRuns(w http.ResponseWriter, q question) error {
	f := filterOf(q.URL.Query())
	selector, err := runs.ParseSelector(f.Labels)
	if err != nil {
		return err
	}
	reader := &runs.Reader{Client: q.client}
	list, err := reader.List(q.Context(), f.Kind, selector)
	if err != nil {
		return err
	}
	view := &listView{frame: s.frame(q, "Runs in "+q.client.Namespace), filter: f, Absent: list.Absent, Notes: list.Notes}
	view.Seconds = listSeconds
	for _, k := range runs.Kinds() {
		view.Kinds = append(view.Kinds, k.Name)
	}
	found := slices.DeleteFunc(list.Runs, func(r runs.Run) bool {
		isHidden := r.Part && !f.showsParts()
		if isHidden {
			view.Hidden++
		}
		return isHidden || !r.Matches(f.Text)
	})
	view.turnTo(found)
	for _, r := range found[max(0, view.First-1):view.Last] {
		one := listed{Run: r, Href: s.Path(q.client.Namespace, &r.Target), Ago: lasted(view.Asked.Sub(r.Began))}
		switch {
		case r.State == runs.Gone || r.State == runs.Unknown: // only when containers began is known
		case !r.Ended.IsZero():
			one.Took = lasted(r.Ended.Sub(r.Began))
		case r.State == runs.Running:
			one.Took = one.Ago + " so far"
		}
		one.Size, one.Bytes = size(r.Printed)
		view.Sized = view.Sized || one.Size != ""
		view.Runs = append(view.Runs, one)
	}
	return s.render(w, http.StatusOK, "runs", view)
}

// filterOf reads the fields of the form.
func filterOf(values url.Values) filter {
	field := func(name string) string { return cut(strings.TrimSpace(values.Get(name)), longestFilter) }
	f := filter{Text: field("q"), Labels: field("labels"), Kind: field("type"), Parts: values.Has("parts"), page: 1}
	if page, err := strconv.Atoi(values.Get("page")); err == nil {
		f.page = page
	}
	isKind := func(name string) bool { return name == f.Kind }
	names := []string{}
	for _, k := range runs.Kinds() {
		names = append(names, k.Name)
	}
	if !slices.ContainsFunc(names, isKind) {
		f.Kind = ""
	}
	return f
}

// showsParts reports whether what belongs to other runs is listed.
func (f *filter) showsParts() bool { return f.Parts || f.Kind != "" }

// address returns the address of a page of the list, relative to the list.
func (f *filter) address(page int) string {
	values := url.Values{"page": {strconv.Itoa(page)}}
	for name, value := range map[string]string{"q": f.Text, "labels": f.Labels, "type": f.Kind} {
		if value != "" {
			values.Set(name, value)
		}
	}
	if f.Parts {
		values.Set("parts", "on")
	}
	return "?" + values.Encode()
}

// turnTo says which of the runs are on the page.
func (v *listView) turnTo(found []runs.Run) {
	v.Found = len(found)
	last := max(1, (v.Found+onPage-1)/onPage)
	page := min(max(1, v.page), last)
	v.First, v.Last = min(v.Found, (page-1)*onPage+1), min(v.Found, page*onPage)
	if page > 1 {
		v.Previous = v.address(page - 1)
	}
	if page < last {
		v.Next = v.address(page + 1)
	}
}
