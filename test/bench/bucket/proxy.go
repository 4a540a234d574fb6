// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"sync"
	"sync/atomic"
	"time"
)

// A proxy stands before the S3 server. It counts requests, and adds to each the time that a
// request to S3 takes. It delays any number of requests at the same time.
type proxy struct {
	address string
	latency atomic.Int64 // a time.Duration
	server  *http.Server

	mu      sync.Mutex
	counted tally
}

func startProxy(ctx context.Context, to string, latency time.Duration) (*proxy, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{address: listener.Addr().String()}
	p.latency.Store(int64(latency))
	pass := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { // the host is signed, so it stays
			r.Out.URL.Scheme, r.Out.URL.Host = "http", to
		},
		Transport: &http.Transport{MaxIdleConnsPerHost: maxToS3, MaxConnsPerHost: maxToS3, DisableCompression: true},
		ErrorLog:  log.New(io.Discard, "", 0), // clients that have gone
	}
	p.server = &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.count(r)
		time.Sleep(time.Duration(p.latency.Load()))
		pass.ServeHTTP(w, r)
	})}
	go func() { _ = p.server.Serve(listener) }()
	return p, nil
}

// maxToS3 bounds the connections to the S3 server, which takes 1,000.
const maxToS3 = 500

// count counts a request by what S3 bills: the bucket is the first part of the path.
func (p *proxy) count(r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	query := r.URL.Query()
	switch {
	case r.Method == http.MethodDelete, r.Method == http.MethodPost && query.Has("delete"): // of several objects
		p.counted.deletes++
	case r.Method == http.MethodPut, r.Method == http.MethodPost:
		p.counted.puts++
	case r.Method == http.MethodGet && (query.Has("list-type") || query.Has("prefix") || query.Has("delimiter")):
		p.counted.lists++
	default: // GET and HEAD
		p.counted.gets++
	}
}

func (p *proxy) calls() tally {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.counted
}

func (p *proxy) close() { _ = p.server.Close() }
