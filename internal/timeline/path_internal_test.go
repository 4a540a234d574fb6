// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"bytes"
	"compress/flate"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestTheCriticalPathGoesBackFromTheTaskRunThatEndedLast(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	at := func(second int) *metav1.Time {
		return new(metav1.NewTime(noon.Add(time.Duration(second) * time.Second)))
	}
	type taskRuns map[string][2]int // by task: from and to
	for name, test := range map[string]struct {
		tasks, finally string // of the Pipeline's status
		runs           taskRuns
		want           string // each task with the seconds that it waited
	}{
		"of one task":               {`{"name":"a"}`, ``, taskRuns{"a": {2, 5}}, "2 a"},
		"along runAfter":            {`{"name":"a"},{"name":"b","runAfter":["a"]},{"name":"c"}`, ``, taskRuns{"a": {0, 5}, "b": {6, 9}, "c": {0, 8}}, "0 a, 1 b"},
		"along results":             {`{"name":"a"},{"name":"b","params":[{"name":"p","value":"$(tasks.a.results.digest)"}]}`, ``, taskRuns{"a": {0, 5}, "b": {8, 9}}, "0 a, 3 b"},
		"through the slower branch": {`{"name":"a"},{"name":"b"},{"name":"c","runAfter":["a","b"]}`, ``, taskRuns{"a": {0, 5}, "b": {0, 7}, "c": {8, 9}}, "0 b, 1 c"},
		"past a skipped task":       {`{"name":"a"},{"name":"b","runAfter":["a"]},{"name":"c","runAfter":["b"]}`, ``, taskRuns{"a": {0, 5}, "c": {6, 9}}, "0 a, 1 c"},
		"to a finally task":         {`{"name":"a"},{"name":"b"}`, `{"name":"f"}`, taskRuns{"a": {0, 5}, "b": {0, 7}, "f": {9, 10}}, "0 b, 2 f"},
		"by time, without tasks":    {``, ``, taskRuns{"a": {0, 5}, "b": {5, 9}, "c": {0, 3}}, "0 a, 0 b"},
		"of tasks in a circle":      {`{"name":"a","runAfter":["b"]},{"name":"b","runAfter":["a"]}`, ``, taskRuns{"a": {0, 5}, "b": {6, 9}}, "0 a, 1 b"},
		"of nothing":                {`{"name":"a"}`, ``, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var run pipelineRun
			require.NoError(t, json.Unmarshal(fmt.Appendf(nil, `{"status":{"pipelineSpec":{"tasks":[%s],"finally":[%s]}}}`, test.tasks, test.finally), &run))
			var stages []Stage
			for task, times := range test.runs {
				r := taskRun{ObjectMeta: metav1.ObjectMeta{Name: "run-" + task, Labels: map[string]string{"tekton.dev/pipelineTask": task}}}
				r.Status.StartTime, r.Status.CompletionTime = at(times[0]), at(times[1])
				s, is := r.stage()
				require.True(t, is)
				stages = append(stages, s)
			}
			var got []string
			for _, s := range criticalPath(stages, needsOf(&run), at(0)) {
				got = append(got, fmt.Sprintf("%d %s", s.WaitedBefore/1000, s.Task))
			}
			require.Equal(t, test.want, strings.Join(got, ", "))
		})
	}
}

func TestARetriedTaskRunBeganWithItsFirstAttempt(t *testing.T) {
	t.Parallel()
	var r taskRun
	require.NoError(t, json.Unmarshal([]byte(`{"status":{"startTime":"2026-11-26T12:00:09Z","completionTime":"2026-11-26T12:00:10Z","retriesStatus":[{"startTime":"2026-11-26T12:00:01Z"}]}}`), &r))
	s, is := r.stage()
	require.True(t, is)
	require.Equal(t, 9*time.Second, s.To.Sub(s.From))
	_, is = (&taskRun{}).stage()
	require.False(t, is, "it goes on")
}

// pack compresses a message as package termination of Tekton does.
func pack(t *testing.T, message string) string {
	t.Helper()
	var b bytes.Buffer
	w, err := flate.NewWriter(&b, flate.BestCompression)
	require.NoError(t, err)
	_, err = w.Write([]byte(message))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return "tknz:" + base64.RawStdEncoding.EncodeToString(b.Bytes())
}

func TestTheMessageOfTektonsEntrypointTellsWhenTheCommandBegan(t *testing.T) {
	t.Parallel()
	const plain = `[{"key":"StartedAt","value":"2026-11-26T12:00:05.200Z","type":3},{"key":"Reason","value":"Skipped","type":3}]`
	packed := pack(t, plain)
	for _, message := range []string{plain, packed} {
		began, reason, is := tektonStart(message)
		require.True(t, is)
		require.Equal(t, "12:00:05.2 Skipped", began.Format("15:04:05.999 ")+reason)
	}
	for _, message := range []string{"", "{}", "no JSON", `[{"key":"StartedAt","value":"noon"}]`, packed[:len(packed)-9], "tknz:!", pack(t, strings.Repeat(" ", 2<<20)+plain)} {
		_, _, is := tektonStart(message)
		require.False(t, is)
	}
}
