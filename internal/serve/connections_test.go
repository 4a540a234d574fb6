// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// dialFrom connects from an address of the loopback range.
func (r *running) dialFrom(address string) net.Conn {
	r.t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}, Timeout: time.Minute}
	connection, err := dialer.DialContext(r.t.Context(), "tcp", r.url[len("https://"):])
	require.NoError(r.t, err)
	r.t.Cleanup(func() { _ = connection.Close() })
	return connection
}

// request sends a request over a connection, and returns its answer's status.
func request(t *testing.T, connection net.Conn) (status string, err error) {
	t.Helper()
	if err := connection.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(connection, "GET / HTTP/1.1\r\nHost: webhook\r\n\r\n"); err != nil {
		return "", err
	}
	answer := make([]byte, len("HTTP/1.1 200"))
	if _, err := io.ReadFull(connection, answer); err != nil {
		return "", err
	}
	rest := make([]byte, 4096)
	_, err = connection.Read(rest)
	return string(answer[len("HTTP/1.1 "):]), err
}

func encrypted(connection net.Conn) net.Conn {
	return tls.Client(connection, &tls.Config{InsecureSkipVerify: true})
}

// isClosed reports whether the server closes a connection soon.
func isClosed(connection net.Conn) bool {
	_ = connection.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	_, err := connection.Read(make([]byte, 1))
	return err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
}

func TestAnAddressThatOpensConnectionsWithoutEndLosesItsOwn(t *testing.T) {
	r := runServer(t, &Server{Handler: http.HandlerFunc(ok), Quiet: time.Millisecond, Longest: never, Connections: NewConnections(30, 20)})
	modest := encrypted(r.dialFrom("127.0.0.2"))
	status, err := request(t, modest)
	require.NoError(t, err)
	require.Equal(t, "200", status)

	var greedy []net.Conn
	for range 100 {
		greedy = append(greedy, r.dialFrom("127.0.0.66"))
	}
	require.Eventually(t, func() bool {
		open := 0
		for _, connection := range greedy {
			if !isClosed(connection) {
				open++
			}
		}
		return open == 20
	}, time.Minute, time.Millisecond)
	status, err = request(t, modest)
	require.NoError(t, err, "the connection of another address stays")
	require.Equal(t, "200", status)
}

func TestConnectionsOfManyAddressesLeaveRoomForANewOne(t *testing.T) {
	r := runServer(t, &Server{Handler: http.HandlerFunc(ok), Quiet: time.Millisecond, Longest: never, Connections: NewConnections(30, 20)})
	for i := range 90 {
		r.dialFrom(fmt.Sprint("127.0.1.", 1+i%3))
	}
	for i := range 5 {
		status, err := request(t, encrypted(r.dialFrom(fmt.Sprint("127.0.2.", 1+i))))
		require.NoError(t, err)
		require.Equal(t, "200", status)
	}
}

func TestAConnectionInTheMiddleOfARequestStays(t *testing.T) {
	arrived, answer := make(chan struct{}, 2), make(chan struct{})
	r := runServer(t, &Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		arrived <- struct{}{}
		<-answer
		w.WriteHeader(http.StatusOK)
	}), Quiet: time.Millisecond, Longest: never, Connections: NewConnections(2, 2)})
	statuses := make(chan string, 2)
	for i := range 2 {
		go func() {
			status, err := request(t, encrypted(r.dialFrom(fmt.Sprint("127.0.0.", 2+i))))
			if err != nil {
				status = err.Error()
			}
			statuses <- status
		}()
		<-arrived
	}
	require.Eventually(t, func() bool { return isClosed(r.dialFrom("127.0.0.66")) }, time.Minute, time.Millisecond, "there is no room for a third")
	close(answer)
	require.Equal(t, "200", <-statuses)
	require.Equal(t, "200", <-statuses)
	status, err := request(t, encrypted(r.dialFrom("127.0.0.66")))
	require.NoError(t, err)
	require.Equal(t, "200", status)
}

func TestClosedConnectionsAreForgotten(t *testing.T) {
	connections := NewConnections(1000, 1000)
	r := runServer(t, &Server{Handler: http.HandlerFunc(ok), Quiet: time.Millisecond, Longest: never, Connections: connections})
	for range 50 {
		connection := encrypted(r.dialFrom("127.0.0.2"))
		_, err := request(t, connection)
		require.NoError(t, err)
		require.NoError(t, connection.Close())
	}
	require.Eventually(t, func() bool {
		connections.mu.Lock()
		defer connections.mu.Unlock()
		return connections.count == 0 && len(connections.addresses) == 0
	}, time.Minute, time.Millisecond)
}
