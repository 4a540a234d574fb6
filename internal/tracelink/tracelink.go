// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package tracelink makes the addresses of traces in a tracing system, such as Jaeger or
// Grafana, by the template of an operator.
package tracelink

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// Placeholder is replaced by the id of a trace, which has so many lower-case hexadecimal digits.
const (
	Placeholder = "{traceID}"
	digits      = 32
)

// maxTemplate bounds a template, in bytes.
const maxTemplate = 2000

// A Template makes the addresses of traces. The zero value makes none.
type Template struct{ text, host string }

// Parse parses a template: a URL of http or https with [Placeholder] in its path, its query or
// its fragment. "" is the zero value.
func Parse(text string) (Template, error) {
	if text == "" {
		return Template{}, nil
	}
	host, err := hostOf(text)
	if err != nil {
		return Template{}, fmt.Errorf("reading the template %.200q of the addresses of traces: %w; it is one like https://jaeger.example/trace/%s", text, err, Placeholder)
	}
	return Template{text, host}, nil
}

func hostOf(text string) (string, error) {
	if len(text) > maxTemplate {
		return "", fmt.Errorf("it has more than %d bytes", maxTemplate)
	}
	if !strings.Contains(text, Placeholder) {
		return "", fmt.Errorf("it has no %s, in the place of which the id of a trace is", Placeholder)
	}
	const one, other = "1", "2"
	address, err := url.Parse(strings.ReplaceAll(text, Placeholder, one))
	if err != nil {
		return "", errors.New("it is no URL")
	}
	again, err := url.Parse(strings.ReplaceAll(text, Placeholder, other))
	switch {
	case err != nil:
		return "", errors.New("it is no URL")
	case address.Scheme != "http" && address.Scheme != "https":
		return "", errors.New("it isn't a URL of http or https")
	case address.Host == "" || address.Hostname() == "":
		return "", errors.New("it has no host")
	case address.User != nil:
		return "", errors.New("it has a user, whom everybody who sees the link would see")
	case address.Host != again.Host:
		return "", fmt.Errorf("%s is in its host", Placeholder)
	}
	return address.Host, nil
}

// Address returns the address of the trace of an id, "" if the template is zero, or if the id
// isn't 32 lower-case hexadecimal digits.
func (t Template) Address(id string) string {
	if len(id) != digits || strings.Trim(id, "0123456789abcdef") != "" {
		return ""
	}
	return strings.ReplaceAll(t.text, Placeholder, id)
}

// Host returns the host to which addresses lead, with its port if it has one.
func (t Template) Host() string { return t.host }

// String returns the text of the template.
func (t Template) String() string { return t.text }
