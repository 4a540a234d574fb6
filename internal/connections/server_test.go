// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package connections

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/connections/connectionstest"
)

// of are the timeouts of the tests.
var of = Timeouts{Header: 10 * time.Second, Body: 20 * time.Second, Response: 45 * time.Second}

// A client is the other end of a connection to a server.
type client struct {
	net.Conn

	t *testing.T
}

// inFakeTime runs a test with clients of a server, encrypted and not.
func inFakeTime(t *testing.T, timeouts Timeouts, handler http.HandlerFunc, test func(t *testing.T, dial func() client)) {
	t.Helper()
	pair := selfSigned(t)
	for _, encrypted := range []bool{false, true} {
		t.Run(fmt.Sprintf("encrypted=%t", encrypted), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &http.Server{Handler: handler, ErrorLog: log.New(io.Discard, "", 0)}
				if encrypted {
					server.TLSConfig = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13}
				}
				listener := make(connectionstest.Listener)
				serve := Bind(server, listener, nil, timeouts)
				ended := make(chan error, 1)
				go func() { ended <- serve() }()
				var dialed []net.Conn
				test(t, func() client {
					ours := listener.Dial()
					dialed = append(dialed, ours)
					if !encrypted {
						return client{ours, t}
					}
					connection := tls.Client(ours, &tls.Config{InsecureSkipVerify: true})
					require.NoError(t, connection.Handshake())
					return client{connection, t}
				})
				// The server holds a mutex while it tells an open connection of its end, which nobody
				// reads. Fake time stands still while goroutines wait for a mutex.
				for _, ours := range dialed {
					_ = ours.Close()
				}
				require.NoError(t, server.Close())
				require.ErrorIs(t, <-ended, http.ErrServerClosed)
			})
		})
	}
}

// writes sends a text in pieces, with a pause before each, until the server has closed the
// connection, and reports when that was.
func (c client) writes(pause time.Duration, pieces ...string) (closedAfter time.Duration) {
	c.t.Helper()
	began := time.Now()
	closed := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, c.Conn)
		close(closed)
	}()
	for _, piece := range pieces {
		select {
		case <-closed:
			return time.Since(began)
		case <-time.After(pause):
			_, _ = io.WriteString(c.Conn, piece)
		}
	}
	<-closed
	return time.Since(began)
}

// asks sends a request, with a body in pieces, and returns the body of the response.
func (c client) asks(pause time.Duration, pieces ...string) (string, error) {
	c.t.Helper()
	header := fmt.Sprintf("POST / HTTP/1.1\r\nHost: server\r\nContent-Length: %d\r\n\r\n", len(strings.Join(pieces, "")))
	if _, err := io.WriteString(c.Conn, header); err != nil {
		return "", err
	}
	for _, piece := range pieces {
		time.Sleep(pause)
		if _, err := io.WriteString(c.Conn, piece); err != nil {
			return "", err
		}
	}
	response, err := http.ReadResponse(bufio.NewReader(c.Conn), nil)
	if err != nil {
		return "", err
	}
	answer, err := io.ReadAll(response.Body)
	return string(answer), errors.Join(err, response.Body.Close())
}

func echo(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }

// API servers open a connection if none is free, and may use another one that has become free
// meanwhile. They keep the new one for 90 seconds, and don't repeat a request that meets its end.
func TestAConnectionIsServedForAsLongAsAnAPIServerKeepsItUnused(t *testing.T) {
	inFakeTime(t, of, echo, func(t *testing.T, dial func() client) {
		connection := dial()
		for range 3 { // before its first request and its next
			time.Sleep(90 * time.Second)
			answer, err := connection.asks(0, "review")
			require.NoError(t, err)
			require.Equal(t, "review", answer)
		}
		require.LessOrEqual(t, connection.writes(0), idleTimeout, "not for ever")
		require.Equal(t, idleTimeout, dial().writes(0))
	})
}

// As slowloris does: each byte in time, and never a whole header.
func TestAHeaderHasToComeInTime(t *testing.T) {
	drip := strings.Split("POST / HTTP/1.1\r\nHost: server\r\nX: "+strings.Repeat("x", 1000), "")
	inFakeTime(t, of, echo, func(t *testing.T, dial func() client) {
		require.Equal(t, of.Header+time.Second, dial().writes(time.Second, drip...), "from its first byte")
		unused := dial()
		time.Sleep(90 * time.Second)
		require.Equal(t, of.Header+time.Second, unused.writes(time.Second, drip...))
		used := dial()
		for range 2 {
			_, err := used.asks(0, "review")
			require.NoError(t, err)
			time.Sleep(time.Minute)
		}
		require.Equal(t, of.Header+time.Second, used.writes(time.Second, drip...))
		for beginning, what := range map[string]string{"P": "of one byte", "POST / HTTP/1.1\r\n": "of a line"} {
			require.Equal(t, of.Header, dial().writes(0, beginning), what)
		}
		slow := dial()
		for _, part := range []string{"POST / HTTP/1.1\r\n", "Host: server\r\n", "Content-Length: 0\r\n"} {
			_, err := io.WriteString(slow, part)
			require.NoError(t, err)
			time.Sleep(of.Header/3 - time.Millisecond)
		}
		_, err := io.WriteString(slow, "\r\n")
		require.NoError(t, err)
		response, err := http.ReadResponse(bufio.NewReader(slow), nil)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, http.StatusOK, response.StatusCode, "a slow one that comes in time")
	})
}

