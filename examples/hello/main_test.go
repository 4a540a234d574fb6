// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

func TestAncestryLeadsFromTheFirstProcessToThisOne(t *testing.T) {
	line := ancestry(os.Getpid())
	if len(line) < 2 {
		t.Fatalf("ancestry has %d processes, want this one and at least its parent", len(line))
	}
	if last := line[len(line)-1]; last.pid != os.Getpid() || !strings.HasPrefix(last.command, os.Args[0]) {
		t.Errorf("last is %d %q, want %d %q", last.pid, last.command, os.Getpid(), os.Args[0])
	}
	if parent := line[len(line)-2]; parent.pid != os.Getppid() {
		t.Errorf("before it is %d, want the parent %d", parent.pid, os.Getppid())
	}
}

func TestARequestUnderWayIsAnsweredAfterItIsToldToStop(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, address) }()
	for {
		if response, err := http.Get("http://" + address); err == nil {
			response.Body.Close()
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	answered := make(chan string, 1)
	go func() {
		response, err := http.Get("http://" + address + "?sleep=1s")
		if err != nil {
			answered <- err.Error()
			return
		}
		defer response.Body.Close()
		body, _ := io.ReadAll(response.Body)
		answered <- string(body)
	}()
	time.Sleep(300 * time.Millisecond)
	stop()
	if got := <-answered; !strings.HasPrefix(got, "hello, world\n") {
		t.Errorf("answer is %q, want hello", got)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
