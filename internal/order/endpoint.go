// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package order

import (
	"encoding/binary"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// An Endpoint is an IP address and a port. Its own type saves package net, which would
// double the size of the program, and net/netip, which starts a goroutine.
type Endpoint struct {
	IP   string // 4 or 16 bytes; "" stands for this pod's addresses
	Port int
}

// ParseEndpoint parses HOST:PORT. HOST is empty, an IPv4 address, or an IPv6 address in
// brackets.
func ParseEndpoint(value string) (e Endpoint, ok bool) {
	at := strings.LastIndexByte(value, ':')
	if at < 0 {
		return Endpoint{}, false
	}
	host, port := value[:at], value[at+1:]
	n, err := strconv.Atoi(port)
	if err != nil || n < 1 || n > 65535 || port[0] < '0' || port[0] > '9' {
		return Endpoint{}, false
	}
	if host == "" {
		return Endpoint{Port: n}, true
	}
	inBrackets, bracketed := strings.CutPrefix(host, "[")
	if bracketed {
		inBrackets, bracketed = strings.CutSuffix(inBrackets, "]")
	}
	var ip []byte
	if bracketed {
		ip, ok = parseIPv6(inBrackets)
	} else {
		ip, ok = parseIPv4(host)
	}
	return Endpoint{string(ip), n}, ok
}

func parseIPv4(s string) (ip []byte, ok bool) {
	for part := range strings.SplitSeq(s, ".") {
		n, err := strconv.ParseUint(part, 10, 8)
		if err != nil || part[0] == '+' || len(part) > 1 && part[0] == '0' {
			return nil, false
		}
		ip = append(ip, byte(n))
	}
	return ip, len(ip) == 4
}

// parseIPv6 accepts the text forms of RFC 4291, section 2.2, without a zone.
func parseIPv6(s string) (ip []byte, ok bool) {
	head, tail, shortened := strings.Cut(s, "::")
	ip, ok = parseGroups(head, !shortened)
	if !shortened {
		return ip, ok && len(ip) == 16
	}
	end, okToo := parseGroups(tail, true)
	zeros := 16 - len(ip) - len(end)
	if !ok || !okToo || zeros < 2 {
		return nil, false
	}
	return slices.Concat(ip, make([]byte, zeros), end), true
}

// parseGroups parses hexadecimal groups separated by colons. If last is true, the final
// group may be an IPv4 address.
func parseGroups(s string, last bool) (ip []byte, ok bool) {
	if s == "" {
		return nil, true
	}
	groups := strings.Split(s, ":")
	for i, group := range groups {
		if last && i == len(groups)-1 && strings.Contains(group, ".") {
			v4, ok := parseIPv4(group)
			return append(ip, v4...), ok
		}
		n, err := strconv.ParseUint(group, 16, 16)
		if err != nil || len(group) > 4 || group[0] == '+' {
			return nil, false
		}
		ip = binary.BigEndian.AppendUint16(ip, uint16(n))
	}
	return ip, true
}

// ParseURL parses http://HOST:PORT/PATH. HOST is as in ParseEndpoint.
func ParseURL(value string) (e Endpoint, path string, ok bool) {
	rest, isHTTP := strings.CutPrefix(value, "http://")
	host := rest
	if at := strings.IndexAny(rest, "/?"); at >= 0 {
		host, path = rest[:at], rest[at:]
	}
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	path, _, _ = strings.Cut(path, "#")
	e, ok = ParseEndpoint(host)
	return e, path, ok && isHTTP && !strings.ContainsFunc(path, func(r rune) bool { return r <= ' ' || r == 0x7f })
}

// IsHeader reports whether line is a header field, NAME: VALUE (RFC 9110, section 5).
func IsHeader(line string) bool {
	name, value, ok := strings.Cut(line, ":")
	token := func(r rune) bool {
		return r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	}
	return ok && name != "" && !strings.ContainsFunc(name, func(r rune) bool { return !token(r) }) && !strings.ContainsAny(value, "\r\n\x00")
}

// addresses returns the addresses to try, in order.
func (e *Endpoint) addresses() (list []unix.Sockaddr) {
	add := func(ip string) {
		switch len(ip) {
		case 4:
			list = append(list, &unix.SockaddrInet4{Port: e.Port, Addr: [4]byte([]byte(ip))})
		case 16:
			list = append(list, &unix.SockaddrInet6{Port: e.Port, Addr: [16]byte([]byte(ip))})
		}
	}
	if e.IP != "" {
		add(e.IP)
		return list
	}
	add("\x7f\x00\x00\x01")
	add(strings.Repeat("\x00", 15) + "\x01")
	add(sourceAddress(&unix.SockaddrInet4{Port: 9, Addr: [4]byte{192, 0, 2, 1}}))
	add(sourceAddress(&unix.SockaddrInet6{Port: 9, Addr: [16]byte{0x20, 0x01, 0x0d, 0xb8, 15: 1}}))
	return list
}

// sourceAddress returns the local address from which the pod would send to other, or ""
// if there is no route. Connecting a UDP socket sends no packet, so other can be an
// address that RFC 5737 and RFC 3849 reserve for documentation.
func sourceAddress(other unix.Sockaddr) string {
	family := unix.AF_INET
	if _, is := other.(*unix.SockaddrInet6); is {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return ""
	}
	defer unix.Close(fd)
	if unix.Connect(fd, other) != nil {
		return ""
	}
	own, err := unix.Getsockname(fd)
	if err != nil {
		return ""
	}
	return ipBytes(own)
}

func ipBytes(address unix.Sockaddr) string {
	switch a := address.(type) {
	case *unix.SockaddrInet4:
		return string(a.Addr[:])
	case *unix.SockaddrInet6:
		return string(a.Addr[:])
	}
	return ""
}
