// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/test/framework"
	"github.com/entrypointer/entrypointer/test/markdown"
)

func withHeap(objects int, heap int64, ready ...time.Duration) grown {
	return grown{Objects: objects, Ready: ready, Injector: memory{Heap: heap, RSS: 2 * heap, Highest: 3 * heap}}
}

// figured are figures of which each goal is just met.
func figured() figures {
	f := figures{
		Extent:     whole.name,
		Parts:      []record{{Part: "namespaces", Began: time.Date(2026, 11, 28, 12, 30, 59, 0, time.UTC), Took: 90 * time.Second, Cores: 2, LoadBefore: 0.25, LoadAfter: 2, Others: 0.125, Beside: 7}},
		Namespaces: []grown{withHeap(0, 5e6, time.Second), withHeap(1000, 7e6, time.Second), withHeap(10_000, 5e6+1024*20_000, 8*time.Second, 9*time.Second, 20*time.Second)},
		Pods:       []grown{withHeap(0, 5e6, time.Second), withHeap(50_000, 5_200_000, time.Second)},
		Reviews: []loaded{
			{Rate: 200, Kind: withCommands, P99: 40 * time.Millisecond, CPU: time.Millisecond},
			{Rate: 200, Kind: remembered, P99: time.Millisecond, CPU: 2 * time.Millisecond},
			{Rate: 500, Kind: withCommands, P99: 9 * time.Millisecond, CPU: time.Millisecond},
			{Rate: 500, Kind: remembered, P99: 2 * time.Millisecond, CPU: 4 * time.Millisecond},
		},
		Creations: []created{
			{Rate: 50, PlainReached: 50, OursReached: 50, PlainP50: 4 * time.Millisecond, OursP50: 6 * time.Millisecond},
			{Rate: 200, PlainReached: 200, OursReached: 150, PlainP50: 40 * time.Millisecond, OursP50: 600 * time.Millisecond},
		},
		Images: []imagesRow{{Images: 0}, {Images: 50_000}, {Images: 100_000}},
	}
	f.Namespaces[1].New, f.Namespaces[1].Granted, f.Namespaces[1].EtcdOurs = 1000, 20*time.Second, 1_100_000
	f.Namespaces[2].New, f.Namespaces[2].Granted, f.Namespaces[2].EtcdOurs = 9000, 150*time.Second, 9_900_000
	f.Images[1].Injector = memory{Heap: 40e6, RSS: 90e6, Highest: 100e6}
	f.Images[2].Injector = memory{Heap: 41_900_000, RSS: 90e6, Highest: 100e6}
	return f
}

func TestEachGoalIsMetOrMissedByWhatWasMeasured(t *testing.T) {
	require.Equal(t, "- *Memory that doesn't grow but for 1 KiB a namespace*: met: 1024 bytes of the heap, and 2048 of RSS, for each of 20,000 namespaces, half of which opted in.\n"+
		"- *Ready within 10 s*: met: after 9.00 s, with 10,000 namespaces that opted in and as many that didn't.\n"+
		"- *A pod is created in 1.5 times the time without us*: met: 1.50 times by the medians, 6.00 ms beside 4.00 ms, at 50 a second, which is the highest rate that both namespaces reached.\n"+
		"- *A p99 of our part under 10 ms, with 500 admissions a second on one core*: met: 9.00 ms at 500 a second, with commands in the pod.\n"+
		"- *Memory that doesn't grow with images, once the caches are full*: met: the heap has 40.0 MB after 50,000 images, and 41.9 MB after 100,000.\n"+
		"- *Nothing grows with the pods that exist*: met: the heap has 5.0 MB without pods, and 5.2 MB with 50,000.\n", renderGoals(figured()))
	for goal, change := range map[string]func(*figures){
		"1 KiB a namespace": func(f *figures) { f.Namespaces[2].Injector.Heap += 20_000 },
		"Ready within":      func(f *figures) { f.Namespaces[2].Ready[1] = 10 * time.Second },
		"1.5 times":         func(f *figures) { f.Creations[1].OursReached = 190 },
		"under 10 ms":       func(f *figures) { f.Reviews[3].P99 = 10 * time.Millisecond },
		"500 admissions":    func(f *figures) { f.Reviews = f.Reviews[:2] }, // 200 a second prove nothing of 500
		"a second on one":   func(f *figures) { f.Reviews[2].Unsent = 1 },
		"caches are full":   func(f *figures) { f.Images[2].Injector.Heap = 42e6 },
		"with the pods":     func(f *figures) { f.Pods[1].Injector.Heap = 5_300_000 },
	} {
		t.Run(goal, func(t *testing.T) {
			f := figured()
			change(&f)
			for line := range strings.Lines(renderGoals(f)) {
				require.Equal(t, strings.Contains(line, goal), strings.Contains(line, ": missed: "), line)
			}
		})
	}
}

