// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"time"

	"k8s.io/client-go/rest"

	"github.com/entrypointer/entrypointer/internal/connections"
	"github.com/entrypointer/entrypointer/internal/logs/authority"
	"github.com/entrypointer/entrypointer/internal/logs/endpoint"
	"github.com/entrypointer/entrypointer/internal/logs/identity"
	"github.com/entrypointer/entrypointer/internal/logs/pageserver"
	"github.com/entrypointer/entrypointer/internal/logview"
)

const (
	// pageService is the Service of the page.
	pageService = "page"
	// The connections of the page all come from the addresses of a few proxies.
	mostPageConnections = 256
	// pageBodyTimeout and pageTimeout bound the body of a request and its response. What waits
	// for a log, or writes one, extends the latter.
	pageBodyTimeout, pageTimeout = 10 * time.Second, time.Minute
	// maxPageHeader bounds the header of a request, in bytes: proxies hand on their cookies, of
	// some 4 KiB each, beside the token. The limiter of connections bounds it with the handshake.
	maxPageHeader = 32 << 10
)

// namesOf returns the names that the certificate has.
func namesOf(s settings) []string {
	if s.listenPage == "" {
		return serverNames
	}
	host := pageService + "." + endpoint.Namespace
	return append(slices.Clone(serverNames), host+".svc", host+".svc.cluster.local", host)
}

// A site is the page with its port.
type site struct {
	*port

	pages *pageserver.Server
}

// newSite listens for the page, and returns nil without it.
func newSite(ctx context.Context, reviewer *identity.Reviewer, config *rest.Config, logger *slog.Logger, s settings) (*site, error) {
	if s.listenPage == "" {
		return nil, nil
	}
	if err := logview.CheckDirectory(""); err != nil {
		return nil, fmt.Errorf("looking for room for the logs that users of the page open: %w: mount a volume there to which the service can write, or set TMPDIR to another directory", err)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.listenPage)
	if err != nil {
		return nil, fmt.Errorf("listening for the page: %w", err)
	}
	pages := pageserver.New(pageserver.Options{Config: config, Reviewer: reviewer, Logger: logger, Disk: s.pageDisk})
	return &site{&port{listener: listener, handler: pages, limiter: connections.New(mostPageConnections, mostPageConnections)}, pages}, nil
}

// with returns ports with that of the page.
func (p *site) with(ports map[string]*port) map[string]*port {
	if p == nil {
		return ports
	}
	all := maps.Clone(ports)
	all["page"] = p.port
	return all
}

// serve serves the page until ctx is done. Requests that wait for a log end then.
func (p *site) serve(ctx context.Context, logger *slog.Logger, ca *authority.Authority) error {
	if p == nil {
		return nil
	}
	defer p.pages.Close()
	return servePage(ctx, logger, p.port, ca)
}

func servePage(ctx context.Context, logger *slog.Logger, p *port, ca *authority.Authority) error {
	server := &http.Server{ //nolint:gosec // connections.Bind bounds the time of headers
		Handler:        p.handler,
		TLSConfig:      p.tls(ca),
		ErrorLog:       connections.ErrorLog(logger.Debug, logger.Error),
		MaxHeaderBytes: maxPageHeader,
		BaseContext:    func(net.Listener) context.Context { return ctx },
	}
	return serveUntilDone(ctx, server, connections.Bind(server, p.listener, p.limiter, connections.Timeouts{
		Header: headerTimeout, Body: pageBodyTimeout, Response: pageTimeout,
	}))
}
