// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package spans_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/entrypointer/entrypointer/internal/logs/spans"
	"github.com/entrypointer/entrypointer/internal/logs/streams"
)

const (
	parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	ids    = `"traceparent":"` + parent + `","parentSpanId":"00f067aa0ba902b7"`
)

var began = time.Date(2026, 11, 28, 10, 0, 0, 0, time.UTC)

// step is the source of the events of a step.
var step = streams.Source{Namespace: "team-a", Pod: "build-pod", Container: "step-test", Name: "events", Labels: map[string]string{"tekton.dev/taskRun": "build"}}

// tell returns a start with events, which are each "MILLISECONDS EVENT FIELDS".
func tell(t *testing.T, source streams.Source, events ...string) *spans.Start {
	t.Helper()
	start, at := spans.New(source, began.Add(time.Minute)), int64(0)
	for _, e := range events {
		var after int64
		var kind, fields string
		n, err := fmt.Sscanf(e, "%d %s", &after, &kind)
		require.Equal(t, 2, n, "%v", err)
		if _, rest, is := strings.Cut(e, kind+" "); is {
			fields = "," + rest
		}
		line := fmt.Sprintf(`{"time":%q,"event":%q%s}`, began.Add(time.Duration(after)*time.Millisecond).Format(time.RFC3339Nano), kind, fields)
		require.True(t, json.Valid([]byte(line)), line)
		at += int64(len(line)) + 1
		start.Add([]byte(line+"\n"), at)
	}
	return start
}

// described returns spans as "NAME FROM-TO in PARENT: STATUS", in milliseconds, with the names
// of spans that are known.
func described(list []spans.Made) (texts []string) {
	names := map[string]string{"00f067aa0ba902b7": "TaskRun"}
	for _, m := range list {
		names[fmt.Sprintf("%x", m.SpanId)] = m.Name
	}
	since := func(at uint64) int64 { return (int64(at) - began.UnixNano()) / 1e6 }
	for _, m := range list {
		text := fmt.Sprintf("%s %d-%d in %s", m.Name, since(m.StartTimeUnixNano), since(m.EndTimeUnixNano), names[fmt.Sprintf("%x", m.ParentSpanId)])
		if m.Status.GetCode() == tracepb.Status_STATUS_CODE_ERROR {
			text += ": " + m.Status.Message
		}
		texts = append(texts, text)
	}
	return texts
}

// attributes returns attributes by key, numbers and lists as text.
func attributes(list []*commonpb.KeyValue) map[string]string {
	found := map[string]string{}
	for _, a := range list {
		switch v := a.Value.Value.(type) {
		case *commonpb.AnyValue_StringValue:
			found[a.Key] = v.StringValue
		case *commonpb.AnyValue_IntValue:
			found[a.Key] = fmt.Sprint(v.IntValue)
		case *commonpb.AnyValue_ArrayValue:
			for _, one := range v.ArrayValue.Values {
				found[a.Key] += one.GetStringValue() + ";"
			}
		}
	}
	return found
}

func TestAStepHasWaitedHookedAndRun(t *testing.T) {
	t.Parallel()
	start := tell(t, step, "0 waiting "+ids+`,"dependency":"db:ready"`, `1 waiting "file":"/tekton/run/0/out"`, `400 waited "outcome":"met","milliseconds":400`,
		`401 hookStarted "hook":1,"pid":7,"argv0":"/bin/migrate"`, `500 hookEnded "hook":1,"exitCode":0,"milliseconds":99`,
		"501 started "+ids+`,"pid":14,"argv0":"/tekton/bin/entrypoint"`, `600 signal "signal":"SIGUSR1","pid":14`,
		`900 exited "exitCode":3,"milliseconds":399`, `902 finished "reason":"Exited","exitCode":3`)
	made := start.Made(0)
	require.Equal(t, []string{"wait 0-400 in test", "hook 401-500 in test", "run 501-900 in test: exit code 3", "test 0-902 in TaskRun: Exited"}, described(made))
	for _, m := range made {
		require.Equal(t, "0af7651916cd43dd8448eb211c80319c", fmt.Sprintf("%x", m.TraceId))
	}
	require.Equal(t, "b7ad6b7169203331", fmt.Sprintf("%x", made[3].SpanId), "the command's own spans are below it")
	require.Equal(t, map[string]string{"entrypointer.wait.for": "db:ready;/tekton/run/0/out;", "entrypointer.wait.outcome": "met"}, attributes(made[0].Attributes))
	require.Equal(t, map[string]string{"entrypointer.hook": "1", "process.command": "/bin/migrate", "process.pid": "7", "process.exit.code": "0"}, attributes(made[1].Attributes))
	require.Equal(t, "signal", made[2].Events[0].Name)
	require.Equal(t, map[string]string{
		"entrypointer.reason": "Exited", "process.exit.code": "3", "error.type": "Exited",
		"cicd.pipeline.task.name": "test", "cicd.pipeline.task.run.id": "build/step-test", "cicd.pipeline.task.run.result": "failure",
	}, attributes(made[3].Attributes))
}

