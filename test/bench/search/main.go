// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Search measures how fast the log service searches, beside gzip and grep in the same run, and
// what that costs on S3. It writes a table of docs/benchmarks.md:
//
//	go run ./test/bench/search -update
package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/entrypointer/entrypointer/internal/logs/grep"
	"github.com/entrypointer/entrypointer/internal/logs/storage"
	"github.com/entrypointer/entrypointer/internal/logs/streams"
	"github.com/entrypointer/entrypointer/test/framework"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("bench: ")
	update := flag.Bool("update", false, "write the table into docs/benchmarks.md")
	size := flag.Int64("size", 256, "the text, in MB")
	flag.Parse()
	if err := run(context.Background(), *size*1e6, *update); err != nil {
		log.Fatal(err)
	}
}

// expressions are those that are measured: one with bytes that each match has, others without.
var expressions = []string{"request timed out", "timeout|refused|reset", `"ms":9[0-9]{3}`, `[0-9]{3}-[0-9]{4}`}

func run(ctx context.Context, size int64, update bool) error {
	directory, err := os.MkdirTemp("", "bench-search-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(directory) }()
	files, err := storage.OpenFiles(directory)
	if err != nil {
		return err
	}
	bucket := &counted{Bucket: files}
	store, err := streams.Open(ctx, bucket)
	if err != nil {
		return err
	}
	packed := filepath.Join(directory, "text.gz")
	if err := fill(ctx, store, packed, size); err != nil {
		return err
	}
	table := "| expression | log service, GB/s of text per core | gzip and grep | ratio | highest heap | dollars per GB |\n| --- | ---: | ---: | ---: | ---: | ---: |\n"
	for _, expression := range expressions {
		bucket.gets.Store(0)
		bucket.lists.Store(0)
		ours, heap, err := search(ctx, store, expression)
		if err != nil {
			return err
		}
		theirs, err := peer(ctx, packed, expression)
		if err != nil {
			return err
		}
		gigabytes := float64(size) / 1e9
		table += fmt.Sprintf("| `%s` | %.2f | %.2f | %.1f | %.0f MB | %.5f |\n", strings.ReplaceAll(expression, "|", `\|`),
			gigabytes/ours.Seconds(), gigabytes/theirs.Seconds(), theirs.Seconds()/ours.Seconds(), float64(heap)/1e6, bucket.dollars()/gigabytes)
	}
	fmt.Print(table)
	if !update {
		return nil
	}
	return framework.ReplaceIn(framework.Benchmarks, "search", table)
}

// fill writes a text to a stream, and to a file.
func fill(ctx context.Context, store *streams.Store, packed string, size int64) error {
	id, err := store.Create(ctx, streams.Source{Namespace: "bench", Pod: "p", PodUID: "u", Container: "main", Name: "stdout"})
	if err != nil {
		return err
	}
	file, err := os.Create(packed)
	if err != nil {
		return err
	}
	defer file.Close()
	archive, err := gzip.NewWriterLevel(file, gzip.BestSpeed) // as the service's members
	if err != nil {
		return err
	}
	var part bytes.Buffer
	line := 0
	for at := int64(0); at < size; {
		for part.Reset(); part.Len() < streams.MaxWrite-300; line++ {
			fmt.Fprintf(&part, `{"time":%q,"level":"info","msg":"answered","path":"/orders/%d","user":"%x","ms":%d}`+"\n",
				time.UnixMilli(1795000000000+int64(line)).UTC().Format(time.RFC3339Nano), line*7919%1000003, line*104729, line%97)
		}
		if err := store.Write(ctx, id, at, part.Bytes()); err != nil {
			return err
		}
		if _, err := archive.Write(part.Bytes()); err != nil {
			return err
		}
		at += int64(part.Len())
	}
	for hours := range 4 { // later, as the keeper would
		if _, err := store.Tidy(ctx, id, time.Now().Add(time.Duration(1+hours)*time.Hour), 0); err != nil {
			return err
		}
	}
	return errors.Join(archive.Close(), file.Sync())
}

// A reader scans the parts of a search.
type reader struct {
	*grep.Scanner
	heap uint64 // the highest one
}

// Part implements streams.Searcher.
func (r *reader) Part(_ *streams.Listed, p streams.Part) error {
	var now runtime.MemStats
	if p.From%(16<<20) < streams.MaxWrite {
		runtime.ReadMemStats(&now)
		r.heap = max(r.heap, now.HeapAlloc)
	}
	return r.Write(p.From, p.Data)
}

// Unread implements streams.Searcher.
func (r *reader) Unread(_ *streams.Listed, err error) error { return err }

// End implements streams.Searcher.
func (r *reader) End(*streams.Listed) error { return r.Break() }

// search returns the time of the processors that a search takes, and the highest heap.
func search(ctx context.Context, store *streams.Store, expression string) (took time.Duration, heap uint64, err error) {
	e, err := grep.Compile(expression, false)
	if err != nil {
		return 0, 0, err
	}
	r := &reader{Scanner: grep.NewScanner(e, 0, 0, func(grep.Line) error { return nil })}
	before := processorTime()
	_, err = store.Search(ctx, streams.SearchQuery{Namespace: "bench", Keep: func(streams.Listed) bool { return true }}, r)
	return processorTime() - before, r.heap, err
}

func processorTime() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage) // a valid argument
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// peer returns the time of the processors that gzip and grep take.
func peer(ctx context.Context, packed, expression string) (time.Duration, error) {
	unpack := exec.CommandContext(ctx, "gzip", "-dc", packed)
	find := exec.CommandContext(ctx, "grep", "-E", expression)
	find.Env = append(os.Environ(), "LC_ALL=C")
	text, err := unpack.StdoutPipe()
	if err != nil {
		return 0, err
	}
	find.Stdin = text
	if err := errors.Join(unpack.Start(), find.Start()); err != nil {
		return 0, err
	}
	err = find.Wait()
	if exit, is := errors.AsType[*exec.ExitError](err); is && exit.ExitCode() == 1 {
		err = nil // no line matches
	}
	if err := errors.Join(err, unpack.Wait()); err != nil {
		return 0, fmt.Errorf("running gzip and grep: %w", err)
	}
	took := time.Duration(0)
	for _, p := range []*exec.Cmd{unpack, find} {
		took += p.ProcessState.UserTime() + p.ProcessState.SystemTime()
	}
	return took, nil
}
