// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/entrypointer/entrypointer/internal/logs/api"
	"github.com/entrypointer/entrypointer/internal/logs/storage"
	"github.com/entrypointer/entrypointer/internal/logs/streams"
	"github.com/entrypointer/entrypointer/test/framework"
)

// streaming is what so many streams took of the service, each of which got a KiB every
// second.
type streaming struct {
	streams int
	usage   framework.Usage // CPU is that of a second
	times   []time.Duration
	failed  int
}

const (
	streamsLast = 10 * time.Second
	chunk       = 1 << 10
	// senders is how many requests are under way at most.
	senders = 64
)

// manyStreams asks a service of its own, over loopback: the API on files, without TLS
// and the API server.
func manyStreams(ctx context.Context, f *figures) error {
	for _, n := range []int{10, 100, 1000} {
		s, err := stream(ctx, n)
		if err != nil {
			return err
		}
		f.streams = append(f.streams, s)
	}
	return nil
}

func stream(ctx context.Context, n int) (s streaming, err error) {
	directory, err := os.MkdirTemp("", "bench-logs-")
	if err != nil {
		return s, err
	}
	defer func() { _ = os.RemoveAll(directory) }()
	process, url, err := startService(ctx, directory)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, process.end()) }()
	client := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: senders}}
	ids := make([]string, n)
	for i := range ids {
		if ids[i], err = makeStream(ctx, client, url, i); err != nil {
			return s, err
		}
	}
	before, err := framework.UsageOf(process.pid())
	if err != nil {
		return s, err
	}
	start := time.Now()
	s.times, s.failed = patches(ctx, client, url, ids)
	took := time.Since(start)
	if s.usage, err = framework.UsageOf(process.pid()); err != nil {
		return s, err
	}
	s.streams, s.usage.CPU = n, time.Duration(float64(s.usage.CPU-before.CPU)/took.Seconds())
	return s, ctx.Err()
}

// patches sends each stream its share, second by second, spread over the second.
func patches(ctx context.Context, client *http.Client, url string, ids []string) (times []time.Duration, failed int) {
	var mu sync.Mutex
	var flight sync.WaitGroup
	slots := make(chan struct{}, senders)
	data := bytes.Repeat([]byte("2026-01-01T00:00:00Z level=info msg=\"request done\" status=200 n"), chunk/64)
	start := time.Now()
	for second := range int(streamsLast.Seconds()) {
		for i, id := range ids {
			due := start.Add(time.Duration(second)*time.Second + time.Second*time.Duration(i)/time.Duration(len(ids)))
			time.Sleep(time.Until(due))
			slots <- struct{}{}
			flight.Go(func() {
				defer func() { <-slots }()
				began := time.Now()
				_, err := ask(ctx, client, http.MethodPatch, url+"/logs/"+id+"/data", i, data, fmt.Sprintf("bytes %d-%d/*", second*len(data), (second+1)*len(data)-1))
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					failed++
					return
				}
				times = append(times, time.Since(began))
			})
		}
	}
	flight.Wait()
	slices.Sort(times)
	return times, failed
}

func makeStream(ctx context.Context, client *http.Client, url string, pod int) (id string, err error) {
	answer, err := ask(ctx, client, http.MethodPost, url+"/logs", pod, []byte(`{"name":"stdout","container":"main","start":"1"}`), "")
	if err != nil {
		return "", err
	}
	var made struct{ ID string }
	if err := json.Unmarshal(answer, &made); err != nil {
		return "", fmt.Errorf("making a stream: %w: %q", err, answer)
	}
	return made.ID, nil
}

func ask(ctx context.Context, client *http.Client, method, url string, pod int, body []byte, contentRange string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", fmt.Sprint("Bearer ", pod))
	request.Header.Set("Content-Type", "application/json")
	if contentRange != "" {
		request.Header.Set("Content-Type", "application/octet-stream")
		request.Header.Set("Content-Range", contentRange)
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err == nil && response.StatusCode >= 300 {
		err = fmt.Errorf("%s %s: %s: %s", method, url, response.Status, answer)
	}
	return answer, err
}

// A child is the service in a process of its own.
type child struct {
	command *exec.Cmd
	stdin   io.Closer
}

func startService(ctx context.Context, directory string) (c *child, url string, err error) {
	command := exec.CommandContext(ctx, "/proc/self/exe", "-serve", directory)
	command.Stderr = os.Stderr
	c = &child{command: command}
	if c.stdin, err = command.StdinPipe(); err != nil {
		return nil, "", err
	}
	out, err := command.StdoutPipe()
	if err != nil {
		return nil, "", err
	}
	if err := command.Start(); err != nil {
		return nil, "", fmt.Errorf("starting a service: %w", err)
	}
	line := make([]byte, 100)
	n, err := out.Read(line)
	if err != nil {
		return nil, "", errors.Join(fmt.Errorf("starting a service: %w", err), c.end())
	}
	return c, strings.TrimSpace(string(line[:n])), nil
}

func (c *child) pid() int { return c.command.Process.Pid }

func (c *child) end() error { return errors.Join(c.stdin.Close(), c.command.Wait()) }

// anyPod believes every token to be the name of a pod.
type anyPod struct{}

var errNobodyReads = errors.New("here, nobody reads")

func (anyPod) Writer(_ context.Context, token string) (api.Pod, error) {
	return api.Pod{Namespace: "bench", Name: "prints-" + token, UID: "uid-" + token}, nil
}

// Beginner implements api.Authenticator.
func (a anyPod) Beginner(ctx context.Context, token string) (api.Pod, error) {
	return a.Writer(ctx, token)
}

func (anyPod) Reader(context.Context, string) (api.User, error) { return api.User{}, errNobodyReads }

func (anyPod) MayRead(context.Context, api.User, string, string) error { return errNobodyReads }

func (anyPod) Namespace(context.Context, string) (api.Namespace, error) {
	return api.Namespace{}, errNobodyReads
}

// serve says where it listens, and serves until stdin ends.
func serve(directory string) error {
	files, err := storage.OpenFiles(directory)
	if err != nil {
		return err
	}
	defer func() { _ = files.Close() }()
	store, err := streams.Open(context.Background(), files)
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: api.New(store, anyPod{}, slog.New(slog.DiscardHandler)).Handler(), ReadHeaderTimeout: 10 * time.Second}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = server.Close()
	}()
	fmt.Printf("http://%s\n", listener.Addr())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