func TestWhatWasNotMeasuredHasNoTable(t *testing.T) {
	require.Empty(t, render(figures{}))
	require.Equal(t, 1, strings.Count(render(figures{Nodes: []grown{withHeap(5000, 1e6, time.Second)}}), "\n| ---: |"))
}

// complete has figures for each section.
func complete() figures {
	f := figured()
	f.Nodes = []grown{withHeap(0, 5e6, time.Second), withHeap(5000, 9e6, time.Second)}
	f.Claims = []grown{withHeap(0, 5e6, time.Second), withHeap(1000, 6e6, time.Second)}
	f.Claims[1].New, f.Claims[1].Granted, f.Claims[1].EtcdOurs = 1000, time.Minute, 6_000_000
	f.Creations = []created{{Rate: 1, Pairs: 10}, {Rate: 50, Pairs: 10, ServerPlain: 4 * time.Millisecond, ServerOurs: 6 * time.Millisecond}}
	f.Logs = []logged{{Streams: 10_000, Writes: 6660, Measured: 20 * time.Second}}
	return f
}

func TestARowHasACellForEachColumn(t *testing.T) {
	for _, s := range sections(complete()) {
		require.NotEmpty(t, s.text, s.name)
		require.NoError(t, checkTables(s.text), s.name)
	}
	require.ErrorContains(t, checkTables("| a | b |\n| - | - |\n| 1 |\n"), "a row has 1 cells, and the head 2")
}

// A part that fails leaves the rows that it has.
func TestPartsThatFailedAreRendered(t *testing.T) {
	f := complete()
	for _, cut := range []figures{
		{Namespaces: f.Namespaces[:1], Nodes: f.Nodes[:1], Claims: f.Claims[:1], Pods: f.Pods[:1], Images: f.Images[:1]},
		{Reviews: f.Reviews[:3], Creations: f.Creations[:1]},
		{Parts: []record{{Part: "pods", Failed: firstLine("creating a pod: refused | late\nmore")}}},
	} {
		for _, s := range sections(cut) {
			require.NoError(t, checkTables(s.text), s.name)
		}
		require.Contains(t, draw(cut), "<svg")
	}
	require.Equal(t, "creating a pod: refused / late", firstLine("creating a pod: refused | late\nmore"))
}

func TestThePageSaysWhenPartsWereMeasuredAndBesideWhat(t *testing.T) {
	require.Contains(t, renderRecords(figured()), "| namespaces | 1m30s | 2026-11-28 12:30 | 2 | 0.2 | 2.0 | 0.12 | 7 |  |\n")
	require.Contains(t, renderRecords(figured()), "`make scale ARGS=-update`")
}

