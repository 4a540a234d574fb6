// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// livesOf is a container with a life from one second to another, 0 for one that goes on.
func livesOf(name string, isInit bool, from, to int) Container {
	s := Span{Kind: Running, From: at(1000 * from)}
	if to > 0 {
		s.To = at(1000 * to)
	}
	return Container{Name: name, Init: isInit, Lives: []Life{{began: s.From, Spans: []Span{s}}}}
}

func TestThePodTellsWhatNoneOfItsContainersDoes(t *testing.T) {
	t.Parallel()
	completed := attempt{at(0), at(20000)}
	for name, test := range map[string]struct {
		pod  Pod
		of   attempt
		want string
	}{
		"between init containers": {
			Pod{Created: at(1000), scheduled: at(2000), Containers: []Container{livesOf("prepare", true, 4, 5), livesOf("place", true, 6, 7), livesOf("step-a", false, 8, 10), livesOf("step-b", false, 9, 18)}},
			completed,
			"requesting 0-1000 1s; starting 2000-4000 1s; starting 5000-6000 1s; starting 7000-8000 1s; completing 18000-20000 1s",
		},
		"beside an init container that is a sidecar": {
			Pod{Created: at(0), scheduled: at(2000), Containers: []Container{livesOf("proxy", true, 3, 30), livesOf("step-a", false, 5, 10)}},
			completed,
			"starting 2000-5000 1s; completing 10000-20000 1s",
		},
		"with a sidecar that outlasts the steps": {
			Pod{Created: at(0), scheduled: at(2000), Containers: []Container{livesOf("step-a", false, 2, 10), livesOf("sidecar-db", false, 2, 30)}},
			completed,
			"completing 10000-20000 1s",
		},
		"while a step runs":        {Pod{Created: at(0), scheduled: at(2000), Containers: []Container{livesOf("step-a", false, 3, 0)}}, attempt{from: at(0)}, "starting 2000-3000 1s"},
		"before any container":     {Pod{Created: at(0), scheduled: at(2000), isPending: true, Containers: []Container{{Name: "main"}}}, attempt{}, "starting 2000- 1s"},
		"between init and main":    {Pod{Created: at(0), scheduled: at(2000), isPending: true, Containers: []Container{livesOf("prepare", true, 2, 5), {Name: "main"}}}, attempt{}, "starting 5000- 1s"},
		"without a node":           {Pod{Created: at(0), isPending: true, Containers: []Container{{Name: "main"}}}, attempt{}, ""},
		"where a time is unknown":  {Pod{Created: at(0), scheduled: at(2000), Containers: []Container{livesOf("a", false, 2, 5), livesOf("b", false, 9, 0)}}, attempt{}, "unattributed 5000-9000 1s"},
		"that is gone":             {Pod{Gone: true, Containers: []Container{livesOf("step-a", false, 5, 20)}}, completed, "unattributed 0-5000 1s"},
		"that is gone and unknown": {Pod{Gone: true}, completed, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.pod.attribute(test.of)
			require.Equal(t, test.want, told(Life{Spans: test.pod.Spans}))
		})
	}
}

func TestEachAttemptOfATaskRunHasItsPod(t *testing.T) {
	t.Parallel()
	var r taskRun
	require.NoError(t, json.Unmarshal([]byte(`{"status":{"podName":"second","startTime":"2026-11-26T12:00:09Z",
		"retriesStatus":[{"podName":"first","startTime":"2026-11-26T12:00:01Z","completionTime":"2026-11-26T12:00:08Z"}]}}`), &r))
	all := map[string]attempt{}
	r.addAttempts(all)
	require.Equal(t, map[string]attempt{"first": {at(1000), at(8000)}, "second": {at(9000), time.Time{}}}, all)
}
