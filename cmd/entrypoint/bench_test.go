// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkStart measures what the entrypoint adds to the run of a program that
// does nothing, against tini where that is installed. Run it as
//
//	go test -run '^$' -bench Start -benchtime 500x ./cmd/entrypoint
//
// The variants take turns, so that what else the machine does hits them alike.
// The metrics are medians, in microseconds above bare, the ratio to tini's, and
// the 99th percentiles.
func BenchmarkStart(b *testing.B) {
	nothing, err := exec.LookPath("true")
	require.NoError(b, err)
	variants := []struct {
		name string
		argv []string
	}{
		{"bare", []string{nothing}},
		{"entrypoint", supervised(nothing)},
		{"exec", []string{entrypoint, "-mode=exec", "--", nothing}},
	}
	tini, err := exec.LookPath("tini")
	if err == nil {
		variants = append(variants, struct {
			name string
			argv []string
		}{"tini", []string{tini, "-s", "--", nothing}})
	}

	times := make([][]time.Duration, len(variants))
	for b.Loop() {
		for i, v := range variants {
			times[i] = append(times[i], timeOf(b, v.argv))
		}
	}
	added := make(map[string]float64)
	for i, v := range variants {
		slices.Sort(times[i])
		n := len(times[i])
		added[v.name] = float64((times[i][n/2] - times[0][n/2]).Microseconds())
		b.ReportMetric(added[v.name], v.name+"-added-µs")
		b.ReportMetric(float64(times[i][n*99/100].Microseconds()), v.name+"-p99-µs")
	}
	if added["tini"] > 0 {
		b.ReportMetric(added["entrypoint"]/added["tini"], "x-tini")
	}
	b.ReportMetric(0, "ns/op") // the sum of all variants says nothing
	info, err := os.Stat(entrypoint)
	require.NoError(b, err)
	b.ReportMetric(float64(info.Size())/(1<<20), "MiB")
}

// timeOf runs argv once, by no more than fork, exec and wait.
func timeOf(b *testing.B, argv []string) time.Duration {
	b.Helper()
	start := time.Now()
	pid, err := syscall.ForkExec(argv[0], argv, &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2}})
	require.NoError(b, err)
	var status syscall.WaitStatus
	_, err = syscall.Wait4(pid, &status, 0, nil)
	require.NoError(b, err)
	require.Zero(b, status)
	return time.Since(start)
}

// BenchmarkSignal measures the way of a signal through the entrypoint: to a
// child that dies of it, and back as an exit code.
func BenchmarkSignal(b *testing.B) {
	var times []time.Duration
	for b.Loop() {
		p := begin(b, supervised("sh", "-c", "echo ready; exec sleep 60"))
		p.expect("ready")
		start := time.Now()
		p.send(syscall.SIGUSR1)
		p.end()
		times = append(times, time.Since(start))
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Microseconds()), "median-µs")
}

// BenchmarkWaiting reports what a waiting entrypoint takes.
func BenchmarkWaiting(b *testing.B) {
	p := begin(b, supervised("sh", "-c", "echo ready; exec sleep 60"))
	p.expect("ready")
	for b.Loop() {
	}
	pid := p.Process.Pid
	for _, name := range []string{"RssAnon", "VmRSS"} {
		kib, err := strconv.ParseFloat(strings.TrimSuffix(statusField(b, pid, name), " kB"), 64)
		require.NoError(b, err)
		b.ReportMetric(kib/1024, name+"-MiB")
	}
	time.Sleep(time.Second) // until the runtime has noticed that nothing is to do
	before := switches(b, pid)
	time.Sleep(10 * time.Second)
	b.ReportMetric(float64(switches(b, pid)-before)/10, "wakeups/s")
	b.ReportMetric(0, "ns/op")
}

// switches is how often all threads of a process went to sleep of their own.
func switches(b *testing.B, pid int) (sum int) {
	b.Helper()
	tasks, err := os.ReadDir("/proc/" + strconv.Itoa(pid) + "/task")
	require.NoError(b, err)
	for _, task := range tasks {
		data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/task/" + task.Name() + "/status")
		require.NoError(b, err)
		for line := range strings.Lines(string(data)) {
			if value, ok := strings.CutPrefix(line, "voluntary_ctxt_switches:"); ok {
				n, err := strconv.Atoi(strings.TrimSpace(value))
				require.NoError(b, err)
				sum += n
			}
		}
	}
	return sum
}