func TestSizesAreThoseOfWhatWasMeasuredWithAMargin(t *testing.T) {
	text := renderSizing(complete())
	// A tenth of the way from 15 MB to 21 MB, with 100 MB of images: 1.25 * 115.6 MB.
	require.Contains(t, text, "| 100 | 15.6 MB | 115.6 MB | 160Mi | 512Mi | 1.00 s |\n")
	require.Contains(t, text, "| 10,000 | 76.4 MB | 176.4 MB | 224Mi | 512Mi | 9.00 s |\n")
	require.Contains(t, text, "| 200 | 0.40 cores | 2 | 500m | 40.00 ms |\n")
	// Two cores are three replicas that work, and one that may be missing.
	require.Contains(t, text, "| 500 | 2.00 cores | 4 | 850m | 9.00 ms |\n")
	require.Contains(t, text, "1,024 bytes of the heap for each. The leader labels and grants 60 new ones a second, so 9,000 are ready after 150.00 s. In etcd, one that opted in takes 1,100 bytes more")
	require.Contains(t, text, "2.00 ms more of a processor for a pod that is wrapped, and 4.00 ms for another, at 50 a second")
	require.Contains(t, text, "800 bytes of the heap for each, and 0.00 ms")
	require.Contains(t, text, "| with full caches of images |")
	f := complete()
	f.Images[2].Images = 1500
	require.Contains(t, renderSizing(f), "| with 1,500 images |")
	f = complete()
	f.Namespaces = f.Namespaces[:2]
	require.NotContains(t, renderSizing(f), "| 10,000 |") // wasn't measured
	f.Namespaces[1].Injector.Highest = 400e6
	require.Contains(t, renderSizing(f), "| 1,000 | 400.0 MB | 500.0 MB | 608Mi | 1280Mi |")
}

func TestASampleFailsByWhatIsWrong(t *testing.T) {
	require.NoError(t, check(complete()))
	for wrong, change := range map[string]func(*figures){
		"3 creations of pods at 50 a second failed":         func(f *figures) { f.Creations[1].Failed = 3 },
		"1 reviews of pods with commands in the pod failed": func(f *figures) { f.Reviews[0].Failed = 1 },
		"2 reviews of pods with":                            func(f *figures) { f.Images[1].Failed = 2 },
		"bytes for each namespace":                          func(f *figures) { f.Namespaces[2].Injector.Heap = 5e6 + 20_000*5000 },
		"something keeps pods":                              func(f *figures) { f.Pods[1].Injector.Heap = 6e6 },
		"no growth with pods":                               func(f *figures) { f.Pods = f.Pods[:1] },
		"scale-logs of docs/scale.md is empty":              func(f *figures) { f.Logs = nil },
	} {
		f := complete()
		change(&f)
		require.ErrorContains(t, check(f), wrong)
	}
}

func TestTheMachineIsReadFromProc(t *testing.T) {
	load, err := loadOf("24.32 20.62 13.19 3/900 1234\n")
	require.NoError(t, err)
	require.InDelta(t, 24.32, load, 1e-9)
	busy, err := busyOf("cpu  100 20 30 9999 50 7 8 40 0 0\ncpu0 1 2 3\n")
	require.NoError(t, err)
	require.Equal(t, 1900*time.Millisecond, busy)
	_, err = busyOf("intr 1 2 3")
	require.ErrorContains(t, err, "/proc/stat begins with")
}

func TestWhatARunUsesIsNotThatOfOthers(t *testing.T) {
	w := &world{}
	before, err := w.ours()
	require.NoError(t, err)
	for until := time.Now().Add(100 * time.Millisecond); time.Now().Before(until); {
		_ = strings.Repeat("busy", 1000)
	}
	after, err := w.ours()
	require.NoError(t, err)
	require.Greater(t, after, before)
	m, err := w.machine()
	require.NoError(t, err)
	require.Greater(t, m.busy, time.Duration(0))
}

