// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package spans_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/entrypointer/entrypointer/internal/logs/spans"
	"github.com/entrypointer/entrypointer/pkg/traceids"
)

const pipelineRunUID, taskRunUID = "0af76519-16cd-43dd-8448-eb211c80319c", "5ba76519-16cd-43dd-9448-eb211c80319d"

// ran returns a run with metadata and a status, whose strings are in single quotes.
func ran(t *testing.T, metadata, status string) *spans.Run {
	t.Helper()
	document := fmt.Sprintf(`{'metadata':{'namespace':'team-a',%s},'status':{'startTime':'2026-11-28T10:00:00Z','completionTime':'2026-11-28T10:00:09Z',%s}}`, metadata, status)
	r, err := spans.ParseRun([]byte(strings.ReplaceAll(document, "'", `"`)))
	require.NoError(t, err)
	require.True(t, r.Completed())
	return r
}

func succeeded(status, reason string) string {
	return fmt.Sprintf(`'conditions':[{'type':'Other','status':'False','reason':'x'},{'type':'Succeeded','status':'%s','reason':'%s'}]`, status, reason)
}

func TestATaskRunOnItsOwnIsTheRootOfItsTrace(t *testing.T) {
	t.Parallel()
	r := ran(t, `'name':'build','uid':'`+taskRunUID+`','labels':{'tekton.dev/task':'compile'}`, succeeded("True", "Succeeded"))
	trace, _ := traceids.Of(taskRunUID)
	span, of, is := r.TaskRunSpan(trace)
	require.True(t, is)
	require.Empty(t, span.ParentSpanId)
	require.Equal(t, "9448eb211c80319d", fmt.Sprintf("%x", span.SpanId))
	require.Equal(t, "compile", span.Name)
	require.Equal(t, tracepb.Span_SPAN_KIND_INTERNAL, span.Kind)
	require.Equal(t, "2026-11-28 10:00:10", time.Unix(0, int64(span.EndTimeUnixNano)).UTC().Format(time.DateTime), "times are rounded down, and what has ended in the last second lies within")
	require.Equal(t, map[string]string{"cicd.pipeline.task.name": "compile", "cicd.pipeline.task.run.id": "build", "cicd.pipeline.task.run.result": "success"}, attributes(span.Attributes))
	require.Equal(t, map[string]string{"service.name": "compile", "k8s.namespace.name": "team-a"}, attributes(of.Attributes))
}

func TestATaskRunOfAPipelineRunIsBelowIt(t *testing.T) {
	t.Parallel()
	r := ran(t, `'name':'nightly-test','uid':'`+taskRunUID+`','labels':{'tekton.dev/pipelineTask':'test'},'ownerReferences':[{'apiVersion':'tekton.dev/v1','kind':'PipelineRun','name':'nightly','uid':'`+pipelineRunUID+`'}]`, succeeded("True", "Succeeded"))
	trace, _ := traceids.Of(pipelineRunUID)
	span, of, is := r.TaskRunSpan(trace)
	require.True(t, is)
	require.Equal(t, "8448eb211c80319c", fmt.Sprintf("%x", span.ParentSpanId))
	require.Equal(t, map[string]string{"service.name": "test", "k8s.namespace.name": "team-a", "cicd.pipeline.run.id": "nightly"}, attributes(of.Attributes))
	other, _ := traceids.Of(taskRunUID)
	_, _, is = r.TaskRunSpan(other)
	require.False(t, is, "Tekton, or who has created the run, traces it")
}

func TestOnlyTektonsPipelineRunOwnsATaskRun(t *testing.T) {
	t.Parallel()
	r := ran(t, `'ownerReferences':[{'apiVersion':'example.com/v1','kind':'PipelineRun','name':'other','uid':'x'},{'apiVersion':'tekton.dev/v1','kind':'Run','name':'custom','uid':'y'},{'apiVersion':'tekton.dev/v1beta1','kind':'PipelineRun','name':'nightly','uid':'z'}]`, succeeded("True", "Succeeded"))
	name, uid := r.PipelineRun()
	require.Equal(t, []string{"nightly", "z"}, []string{name, uid})
}

