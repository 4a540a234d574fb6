// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package order

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The kernel may choose the destination port as the source port.
func TestAConnectionToItselfIsNoAnswer(t *testing.T) {
	for name, free := range map[string]unix.Sockaddr{
		"IPv4": &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}},
		"IPv6": &unix.SockaddrInet6{Addr: [16]byte{15: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			family := unix.AF_INET
			if name == "IPv6" {
				family = unix.AF_INET6
			}
			fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			require.NoError(t, err)
			defer unix.Close(fd)
			require.NoError(t, unix.Bind(fd, free))
			here, err := unix.Getsockname(fd)
			require.NoError(t, err)
			require.NoError(t, unix.Connect(fd, here), "a simultaneous open (RFC 9293, 3.5)")

			c := &connection{fd: fd, step: connecting}
			over, err := c.advanceStep()
			require.ErrorIs(t, err, unix.ECONNREFUSED)
			require.False(t, over)
		})
	}

	server, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer server.Close()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	address, ok := server.Addr().(*net.TCPAddr)
	require.True(t, ok)
	require.NoError(t, unix.Connect(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}, Port: address.Port}))
	over, err := (&connection{fd: fd, step: connecting}).advanceStep()
	require.NoError(t, err)
	require.True(t, over)
}
