// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"crypto/tls"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
)

const (
	// pingTTL bounds the time for which the answer to a ping is repeated. An answer that
	// has become wrong is noticed earlier, because a lookup fails.
	pingTTL = 5 * time.Minute
	// maxPings is the number of answers that are kept, and maxChallenge the length of the
	// longest challenge, in bytes.
	maxPings     = 1024
	maxChallenge = 1 << 10
)

// pings keeps what registries have answered to pings. go-containerregistry begins each
// lookup by one, to learn how clients authenticate; the answer is the same for all clients.
// The zero value is ready for use.
type pings struct {
	mu    sync.Mutex
	known map[string]pong // by the URL of the ping
}

// A pong is the answer to a ping.
type pong struct {
	status    int
	challenge []string
	err       error // if the registry speaks plain HTTP
	at        time.Time
}

// of returns a transport that answers the pings of a registry by recent answers.
func (p *pings) of(registry name.Registry, next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		if !isPing(registry, req) {
			return next.RoundTrip(req)
		}
		url := req.URL.String()
		if before, ok := p.get(url); ok {
			return before.answer(req)
		}
		resp, err := next.RoundTrip(req)
		p.learn(url, resp, err)
		return resp, err
	})
}

// isPing reports whether a request is a registry's ping, and none to which it redirects.
func isPing(registry name.Registry, req *http.Request) bool {
	return req.Method == http.MethodGet && req.Response == nil && req.URL.Host == registry.RegistryStr() && req.URL.Path == "/v2/"
}

func (p *pings) get(url string) (pong, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before, ok := p.known[url]
	return before, ok && time.Since(before.at) < pingTTL
}

// learn keeps an answer that tells how clients authenticate, or that the registry speaks
// plain HTTP. A connection that fails tells nothing.
func (p *pings) learn(url string, resp *http.Response, err error) {
	now := pong{at: time.Now()}
	mismatch, isPlain := plainHTTP(err)
	switch {
	case isPlain:
		now.err = mismatch
	case err != nil || resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusUnauthorized:
		return
	default:
		now.status, now.challenge = resp.StatusCode, slices.Clone(resp.Header.Values("WWW-Authenticate"))
	}
	bytes := 0
	for _, challenge := range now.challenge {
		bytes += stringHeader + len(challenge)
	}
	if bytes > maxChallenge {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known == nil || len(p.known) >= maxPings {
		p.known = map[string]pong{}
	}
	p.known[url] = now
}

// plainHTTP returns the error of a TLS handshake that a registry answered by an HTTP
// response, without the connection. http.Client makes http.ErrSchemeMismatch of it.
func plainHTTP(err error) (_ tls.RecordHeaderError, ok bool) {
	failed, ok := errors.AsType[tls.RecordHeaderError](err)
	return tls.RecordHeaderError{Msg: failed.Msg, RecordHeader: failed.RecordHeader}, ok && string(failed.RecordHeader[:]) == "HTTP/"
}

// forget forgets what a registry answered before a time, and reports whether there was
// anything.
func (p *pings) forget(registry name.Registry, before time.Time) (found bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, scheme := range []string{"https", "http"} {
		url := scheme + "://" + registry.RegistryStr() + "/v2/"
		if known, ok := p.known[url]; ok && known.at.Before(before) {
			delete(p.known, url)
			found = true
		}
	}
	return found
}

// answer returns what the registry answered.
func (p pong) answer(req *http.Request) (*http.Response, error) {
	if p.err != nil {
		return nil, p.err
	}
	return &http.Response{
		Status: http.StatusText(p.status), StatusCode: p.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Www-Authenticate": slices.Clone(p.challenge)}, Body: http.NoBody, Request: req,
	}, nil
}
