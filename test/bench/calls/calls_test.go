// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package calls

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/test/markdown"
)

var update = flag.Bool("update", false, "write the table of docs/benchmarks.md")

const (
	day   = 24 * time.Hour
	month = 30 * day
)

// simulate counts the calls of some streams, or pods with two streams.
func simulate(t *testing.T, count int, exported bool, run func(*service, int)) (calls tally) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, exported)
		for i := range count {
			s.running.Go(func() { run(s, i) })
		}
		run(s, -1)
		calls = s.bucket.counted()
		s.stop()
		s.running.Wait()
	})
	return calls
}

// eachOf returns what one stream costs, and what the replicas cost beside it.
func eachOf(t *testing.T, exported bool, run func(*service, int)) (each, replicas tally) {
	t.Helper()
	few, more := simulate(t, 1, exported, run), simulate(t, 3, exported, run)
	each = more.plus(few, -1)
	each = tally{}.plus(each, 0.5)
	return each, few.plus(each, -1)
}

// random has a fixed seed, so that output compresses the same each time. It isn't safe for
// goroutines, of which a bubble of time has many.
var random = &sharedRand{from: rand.New(rand.NewPCG(1, 2))}

type sharedRand struct {
	mu   sync.Mutex
	from *rand.Rand
}

// IntN returns a number from 0 to n-1.
func (r *sharedRand) IntN(n int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.from.IntN(n)
}

// line is what a program prints once a second.
func line(second int) string {
	return fmt.Sprintf(`{"time":%q,"level":"info","msg":"answered","path":"/orders/%d","ms":%d}`+"\n", time.Now().Format(time.RFC3339Nano), random.IntN(1e6), second%97)
}

// printsFor returns a run in which pods print a line a second.
func printsFor(duration time.Duration, followed bool) func(*service, int) {
	return func(s *service, i int) {
		if i < 0 {
			time.Sleep(duration + time.Second)
			return
		}
		stdout := s.stream(fmt.Sprint("pod", i), "stdout")
		if followed {
			stdout.follow()
			s.stream(fmt.Sprint("pod", i), "stderr").follow()
		}
		for second := range int(duration / time.Second) {
			time.Sleep(time.Second)
			stdout.print(line(second))
		}
	}
}

const (
	part  = 256 << 10
	parts = 512
)

// bulk is a run in which each stream gets four full parts a second, and ends.
func bulk(s *service, i int) {
	const rest = 6 * time.Hour // in which it is joined
	if i < 0 {
		time.Sleep(parts/4*time.Second + rest)
		return
	}
	var text strings.Builder
	for n := 0; text.Len() < part; n++ {
		text.WriteString(line(n))
	}
	packed := pack([]byte(text.String()[:part]))
	stdout := s.stream(fmt.Sprint("pod", i), "stdout")
	for range parts {
		time.Sleep(time.Second / 4)
		stdout.write(part, packed)
	}
	stdout.end()
}

func TestWhatLogsCostInAnObjectStore(t *testing.T) {
	duration, watched := 4*time.Hour, 20*time.Minute
	if *update {
		duration, watched = day, 2*time.Hour
	}
	chatty, replicas := eachOf(t, false, printsFor(duration, false))
	objects := chatty.objects
	chatty, replicas = tally{}.plus(chatty, float64(month/duration)), tally{}.plus(replicas, float64(month/duration))
	ingested, _ := eachOf(t, false, bulk)
	ingested = tally{}.plus(ingested, 1e9/float64(part*parts))
	followed, _ := eachOf(t, false, printsFor(watched, true))
	followed = tally{}.plus(followed, 10*float64(day/watched))
	chattySent, _ := eachOf(t, true, printsFor(duration, false))
	chattySent = tally{}.plus(chattySent, float64(month/duration)).plus(chatty, -1)
	bulkSent, _ := eachOf(t, true, bulk)
	bulkSent = tally{}.plus(bulkSent, 1e9/float64(part*parts)).plus(ingested, -1)
	require.LessOrEqual(t, chattySent.dollars(), 0.40)
	require.LessOrEqual(t, bulkSent.dollars(), 0.02)
	require.LessOrEqual(t, chatty.dollars(), 0.50)
	require.LessOrEqual(t, ingested.dollars(), 0.03)
	require.LessOrEqual(t, followed.dollars(), 20.)
	table := render([]row{
		{"a stream with a line a second, for a month", chatty, "0.50"},
		{"a GB in parts of 256 KiB", ingested, "0.03"},
		{"ten such pods, stdout and stderr followed for a day, writing included", followed, ""},
		{"[sending](exporting-logs.md) that stream on for the month, in addition", chattySent, "0.40"},
		{"sending that GB on, in addition", bulkSent, "0.02"},
		{"three replicas for a month, beside their streams", replicas, ""},
	}, objects, duration)
	t.Log("\n" + table)
	if *update {
		require.NoError(t, markdown.ReplaceSection("../../../docs/benchmarks.md", "calls", table))
	}
}

// A row is a row of the table.
type row struct {
	what  string
	calls tally
	goal  string // in dollars, "" for none
}

func render(rows []row, objects float64, after time.Duration) string {
	var b strings.Builder
	fmt.Fprintln(&b, "| what | PUT | LIST | GET | DELETE | dollars | goal |")
	fmt.Fprintln(&b, "| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %.0f | %.0f | %.0f | %.0f | %.3f | %s |\n",
			r.what, r.calls.puts, r.calls.lists, r.calls.gets, r.calls.deletes, r.calls.dollars(), r.goal)
	}
	fmt.Fprintf(&b, "\nA stream with a line a second has %.0f objects after %v.\n", objects, after)
	return b.String()
}
