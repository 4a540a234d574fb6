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
	"strings"
	"sync/atomic"
	"testing"
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
	return figures{
		Namespaces: []grown{withHeap(0, 5e6, time.Second), withHeap(1000, 7e6, time.Second), withHeap(10_000, 5e6+1024*20_000, 8*time.Second, 9*time.Second, 20*time.Second)},
		Pods:       []grown{withHeap(0, 5e6, time.Second), withHeap(50_000, 5_200_000, time.Second)},
		Reviews: []loaded{
			{Rate: 200, Kind: withCommands, P99: 40 * time.Millisecond},
			{Rate: 200, Kind: remembered, P99: time.Millisecond},
			{Rate: 500, Kind: withCommands, P99: 9 * time.Millisecond},
			{Rate: 500, Kind: remembered, P99: 2 * time.Millisecond},
		},
	}
}

func TestEachGoalIsMetOrMissedByWhatWasMeasured(t *testing.T) {
	require.Equal(t, "- *Memory that doesn't grow but for 1 KiB a namespace*: met: 1024 bytes of the heap, and 2048 of RSS, for each of 20,000 namespaces, half of which opted in.\n"+
		"- *Ready within 10 s*: met: after 9.00 s, with 10,000 namespaces that opted in and as many that didn't.\n"+
		"- *A p99 of our part under 10 ms, with 500 admissions a second on one core*: met: 9.00 ms at 500 a second, with commands in the pod.\n"+
		"- *Nothing grows with the pods that exist*: met: the heap has 5.0 MB without pods, and 5.2 MB with 50,000.\n", renderGoals(figured()))
	for goal, change := range map[string]func(*figures){
		"1 KiB a namespace": func(f *figures) { f.Namespaces[2].Injector.Heap += 20_000 },
		"Ready within":      func(f *figures) { f.Namespaces[2].Ready[1] = 10 * time.Second },
		"under 10 ms":       func(f *figures) { f.Reviews[3].P99 = 10 * time.Millisecond },
		"500 admissions":    func(f *figures) { f.Reviews = f.Reviews[:2] }, // 200 a second prove nothing of 500
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

func TestARowHasACellForEachColumn(t *testing.T) {
	f := figured()
	f.Nodes = []grown{withHeap(5000, 1e6, time.Second)}
	f.Creations = []created{{Rate: 1, Pairs: 10}}
	f.Images = []imagesRow{{Images: 100_000}}
	for _, s := range sections(f)[1:] {
		columns := 0
		for line := range strings.Lines(s.text) {
			if columns == 0 {
				columns = strings.Count(line, "|")
			}
			require.Equal(t, columns, strings.Count(line, "|"), "%s: %s", s.name, line)
		}
		require.Positive(t, columns, s.name)
	}
}

func TestARunOfOnePartKeepsTheFiguresOfTheOthers(t *testing.T) {
	top := t.TempDir()
	t.Chdir(top)
	require.NoError(t, os.WriteFile("go.mod", []byte("module github.com/entrypointer/entrypointer\n"), 0o600))
	require.NoError(t, os.Mkdir("docs", 0o700))
	none, err := formerFigures()
	require.NoError(t, err)
	require.Empty(t, none)
	var marks strings.Builder
	for _, s := range append(sections(figures{}), section{name: "scale-machine"}) {
		marks.WriteString("<!-- begin " + s.name + " -->\n<!-- end " + s.name + " -->\n")
	}
	require.NoError(t, os.WriteFile(page, []byte(marks.String()), 0o600))
	require.NoError(t, write(figured()))
	again, err := formerFigures()
	require.NoError(t, err)
	require.Equal(t, figured(), again)
	require.NoError(t, checkExtent(false))
	require.ErrorContains(t, checkExtent(true), "same extent")
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
		found, err := markdown.Section(filepath.Join(top, page), s.name)
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
	require.Equal(t, 3*3+3*2+2*2, strings.Count(drawn, "<circle"))
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
	const rate, requests = 100, 30
	var underWay, most atomic.Int64
	began := time.Now()
	got := drive(t.Context(), rate, requests, func(_ context.Context, i int) error {
		most.Store(max(most.Load(), underWay.Add(1)))
		defer underWay.Add(-1)
		if i == 3 {
			return errors.New("refused")
		}
		time.Sleep(200 * time.Millisecond)
		return nil
	})
	require.GreaterOrEqual(t, time.Since(began), (requests-1)*time.Second/rate)
	require.Greater(t, most.Load(), int64(1))
	require.Len(t, got.times, requests-1)
	require.Equal(t, 1, got.failed)
	require.EqualError(t, got.why, "refused")
	require.GreaterOrEqual(t, got.times[0], 200*time.Millisecond)
	require.IsIncreasing(t, got.times)
}

func TestTheRegistryHasAnImageOfItsOwnInEachRepository(t *testing.T) {
	server := httptest.NewServer(&imageServer{})
	defer server.Close()
	for _, repository := range []string{"team/image-1", "team/image-2"} {
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
	response, err := http.Get(server.URL + "/v2/team/image-1/blobs/sha256:0")
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusNotFound, response.StatusCode)
}