func TestAFailedPartIsRecordedAndTheNextGetsOtherPrograms(t *testing.T) {
	former := parts
	t.Cleanup(func() { parts = former })
	var worlds []*world
	parts = []part{
		{"first", func(_ context.Context, w *world, f *figures) error {
			worlds = append(worlds, w)
			f.Nodes = []grown{withHeap(1, 1, time.Second)}
			return errors.New("the API server has ended: it said much\nand more")
		}},
		{"second", func(_ context.Context, w *world, _ *figures) error { worlds = append(worlds, w); return nil }},
		{"third", func(_ context.Context, w *world, _ *figures) error { worlds = append(worlds, w); return nil }},
	}
	f := figures{Parts: []record{{Part: "first", Began: time.Unix(0, 0)}, {Part: "former", Began: time.Unix(1, 0)}}}
	require.ErrorContains(t, measureParts(t.Context(), options{short: true}, t.TempDir(), &f), "measuring first: the API server has ended")
	require.NotSame(t, worlds[0], worlds[1])
	require.Same(t, worlds[1], worlds[2])
	var names []string
	for _, r := range f.Parts {
		names = append(names, r.Part)
	}
	require.Equal(t, []string{"former", "first", "second", "third"}, names)
	require.Equal(t, "the API server has ended: it said much", f.Parts[1].Failed)
	require.Len(t, f.Nodes, 1)
}

func TestARunOfOnePartKeepsTheFiguresOfTheOthers(t *testing.T) {
	top := t.TempDir()
	t.Chdir(top)
	require.NoError(t, os.WriteFile("go.mod", []byte("module github.com/entrypointer/entrypointer\n"), 0o600))
	require.NoError(t, os.Mkdir("docs", 0o700))
	none, err := formerFigures()
	require.NoError(t, err)
	require.Empty(t, none)
	marks := map[string]string{}
	for _, s := range sections(figures{}) {
		marks[s.page] += "<!-- begin " + s.name + " -->\n<!-- end " + s.name + " -->\n"
	}
	for file, text := range marks {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	}
	require.NoError(t, write(figured()))
	again, err := formerFigures()
	require.NoError(t, err)
	require.Equal(t, figured(), again)
	require.NoError(t, checkExtent(whole))
	require.ErrorContains(t, checkExtent(brief), "same extent")
	written, err := markdown.Section(page, "scale-goals")
	require.NoError(t, err)
	require.Equal(t, renderGoals(figured()), written)
}

// The page has the tables of the data beside it.
func TestThePageHasTheTablesOfTheData(t *testing.T) {
	top, err := framework.RepositoryRoot()
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(top, data))
	require.NoError(t, err)
	var f figures
	require.NoError(t, json.Unmarshal(text, &f))
	for _, s := range sections(f) {
		found, err := markdown.Section(filepath.Join(top, s.page), s.name)
		require.NoError(t, err)
		require.Equal(t, s.text, found, s.name)
	}
	drawn, err := os.ReadFile(filepath.Join(top, picture))
	require.NoError(t, err)
	require.Equal(t, draw(f), string(drawn))
}

func TestThePictureHasAPointForEachFigure(t *testing.T) {
	drawn := draw(figured())
	for decoder := xml.NewDecoder(strings.NewReader(drawn)); ; {
		_, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
	}
	require.Equal(t, 3*3+3*2+3*3+2*2+2*2, strings.Count(drawn, "<circle"))
	// 10,000 namespaces are at the right end, and 200 admissions at two fifths.
	require.Contains(t, drawn, `<circle class="c0" cx="560"`)
	require.Contains(t, drawn, `<circle class="c0" cx="260"`)
}

func TestTicksAreRoundNumbers(t *testing.T) {
	for highest, step := range map[float64]float64{0: 1, 0.5: 0.1, 1: 0.2, 3: 0.5, 30: 5, 61: 20, 99: 20, 128: 50} {
		require.InDelta(t, step, tickStep(highest), 1e-9, "%v", highest)
	}
}

