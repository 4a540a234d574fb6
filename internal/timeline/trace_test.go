// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package timeline_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// TestATimelineKnowsTheTraceOfItsPods has what admission asks of the supervisor, what the author
// sets, and what the events of the log service tell.
func TestATimelineKnowsTheTraceOfItsPods(t *testing.T) {
	t.Parallel()
	const (
		uid   = "0af76519-16cd-43dd-8448-eb211c80319c"
		ofUID = "0af7651916cd43dd8448eb211c80319c"
		other = "11111111111111111111111111111111"
		after = "-b7ad6b7169203331"
	)
	for name, test := range map[string]struct {
		flags []string
		env   string
		told  []string // events
		want  string
	}{
		"not traced":                     {nil, "", nil, ""},
		"the trace of Tekton's":          {[]string{"-trace=00-" + other + after + "-01"}, "", nil, other},
		"one that isn't recorded":        {[]string{"-trace=00-" + other + after + "-00"}, "", nil, ""},
		"the UID of a Job":               {[]string{"-trace=11111111-1111-1111-1111-111111111111"}, "", nil, other},
		"the pod":                        {[]string{"-trace=env:ENTRYPOINTER_POD_UID"}, "", nil, ofUID},
		"not a trace":                    {[]string{"-trace=x"}, "", nil, ""},
		"the author's own":               {[]string{"-trace=env:ENTRYPOINTER_POD_UID"}, "TRACEPARENT", nil, ""},
		"the author's own, by an option": {[]string{"-env=TRACEPARENT=x", "-trace=env:ENTRYPOINTER_POD_UID"}, "", nil, ""},
		"events":                         {[]string{"-logs=stream"}, "", []string{event(4000, "started", `"traceparent":"00-`+other+after+`-01"`)}, other},
		"events, and the author's own":   {[]string{"-logs=stream", "-trace=env:ENTRYPOINTER_POD_UID"}, "", []string{event(4000, "started")}, ""},
		"events that aren't recorded":    {[]string{"-logs=stream"}, "", []string{event(4000, "started", `"traceparent":"00-`+other+after+`-00"`)}, ""},
		"events with what isn't a trace": {[]string{"-logs=stream"}, "", []string{event(4000, "started", `"traceparent":"javascript:alert(1)"`)}, ""},
		"the first event that has a trace": {[]string{"-logs=stream"}, "", []string{
			event(4000, "waiting", `"file":"x"`), event(4001, "waited", `"traceparent":"00-`+other+after+`-01"`), event(4002, "started", `"traceparent":"00-`+ofUID+after+`-01"`),
		}, other},
	} {
		p := newPod("web", wrapped("main", test.flags...))
		p.UID = uid
		if test.env != "" {
			p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: test.env, Value: "x"}}
		}
		with(&p, runs(4))
		w := &world{pods: []corev1.Pod{p}}
		if test.told != nil {
			w.records = []recorded{{"web", "main", 4000, test.told}}
			w.pods[0].UID = "uid-web"
		}
		told, err := w.asks(t, "pod/web")
		require.NoError(t, err)
		require.Equal(t, test.want, told.Pods[0].TraceID, name)
	}
}
