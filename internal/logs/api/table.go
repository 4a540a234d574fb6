// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/entrypointer/entrypointer/internal/logs/loglist"
	"github.com/entrypointer/entrypointer/internal/printable"
)

// wantsTable reports whether a client prefers rows with columns to objects, as kubectl get
// does.
func wantsTable(r *http.Request) bool {
	for accepted := range strings.SplitSeq(r.Header.Get("Accept"), ",") {
		kind, parameters, err := mime.ParseMediaType(accepted)
		if err != nil || kind != "application/json" {
			continue
		}
		if parameters["as"] == "" {
			return false
		}
		if parameters["as"] == "Table" && parameters["g"] == metav1.GroupName && parameters["v"] == "v1" {
			return true
		}
	}
	return false
}

// columns are those of kubectl get. Those with another priority than 0 need -o wide.
var columns = []metav1.TableColumnDefinition{
	{Name: "Name", Type: "string", Format: "name", Description: "The name of the pods."},
	{Name: "Owner", Type: "string", Description: "The object to which the newest pod belongs."},
	{Name: "Containers", Type: "string", Description: "The names of the containers."},
	{Name: "Runs", Type: "string", Description: "How often the containers have started."},
	{Name: "Complete", Type: "string", Description: "Whether everything has reached the log service, to its end."},
	{Name: "Held", Type: "string", Description: "Whether the logs are kept beyond retention and quota."},
	{Name: "Last", Type: "string", Description: "How long ago the last stream was created."},
	{Name: "Age", Type: "string", Description: "How long ago the first stream was created."},
	{Name: "Pods", Type: "integer", Priority: 1, Description: "How many pods had this name."},
	{Name: "Streams", Type: "integer", Priority: 1, Description: "How many streams there are."},
}

// tableOf returns the rows of Logs. A row has the metadata of its Log, unless include, a
// parameter of Kubernetes' API, asks for no object or the whole one.
func tableOf(meta metav1.ListMeta, logs []loglist.Log, include string, now time.Time) metav1.Table {
	table := metav1.Table{
		TypeMeta: metav1.TypeMeta{Kind: "Table", APIVersion: metav1.SchemeGroupVersion.String()}, ListMeta: meta,
		ColumnDefinitions: columns, Rows: []metav1.TableRow{},
	}
	for at := range logs {
		row := metav1.TableRow{Cells: cells(&logs[at], now)}
		switch metav1.IncludeObjectPolicy(include) {
		case metav1.IncludeNone:
		case metav1.IncludeObject:
			raw, _ := json.Marshal(logs[at]) // of texts, numbers and times, so no error
			row.Object = runtime.RawExtension{Raw: raw}
		default:
			row.Object = runtime.RawExtension{Object: &metav1.PartialObjectMetadata{
				TypeMeta:   metav1.TypeMeta{Kind: "PartialObjectMetadata", APIVersion: metav1.SchemeGroupVersion.String()},
				ObjectMeta: logs[at].ObjectMeta,
			}}
		}
		table.Rows = append(table.Rows, row)
	}
	return table
}

// cells returns the cells of a row, in the order of columns.
func cells(l *loglist.Log, now time.Time) []any {
	owner, runs, complete := l.Status.Owner, strconv.Itoa(l.Status.Runs), "False"
	if owner == "" {
		owner = "<none>"
	}
	if l.Status.Partial {
		runs += "+"
	}
	if l.Status.Complete {
		complete = "True"
	}
	held := "False"
	if l.Status.Held {
		held = "True"
	}
	age := func(t metav1.Time) string { return duration.HumanDuration(now.Sub(t.Time)) }
	return []any{
		l.Name, owner, printable.Line(strings.Join(l.Status.Containers, ",")), runs, complete, held, age(l.Status.LastStreamTime), age(l.Status.FirstStreamTime),
		l.Status.Pods, l.Status.Streams,
	}
}
