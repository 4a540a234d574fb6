// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package order

import (
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzParseEndpoint compares with package net/netip, except for zones. A zone would
// have to name an interface of the pod.
func FuzzParseEndpoint(f *testing.F) {
	for _, seed := range []string{
		":5432", "127.0.0.1:80", "[::1]:80", "[2001:db8::1]:1", "[::ffff:1.2.3.4]:65535", "[1:2:3:4:5:6:7:8]:9", "[1::]:1", "[::]:1",
		"", ":", ":0", ":65536", ":+1", "1.2.3:1", "1.2.3.04:1", "1.2.3.256:1", "localhost:1", "::1:80", "[::1%eth0]:80", "[1::2::3]:1", "[:1]:1", "[1:]:1",
		"[1:2:3:4:5:6:7:1.2.3.4]:1", "[1:2:3:4:5:6:1.2.3.4]:1", "[1.2.3.4::]:1", "[1:2:3:4::5:6:7:8]:1", "[]:1", "[+1::]:1", "1.2.3.4:080",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		got, ok := ParseEndpoint(value)
		want, err := netip.ParseAddrPort(value)
		if port, isPort := strings.CutPrefix(value, ":"); isPort {
			n, err := strconv.ParseUint(port, 10, 16)
			require.Equal(t, err == nil && n > 0, ok)
			return
		}
		require.Equal(t, err == nil && want.Addr().Zone() == "" && want.Port() > 0, ok, "%q", value)
		if ok {
			require.Equal(t, string(want.Addr().AsSlice()), got.IP)
			require.Equal(t, int(want.Port()), got.Port)
		}
	})
}

func TestParseURL(t *testing.T) {
	local := Endpoint{"\x7f\x00\x00\x01", 8080}
	for value, want := range map[string]struct {
		e    Endpoint
		path string
	}{
		"http://127.0.0.1:8080":           {local, "/"},
		"http://127.0.0.1:8080/healthz":   {local, "/healthz"},
		"http://127.0.0.1:8080/a?b=c%20d": {local, "/a?b=c%20d"},
		"http://127.0.0.1:8080?b=c":       {local, "/?b=c"},
		"http://127.0.0.1:8080/a#b":       {local, "/a"},
		"http://:80/":                     {Endpoint{"", 80}, "/"},
		"http://[::1]:80/":                {Endpoint{strings.Repeat("\x00", 15) + "\x01", 80}, "/"},
	} {
		e, path, ok := ParseURL(value)
		require.True(t, ok, value)
		require.Equal(t, want.e, e, value)
		require.Equal(t, want.path, path, value)
	}
	for _, value := range []string{
		"", "http://", "https://:1/", "http://:1/a b", "http://:1/a\r\nEvil: 1", "http://:1/\x7f", "http://localhost:1/", "http://:/", "http:/:1/", "http://user@:1/",
	} {
		_, _, ok := ParseURL(value)
		require.False(t, ok, value)
	}
	_, err := url.Parse("http://:80/healthz") // what a user may write is a URL
	require.NoError(t, err)
}

func TestHeaders(t *testing.T) {
	for _, line := range []string{"A: b", "X-Probe:", "a:b: c", "Host: example"} {
		require.True(t, IsHeader(line), line)
	}
	for _, line := range []string{"", ":", ": a", "A", "A b: c", "A: b\r\nC: d", "A: \n", "Ä: b"} {
		require.False(t, IsHeader(line), line)
	}
	require.Equal(t, "GET /a HTTP/1.1\r\nUser-Agent: entrypointer\r\nAccept: */*\r\nConnection: close\r\nhost: other\r\nX: y\r\n\r\n",
		string(formatRequest(methodGet, "127.0.0.1:80", "/a", []string{"host: other", "X: y"})))
	require.Contains(t, string(formatRequest(methodGet, "127.0.0.1:80", "/", nil)), "\r\nHost: 127.0.0.1:80\r\n")
	require.Equal(t, "POST /a HTTP/1.1\r\nHost: [::1]:80\r\nUser-Agent: entrypointer\r\nAccept: */*\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
		string(formatRequest(methodPost, "[::1]:80", "/a", nil)))
}

func TestHostHeaders(t *testing.T) {
	for _, host := range []string{"127.0.0.1:80", "[::1]:8080", "[2001:db8:0:0:0:0:0:1]:443"} {
		e, ok := ParseEndpoint(host)
		require.True(t, ok)
		require.Equal(t, host, hostHeader(e.addresses()[0]))
	}
}
