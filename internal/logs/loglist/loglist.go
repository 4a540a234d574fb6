// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package loglist has the kinds of the aggregated API: for the log service, which answers
// with them, and for readers.
package loglist

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/internal/logs/endpoint"
)

// The kinds, as discovery has them.
const (
	APIVersion = endpoint.Group + "/" + endpoint.Version
	Kind       = "Log"
	ListKind   = "LogList"
)

// A Discovery is the answer to API discovery, which every user of the cluster may read.
type Discovery struct {
	metav1.APIResourceList `json:",inline"`
	// TraceURL is the template of package tracelink by which the operator says where traces are,
	// "" if that isn't said. Kubernetes' clients leave it aside.
	TraceURL string `json:"traceURL,omitempty"`
}

// A Log says what logs there are of the pods of one name. Its name is that of the pods, its
// UID that of the newest, its time of creation that of the first stream, and its labels those
// of package loglabels.
type Log struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Status            Status `json:"status"`
}

// A Status says what there is of a Log. A stream is created when a container begins to print.
type Status struct {
	// Owner is the object to which the newest pod belongs, as TYPE/NAME, "" if it isn't known.
	Owner string `json:"owner,omitempty"`
	// FirstStreamTime is the time at which the first stream was created, and LastStreamTime
	// that of the last.
	FirstStreamTime metav1.Time `json:"firstStreamTime"`
	LastStreamTime  metav1.Time `json:"lastStreamTime"`
	// Streams is the number of streams.
	Streams int `json:"streams"`
	// Pods is the number of pods that had this name.
	Pods int `json:"pods"`
	// Containers are the names of the containers.
	Containers []string `json:"containers"`
	// Runs is how often the containers have started.
	Runs int `json:"runs"`
	// Bytes is how many bytes the containers have printed, of the streams whose end is known: of
	// all if Complete is set. It is nil if the service is older than that.
	Bytes *int64 `json:"bytes,omitempty"`
	// Complete is whether the end of each stream is known: its container has ended, and
	// everything has reached the log service.
	Complete bool `json:"complete"`
	// Held is whether the logs are kept until they are released, beyond retention and quota.
	Held bool `json:"held,omitempty"`
	// Partial says that there are older streams, which Pods, Containers, Runs, Bytes and
	// Complete don't count.
	Partial bool `json:"partial,omitempty"`
}

// A List is a page of Logs, the one with the newest stream first.
type List struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []Log `json:"items"`
	// Incomplete says that the namespace has more streams than were searched, so Logs may be
	// missing.
	Incomplete bool `json:"incomplete,omitempty"`
}