func TestSpansAreCompleteOneAfterTheOther(t *testing.T) {
	t.Parallel()
	events := []string{"0 waiting " + ids, `400 waited "outcome":"met"`, `401 started "pid":14`, `900 exited "exitCode":0`, `902 finished "reason":"Exited","exitCode":0`}
	var last int64
	var all []spans.Made
	for n := range events {
		made := tell(t, step, events[:n+1]...).Made(last)
		all = append(all, made...)
		for _, m := range made {
			last = max(last, m.To)
		}
	}
	require.Equal(t, []string{"wait 0-400 in test", "run 401-900 in test", "test 0-902 in TaskRun"}, described(all))
	at := tell(t, step, events...).Made(0)
	for i := range at {
		require.True(t, proto.Equal(at[i].Span, all[i].Span), "they are the same in whatever order they are read")
	}
}

func TestHowAStartEndsIsItsResult(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		events []string
		result string
		want   string
	}{
		"success":             {[]string{`1 started "pid":1`, `2 exited "exitCode":0`, `3 finished "reason":"Exited","exitCode":0`}, "success", "test 0-3 in TaskRun"},
		"timeout":             {[]string{`1 started "pid":1`, `2 exited "exitCode":143`, `3 finished "reason":"Timeout","exitCode":124`}, "timeout", "test 0-3 in TaskRun: Timeout"},
		"stopped":             {[]string{`3 finished "reason":"Stopped","exitCode":143`}, "cancellation", "test 0-3 in TaskRun: Stopped"},
		"failed dependency":   {[]string{`1 waiting "dependency":"db:ready"`, `2 waited "outcome":"failed"`, `3 finished "reason":"DependencyFailure","exitCode":1`}, "skip", "test 0-3 in TaskRun: DependencyFailure"},
		"failed hook":         {[]string{`1 hookStarted "hook":1`, `2 hookEnded "exitCode":2`, `3 finished "reason":"HookFailure","exitCode":2`}, "failure", "test 0-3 in TaskRun: HookFailure"},
		"no such command":     {[]string{`3 finished "reason":"StartFailure","exitCode":127`}, "error", "test 0-3 in TaskRun: StartFailure"},
		"not needed any more": {[]string{`3 finished "reason":"Unneeded","exitCode":0`}, "skip", "test 0-3 in TaskRun"},
	} {
		made := tell(t, step, append([]string{"0 paused " + ids}, c.events...)...).Made(0)
		own := made[len(made)-1]
		require.Equal(t, c.want, described(made)[len(made)-1], name)
		require.Equal(t, c.result, attributes(own.Attributes)["cicd.pipeline.task.run.result"], name)
	}
}

func TestAStartThatIsCutOffEndsAtItsLastKnownTime(t *testing.T) {
	t.Parallel()
	start := tell(t, step, "0 started "+ids, `700 signal "signal":"SIGTERM"`)
	start.CutOff(time.Time{}, "", nil)
	require.Equal(t, []string{"run 0-700 in test: CutOff", "test 0-700 in TaskRun: CutOff"}, described(start.Made(0)))
	require.Equal(t, "error", attributes(start.Made(0)[1].Attributes)["cicd.pipeline.task.run.result"])
	start = tell(t, step, "0 started "+ids)
	code := int64(137)
	start.CutOff(began.Add(9*time.Second), "OOMKilled", &code)
	require.Equal(t, []string{"run 0-9000 in test", "test 0-9000 in TaskRun: OOMKilled"}, described(start.Made(0)), "the kubelet has known it")
}