func TestTheHeapIsReadFromTheEndOfAProfile(t *testing.T) {
	heap, err := heapOf(strings.NewReader("heap profile: 1: 2 [3: 4] @ heap/1048576\n# runtime.MemStats\n# Alloc = 1\n# HeapAlloc = 4875752\n# HeapSys = 3\n"))
	require.NoError(t, err)
	require.Equal(t, int64(4875752), heap)
	_, err = heapOf(strings.NewReader("profiling is disabled"))
	require.ErrorContains(t, err, "HeapAlloc")
}

func TestALoadIsSentAtItsRateHoweverSlowTheAnswers(t *testing.T) {
	synctest.Test(t, testALoadIsSentAtItsRateHoweverSlowTheAnswers)
}

func testALoadIsSentAtItsRateHoweverSlowTheAnswers(t *testing.T) {
	const rate, requests = 100, 30
	var underWay, most atomic.Int64
	began := time.Now()
	got := drive(t.Context(), load{rate: rate, requests: requests}, func(_ context.Context, i int) error {
		most.Store(max(most.Load(), underWay.Add(1)))
		defer underWay.Add(-1)
		if i == 3 {
			return errors.New("refused")
		}
		time.Sleep(200 * time.Millisecond)
		return nil
	})
	require.Equal(t, (requests-1)*time.Second/rate+200*time.Millisecond, time.Since(began))
	require.Greater(t, most.Load(), int64(1))
	require.Len(t, got.times, requests-1)
	require.Equal(t, 1, got.failed)
	require.EqualError(t, got.why, "refused")
	require.Equal(t, slices.Repeat([]time.Duration{200 * time.Millisecond}, requests-1), got.times)
}

func TestALoadThatIsTooSlowIsGivenUpUnlessItIsPatient(t *testing.T) {
	synctest.Test(t, testALoadThatIsTooSlowIsGivenUpUnlessItIsPatient)
}

func testALoadThatIsTooSlowIsGivenUpUnlessItIsPatient(t *testing.T) {
	of := load{rate: 2 * atOnce, requests: 2 * atOnce}
	slow := func(context.Context, int) error {
		time.Sleep(2 * time.Second) // as many as are sent at once, after the load's end
		return nil
	}
	got := drive(t.Context(), of, slow)
	require.Equal(t, of.requests, len(got.times)+got.unsent)
	require.Positive(t, got.unsent)
	require.Less(t, got.answered(of), float64(of.rate))
	of.patient = true
	require.Len(t, drive(t.Context(), of, slow).times, of.requests)
	quick := load{rate: 10, requests: 5}
	require.InDelta(t, 10, drive(t.Context(), quick, func(context.Context, int) error { return nil }).answered(quick), 1e-9)
}

func TestTheRegistryHasAnImageOfItsOwnInEachRepository(t *testing.T) {
	server := httptest.NewServer(&imageServer{})
	defer server.Close()
	for _, repository := range []string{repository(1), repository(2)} {
		reference, err := name.ParseReference(strings.TrimPrefix(server.URL, "http://") + "/" + repository + ":v1")
		require.NoError(t, err)
		head, err := remote.Head(reference)
		require.NoError(t, err)
		image, err := remote.Image(reference)
		require.NoError(t, err)
		digest, err := image.Digest()
		require.NoError(t, err)
		require.Equal(t, head.Digest, digest)
		config, err := image.ConfigFile()
		require.NoError(t, err)
		require.Equal(t, []string{"/usr/bin/" + repository}, config.Config.Entrypoint)
	}
	pinned, err := pinnedOrTagged(1)
	require.NoError(t, err)
	_, digest, _ := strings.Cut(pinned, "@")
	reference, err := name.ParseReference(strings.TrimPrefix(server.URL, "http://") + "/" + repository(1) + "@" + digest)
	require.NoError(t, err)
	_, err = remote.Image(reference)
	require.NoError(t, err)
	response, err := http.Get(server.URL + "/v2/team/image-1/blobs/sha256:0")
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusNotFound, response.StatusCode)
}
