// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Printer prints chunks of text at a rate, times each write(2), and leaves what it
// found as the container's termination message. Each chunk begins with the time at
// which it was written, in nanoseconds.
//
//	printer NAME BYTES PER-SECOND DURATION TOTAL
//
// The rate 0 is as fast as it goes. The printer ends after the duration, or once it has
// printed TOTAL bytes, 0 for no such end. The name is for others to find the process by.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// terminationLog is where Kubernetes looks for a message.
const terminationLog = "/dev/termination-log"

// stamp is how many digits the time has.
const stamp = 19

// shortLine is how long a chunk can be that is a line, in bytes.
const shortLine = 1 << 10

// report is what test/bench/logs reads.
type report struct {
	Median, P99 time.Duration
	Bytes       int64
	Took        time.Duration
	Ended       time.Time
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("printer: ")
	if len(os.Args) != 6 {
		log.Fatal("it wants NAME BYTES PER-SECOND DURATION TOTAL")
	}
	size, err := strconv.Atoi(os.Args[2])
	if err != nil || size < stamp+2 {
		log.Fatalf("so many BYTES can't be written: give a number from %d on", stamp+2)
	}
	rate, err := strconv.ParseFloat(os.Args[3], 64)
	if err != nil {
		log.Fatal(err)
	}
	duration, err := time.ParseDuration(os.Args[4])
	if err != nil {
		log.Fatal(err)
	}
	total, err := strconv.ParseInt(os.Args[5], 10, 64)
	if err != nil {
		log.Fatal(err)
	}
	r, err := run(size, rate, duration, total)
	if err != nil {
		log.Fatal(err)
	}
	text, err := json.Marshal(r)
	if err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(terminationLog, text, 0o600); err != nil {
		log.Fatal(err)
	}
}

func run(size int, rate float64, duration time.Duration, total int64) (r report, err error) {
	text := lines(size + 1<<20)
	if size <= shortLine { // each chunk is one
		text = bytes.ReplaceAll(text, []byte("\n"), []byte(" "))
	}
	var times []time.Duration
	start := time.Now()
	for n := 0; time.Since(start) < duration && (total == 0 || r.Bytes < total); n++ {
		if rate > 0 {
			time.Sleep(time.Until(start.Add(time.Duration(float64(n) / rate * float64(time.Second)))))
		}
		at := n * size % (1 << 20)
		chunk := text[at : at+size]
		copy(chunk, strconv.AppendInt(nil, time.Now().UnixNano(), 10))
		chunk[stamp] = ' '
		chunk[size-1] = '\n'
		began := time.Now()
		if err := write(chunk); err != nil {
			return r, err
		}
		times = append(times, time.Since(began))
		r.Bytes += int64(size)
	}
	r.Ended = time.Now()
	r.Took = r.Ended.Sub(start)
	slices.Sort(times)
	if len(times) > 0 {
		r.Median, r.P99 = times[len(times)/2], times[len(times)*99/100]
	}
	return r, nil
}

func write(chunk []byte) error {
	for len(chunk) > 0 {
		n, err := syscall.Write(1, chunk)
		if err != nil && err != syscall.EINTR {
			return fmt.Errorf("writing to stdout: %w", err)
		}
		chunk = chunk[max(n, 0):]
	}
	return nil
}

// lines is text that can be compressed about as well as logs can.
func lines(size int) []byte {
	words := []string{"GET", "POST", "/api/v1/namespaces", "status=200", "level=info", "msg=\"request done\"", "user-agent=curl", "duration="}
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // G404: no secret is made
	var text []byte
	for len(text) < size {
		text = fmt.Appendf(text, "%019d %s %s%x\n", len(text), words[random.IntN(len(words))], words[random.IntN(len(words))], random.Uint64())
	}
	return text[:size]
}
