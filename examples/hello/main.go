// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Hello says hello, and shows the processes that run it, from PID 1 down to
// itself. That is how one sees from inside a container what was put in front.
//
// With PORT set, which is what Knative does, it answers HTTP requests until it
// is told to stop. Without, it says everything once, on stdout, and exits.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

const (
	// mostSleep bounds what a client may ask for with ?sleep=.
	mostSleep = 30 * time.Second
	// drainPeriod is how long requests may take that are under way when it is told to stop.
	drainPeriod = 40 * time.Second
)

func main() {
	log.SetFlags(0)
	log.SetOutput(os.Stdout)
	port := os.Getenv("PORT")
	if port == "" {
		fmt.Print(answer())
		return
	}
	log.Print(answer())
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	err := serve(ctx, net.JoinHostPort("", port))
	stop()
	if err != nil {
		log.Fatal(err)
	}
	log.Print("stopped in order")
}

// serve answers requests until ctx ends, and returns when the last answer is given.
func serve(ctx context.Context, address string) error {
	server := &http.Server{Addr: address, Handler: http.HandlerFunc(hello), ReadHeaderTimeout: 10 * time.Second}
	drained := make(chan error, 1)
	go func() {
		<-ctx.Done()
		log.Print("told to stop, finishing requests")
		patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainPeriod)
		defer cancel()
		drained <- server.Shutdown(patience)
	}()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving at %q: %w", address, err)
	}
	if err := <-drained; err != nil {
		return fmt.Errorf("finishing requests: %w", err)
	}
	return nil
}

// hello answers, after as long as ?sleep= says.
func hello(w http.ResponseWriter, r *http.Request) {
	if sleep, err := time.ParseDuration(r.URL.Query().Get("sleep")); err == nil {
		time.Sleep(min(sleep, mostSleep))
	}
	fmt.Fprint(w, answer())
}

func answer() string {
	text := fmt.Sprintf("hello, %s\nPID   COMMAND\n", cmp.Or(os.Getenv("TARGET"), "world"))
	for _, p := range ancestry(os.Getpid()) {
		text += fmt.Sprintf("%5d %s\n", p.pid, p.command)
	}
	return text
}
