// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"errors"
	"fmt"
	"net/url"
)

// DefaultPerfetto is the address of the Perfetto that its authors serve.
const DefaultPerfetto = "https://ui.perfetto.dev"

// A Perfetto is where a Perfetto is served that opens traces. The zero value is none.
type Perfetto struct{ address, host string }

// ParsePerfetto parses the address of a Perfetto, a URL of http or https. "" is the zero value.
func ParsePerfetto(text string) (Perfetto, error) {
	if text == "" {
		return Perfetto{}, nil
	}
	address, err := url.Parse(text)
	switch {
	case err != nil:
		err = errors.New("it is no URL")
	case address.Scheme != "http" && address.Scheme != "https":
		err = errors.New("it isn't a URL of http or https")
	case address.Hostname() == "":
		err = errors.New("it has no host")
	case address.User != nil:
		err = errors.New("it has a user")
	default:
		return Perfetto{address.String(), address.Host}, nil
	}
	return Perfetto{}, fmt.Errorf("reading the address %.200q of a Perfetto: %w; it is one like %s", text, err, DefaultPerfetto)
}

// A perfettoView is what the browser needs to hand the trace of a run to a Perfetto.
type perfettoView struct {
	Address, Host string
	Title, File   string // of the trace
}

// perfettoOf returns what the page of a run says, nil without a Perfetto.
func (s *server) perfettoOf(q question) *perfettoView {
	if s.Perfetto.address == "" {
		return nil
	}
	return &perfettoView{s.Perfetto.address, s.Perfetto.host, q.target.String() + " in " + q.client.Namespace, fileName(q.target.Of, perfettoFile)}
}