func TestAHandshakeHasToComeInTime(t *testing.T) {
	pair := selfSigned(t)
	synctest.Test(t, func(t *testing.T) {
		server := &http.Server{Handler: http.HandlerFunc(echo), ErrorLog: log.New(io.Discard, "", 0), TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}}}
		listener := make(connectionstest.Listener)
		serve := Bind(server, listener, nil, of)
		ended := make(chan error, 1)
		go func() { ended <- serve() }()
		record := []string{"\x16", "\x03", "\x01", "\x02", "\x00", "\x01", "\x00", "\x01", "\xfc", "\x03", "\x03", "x", "x", "x", "x"}
		for what, sent := range map[string][]string{"nothing": nil, "a beginning": record[:1], "a beginning, byte by byte": record} {
			ours := listener.Dial()
			require.Equal(t, of.Header, client{ours, t}.writes(time.Second, sent...), what)
			require.NoError(t, ours.Close())
		}
		require.NoError(t, server.Close())
		require.ErrorIs(t, <-ended, http.ErrServerClosed)
	})
}

func TestABodyHasToComeInTime(t *testing.T) {
	inFakeTime(t, of, echo, func(t *testing.T, dial func() client) {
		connection := dial()
		time.Sleep(90 * time.Second)
		answer, err := connection.asks(of.Body/2-time.Millisecond, "a", "b")
		require.NoError(t, err, "a slow one, slower than a header")
		require.Equal(t, "ab", answer)
		began := time.Now()
		_, err = io.WriteString(connection, "POST / HTTP/1.1\r\nHost: server\r\nContent-Length: 6\r\n\r\nrev")
		require.NoError(t, err)
		_, _ = io.Copy(io.Discard, connection)
		require.Equal(t, of.Body, time.Since(began))
	})
}

func TestABodyWithoutATimeoutIsTheHandlersToBound(t *testing.T) {
	const own = time.Minute
	handler := func(w http.ResponseWriter, r *http.Request) {
		assert.NoError(t, http.NewResponseController(w).SetReadDeadline(time.Now().Add(own)))
		echo(w, r)
	}
	inFakeTime(t, Timeouts{Header: of.Header}, handler, func(t *testing.T, dial func() client) {
		connection := dial()
		answer, err := connection.asks(own/2-time.Millisecond, "a", "b")
		require.NoError(t, err)
		require.Equal(t, "ab", answer)
		began := time.Now()
		_, err = io.WriteString(connection, "POST / HTTP/1.1\r\nHost: server\r\nContent-Length: 6\r\n\r\nrev")
		require.NoError(t, err)
		_, _ = io.Copy(io.Discard, connection)
		require.Equal(t, own, time.Since(began))
	})
}

// Such as one that waits for what comes next in a log.
func TestARequestTakesLongerThanWhatItsClientMayTake(t *testing.T) {
	var cut chan error
	handler := func(w http.ResponseWriter, r *http.Request) {
		echo(w, r)
		select {
		case <-time.After(time.Hour):
			cut <- nil
		case <-r.Context().Done():
			cut <- r.Context().Err()
		}
	}
	inFakeTime(t, Timeouts{Header: of.Header, Body: of.Body}, handler, func(t *testing.T, dial func() client) {
		cut = make(chan error, 1)
		for _, body := range [][]string{nil, {"a"}, {"a", "b"}} {
			answer, err := dial().asks(time.Second, body...)
			require.NoError(t, err)
			require.Equal(t, strings.Join(body, ""), answer)
			require.NoError(t, <-cut)
		}
	})
}

func TestAResponseHasToBeReadInTime(t *testing.T) {
	var failed chan error
	handler := func(w http.ResponseWriter, _ *http.Request) {
		for {
			if _, err := w.Write(make([]byte, 1<<20)); err != nil {
				failed <- err
				return
			}
		}
	}
	inFakeTime(t, of, handler, func(t *testing.T, dial func() client) {
		failed = make(chan error, 1)
		_, err := io.WriteString(dial(), "GET / HTTP/1.1\r\nHost: server\r\n\r\n")
		require.NoError(t, err)
		began := time.Now()
		require.Error(t, <-failed)
		took := time.Since(began)
		require.GreaterOrEqual(t, took, of.Response)
		require.LessOrEqual(t, took, of.Response+5*time.Second, "TLS has as long for its last words")
	})
}

// A Limiter is told what connections do.
func TestAConnectionThatReadsAHeaderMakesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &http.Server{Handler: http.HandlerFunc(echo), ErrorLog: log.New(io.Discard, "", 0)}
		limiter := New(1, 1)
		listener := make(connectionstest.Listener)
		serve := Bind(server, listener, limiter, of)
		ended := make(chan error, 1)
		go func() { ended <- serve() }()
		var connections []net.Conn
		for range 2 {
			ours := listener.Dial()
			_, err := io.WriteString(ours, "POST / HTTP/1.1\r\n")
			require.NoError(t, err)
			connections = append(connections, ours)
		}
		_, err := connections[0].Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF)
		require.EqualValues(t, 1, limiter.Closed())
		last, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_ = server.Shutdown(last)
		require.NoError(t, connections[1].Close())
		require.ErrorIs(t, <-ended, http.ErrServerClosed)
	})
}
