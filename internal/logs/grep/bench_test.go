// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package grep

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// BenchmarkScan compares the automaton with package regexp, which is given each line by itself.
// It reports text by time of the processors, which other processes don't lengthen.
func BenchmarkScan(b *testing.B) {
	var text strings.Builder
	for i := 0; text.Len() < 32<<10; i++ {
		fmt.Fprintf(&text, `{"time":"2026-11-26T03:00:%02dZ","level":"info","msg":"answered","path":"/orders/%d","ms":%d}`+"\n", i%60, i*7919, i%97)
	}
	block := []byte(text.String())
	for _, expression := range []string{"level.:.error", "timeout", `"ms":[0-9]{4}`, `(error|timeout|refused)`, `[0-9]{3}-[0-9]{4}`, `(?i)timeout`} {
		b.Run(expression+"/automaton", func(b *testing.B) {
			e, err := Compile(expression, false)
			if err != nil {
				b.Fatal(err)
			}
			s := NewScanner(e, 0, 0, func(Line) error { return nil })
			defer reportRate(b, len(block))()
			for at := int64(0); b.Loop(); at += int64(len(block)) {
				if err := s.Write(at, block); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(expression+"/regexp", func(b *testing.B) {
			e := regexp.MustCompile(expression)
			defer reportRate(b, len(block))()
			for b.Loop() {
				for rest := block; len(rest) > 0; {
					line, after, _ := bytes.Cut(rest, []byte("\n"))
					if e.Match(line) {
						b.Fatalf("%q matches %q", line, expression)
					}
					rest = after
				}
			}
		})
	}
}

// reportRate reports the text that is read by time of the processors, until the function that
// it returns is called.
func reportRate(b *testing.B, size int) (end func()) {
	b.Helper()
	began := processorTime(b)
	return func() {
		took := processorTime(b) - began
		b.ReportMetric(float64(size)*float64(b.N)/took.Seconds()/1e6, "MB/cpu-s")
	}
}

// processorTime is what this process has taken of the processors.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
