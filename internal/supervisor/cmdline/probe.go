// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cmdline

import "github.com/entrypointer/entrypointer/internal/order"

// CheckProbe rejects flags of a probe, whose names begin with prefix, that can't work
// together.
func CheckProbe(p *order.Probe, prefix, probe string) error {
	flags := "-" + prefix + "-"
	switch {
	case p.Kinds() > 1:
		return Failure(flags+"...", "more than one "+probe+": use one of "+flags+"exec, "+flags+"tcp and "+flags+"http")
	case p.Headers != nil && p.HTTP == nil:
		return Failure(flags+"http-header="+p.Headers[0], "no request has this header: use "+flags+"http as well")
	}
	return nil
}

// ProbeWord adds a word of a program.
//
//go:noinline
func ProbeWord(p *order.Probe) func(value string) (hint string) {
	return func(value string) string {
		p.Exec = append(p.Exec, value)
		return ""
	}
}

// ProbeTCP sets the endpoint of a TCP connection.
//
//go:noinline
func ProbeTCP(p *order.Probe) func(value string) (hint string) {
	return func(value string) string {
		e, ok := order.ParseEndpoint(value)
		if !ok {
			return "not an endpoint: use HOST:PORT with an IP address or nothing as the host"
		}
		p.TCP = &e
		return ""
	}
}

// ProbeHTTP sets the URL of a GET.
//
//go:noinline
func ProbeHTTP(p *order.Probe) func(value string) (hint string) {
	return func(value string) string {
		e, path, ok := order.ParseURL(value)
		if !ok {
			return "not a URL to probe: use http://HOST:PORT/PATH with an IP address or nothing as the host"
		}
		p.HTTP, p.Path = &e, path
		return ""
	}
}

// ProbeHeader adds a header of the GET.
//
//go:noinline
func ProbeHeader(p *order.Probe) func(value string) (hint string) {
	return func(value string) string {
		if !order.IsHeader(value) {
			return "not a header: use NAME: VALUE"
		}
		p.Headers = append(p.Headers, value)
		return ""
	}
}