func TestLittleIsKeptOfALargeRun(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 100_000)
	others := strings.Repeat(`{'apiVersion':'`+long+`','kind':'`+long+`','name':'`+long+`','type':'`+long+`','container':'`+long+`'},`, 3)
	r := ran(t, `'name':'nightly','uid':'`+taskRunUID+`','labels':{'other':'`+long+`','tekton.dev/pipelineTask':'test','tekton.dev/task':'`+long+`'},
		'ownerReferences':[`+others+`{'apiVersion':'tekton.dev/v1','kind':'PipelineRun','name':'`+long+`','uid':'`+long+`'},`+others+`{}]`,
		`'podName':'`+long+`','conditions':[`+others+`{'type':'Succeeded','status':'True','reason':'`+long+`'}],'steps':[`+strings.Repeat(`{'container':'`+long+`'},`, 9)+`{}],
		'childReferences':[`+others+`{'kind':'TaskRun','name':'first'},{'kind':'TaskRun','name':'`+long+`'}]`)
	kept, err := json.Marshal(r)
	require.NoError(t, err)
	require.Less(t, len(kept), 5000)
	require.True(t, r.HasFirst("first"))
	name, _ := r.PipelineRun()
	require.Len(t, name, 512, "too long for a name")
}

func TestTheResultOfARunIsOneThatOpenTelemetryKnows(t *testing.T) {
	t.Parallel()
	trace, _ := traceids.Of(pipelineRunUID)
	for condition, want := range map[[2]string]string{
		{"True", "Succeeded"}: "success", {"True", "Completed"}: "success",
		{"False", "Failed"}: "failure", {"False", "StepFailed"}: "failure", {"False", "StepOOM"}: "failure", {"False", "PipelineRunTimeout"}: "timeout", {"False", "Cancelled"}: "cancellation",
		{"False", "CouldntGetTask"}: "error", {"Unknown", "Running"}: "error",
	} {
		r := ran(t, `'name':'nightly','uid':'`+pipelineRunUID+`','labels':{'tekton.dev/pipeline':'ci'}`, succeeded(condition[0], condition[1]))
		span, _, is := r.PipelineRunSpan(trace)
		require.True(t, is)
		found := attributes(span.Attributes)
		require.Equal(t, want, found["cicd.pipeline.result"], condition)
		if want == "success" {
			require.Nil(t, span.Status)
			require.NotContains(t, found, "error.type")
		} else {
			require.Equal(t, condition[1], span.Status.Message)
			require.Equal(t, condition[1], found["error.type"])
		}
		require.Equal(t, "RUN ci", span.Name)
	}
}

func TestAPipelineWithoutANameOfItsOwnIsNotInTheNameOfTheSpan(t *testing.T) {
	t.Parallel()
	trace, _ := traceids.Of(pipelineRunUID)
	span, _, is := ran(t, `'name':'nightly','uid':'`+pipelineRunUID+`','labels':{'tekton.dev/pipeline':'nightly'}`, succeeded("True", "Succeeded")).PipelineRunSpan(trace)
	require.True(t, is)
	require.Equal(t, "RUN", span.Name, "names of spans are few")
}

func FuzzRun(f *testing.F) {
	f.Add([]byte(`{"status":{"startTime":"9999-12-31T23:59:59Z","completionTime":"0001-01-02T00:00:00Z"}}`))
	f.Add([]byte(`null`))
	trace, _ := traceids.Of(pipelineRunUID)
	f.Fuzz(func(t *testing.T, document []byte) {
		r, err := spans.ParseRun(document)
		if err != nil {
			return
		}
		r.Metadata.UID = pipelineRunUID
		span, _, is := r.PipelineRunSpan(trace)
		require.True(t, is)
		require.LessOrEqual(t, span.StartTimeUnixNano, span.EndTimeUnixNano)
	})
}