func TestAContainerWithoutATraceOrASampleHasNoSpans(t *testing.T) {
	t.Parallel()
	for _, fields := range []string{
		`"pid":1`, `"traceparent":""`, `"traceparent":"00-00000000000000000000000000000000-b7ad6b7169203331-01"`,
		`"traceparent":"` + strings.TrimSuffix(parent, "01") + `00"`,
	} {
		require.Empty(t, tell(t, step, "0 started "+fields, `1 finished "exitCode":0`).Made(0), fields)
	}
}

func TestAContainerOfNoTaskIsNamedByItself(t *testing.T) {
	t.Parallel()
	made := tell(t, streams.Source{Container: "step-web", Name: "events"}, `0 started "traceparent":"`+parent+`"`, `1 finished "reason":"Exited","exitCode":0`).Made(0)
	require.Equal(t, []string{"run 0-1 in step-web", "step-web 0-1 in "}, described(made))
	require.NotContains(t, attributes(made[1].Attributes), "cicd.pipeline.task.name")
}

// A container can write what it wants. Its spans stay within their bounds, and in order.
func TestHostileEventsMakeNoEndlessTrace(t *testing.T) {
	t.Parallel()
	kinds := []string{"waiting", "waited", "hookStarted", "hookEnded", "paused", "continued", "started", "exited", "signal", "oomKilled", "nothing"}
	texts := []string{`""`, `"\ud800"`, `"` + strings.Repeat("long", 100) + `"`, `"ok"`}
	for seed := range 20 {
		rnd := rand.New(rand.NewPCG(1, uint64(seed)))
		now := began.Add(time.Hour)
		start, at := spans.New(step, now), int64(0)
		for range 600 {
			moment := began.Add(time.Duration(rnd.IntN(10_000)-2000) * time.Second)
			if rnd.IntN(20) == 0 {
				moment = []time.Time{time.Unix(0, 0), time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}[rnd.IntN(2)]
			}
			text := texts[rnd.IntN(len(texts))]
			line := fmt.Sprintf(`{"time":%q,"event":%q,%s,"file":%s,"argv0":%s,"outcome":%s,"signal":%s,"exitCode":%d,"milliseconds":%d,"pid":-1}`,
				moment.Format(time.RFC3339Nano), kinds[rnd.IntN(len(kinds))], ids, text, text, text, text, rnd.IntN(3)-1, rnd.Int64()-1<<62)
			at += int64(len(line))
			start.Add([]byte(line), at)
		}
		start.Add(fmt.Appendf(nil, `{"time":%q,"event":"finished","reason":%s}`, now.Format(time.RFC3339), texts[2]), at+1)
		made := start.Made(0)
		require.LessOrEqual(t, len(made), 102)
		unique := map[string]bool{}
		size := 0
		for _, m := range made {
			require.LessOrEqual(t, m.StartTimeUnixNano, m.EndTimeUnixNano)
			require.GreaterOrEqual(t, m.StartTimeUnixNano, uint64(now.Add(-367*24*time.Hour).UnixNano()))
			require.LessOrEqual(t, m.EndTimeUnixNano, uint64(now.Add(11*time.Minute).UnixNano()))
			require.LessOrEqual(t, len(m.Events), 32)
			unique[string(m.SpanId)] = true
			encoded, err := proto.Marshal(m.Span)
			require.NoError(t, err)
			size += len(encoded)
		}
		require.Len(t, unique, len(made))
		require.Less(t, size, 1<<20)
		require.NotEmpty(t, attributes(made[len(made)-1].Attributes)["entrypointer.left_out_spans"])
	}
}

func FuzzStart(f *testing.F) {
	f.Add([]byte(`{"time":"2026-11-28T10:00:00Z","event":"waited","milliseconds":9223372036854775807,` + ids + `}`))
	f.Add([]byte(`{"time":"2026-11-28T10:00:00Z","event":"finished",` + ids + `}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		start := spans.New(step, began)
		for range 3 {
			start.Add(line, 1)
		}
		start.CutOff(time.Time{}, "", nil)
		for _, m := range start.Made(0) {
			require.LessOrEqual(t, m.StartTimeUnixNano, m.EndTimeUnixNano)
			_, err := proto.Marshal(m.Span)
			require.NoError(t, err)
		}
	})
}
