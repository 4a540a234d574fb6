// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"k8s.io/client-go/util/cert"

	"github.com/entrypointer/entrypointer/internal/connections/connectionstest"
)

const never = time.Hour

// running is a server, and a client that keeps its connections, as an API server does.
type running struct {
	t      *testing.T
	url    string
	client *http.Client
	stop   func()
	ended  chan error
	logged *observer.ObservedLogs
}

func run(t *testing.T, quiet, longest time.Duration, handler http.HandlerFunc) *running {
	t.Helper()
	return runServer(t, &Server{Handler: handler, Quiet: quiet, Longest: longest})
}

func selfSigned(t *testing.T) tls.Certificate {
	t.Helper()
	certificate, key, err := cert.GenerateSelfSignedCertKey("webhook", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	require.NoError(t, err)
	pair, err := tls.X509KeyPair(certificate, key)
	require.NoError(t, err)
	return pair
}

func runServer(t *testing.T, server *Server) *running {
	t.Helper()
	pair := selfSigned(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	core, logged := observer.New(zapcore.InfoLevel)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13}
	server.Logger = zap.New(core).Sugar()
	ctx, stop := context.WithCancel(t.Context())
	r := &running{
		t: t, url: "https://" + listener.Addr().String(), stop: stop, ended: make(chan error, 1), logged: logged,
		client: &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}},
	}
	t.Cleanup(r.client.CloseIdleConnections)
	go func() { r.ended <- server.Run(ctx, listener) }()
	return r
}

// get returns the status, and whether the server closed the connection.
func (r *running) get(agent string) (int, bool, error) {
	request, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, r.url, nil)
	require.NoError(r.t, err)
	request.Header.Set("User-Agent", agent)
	response, err := r.client.Do(request)
	if err != nil {
		return 0, false, err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return response.StatusCode, response.Close, err
}

func ok(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }

func TestAServerThatDrainsAnswersAndClosesTheConnection(t *testing.T) {
	r := run(t, never, never, ok)
	status, closed, err := r.get("kube-apiserver")
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status)
	require.False(t, closed)

	r.stop()
	require.Eventually(t, func() bool {
		status, closed, err = r.get("kube-apiserver")
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, status)
		return closed
	}, time.Minute, time.Millisecond)
	status, _, err = r.get("kube-probe/1.36")
	require.NoError(t, err)
	require.Equal(t, http.StatusServiceUnavailable, status, "it isn't ready any more")
}

func TestDrainingEndsThoughRequestsKeepComing(t *testing.T) {
	r := run(t, never, 100*time.Millisecond, ok)
	_, _, err := r.get("kube-apiserver")
	require.NoError(t, err)
	r.stop()
	for {
		select {
		case err := <-r.ended:
			require.NoError(t, err)
			return
		default:
			// After the end there is nobody to connect to.
			_, _, _ = r.get("kube-apiserver")
		}
	}
}

func TestDrainingEndsWhenRequestsHaveCeased(t *testing.T) {
	r := run(t, 10*time.Millisecond, never, ok)
	_, _, err := r.get("kube-apiserver")
	require.NoError(t, err)
	r.stop()
	require.NoError(t, <-r.ended)
	require.Zero(t, r.logged.FilterLevelExact(zapcore.ErrorLevel).Len())
}

func TestDrainingEndsWhenNoAPIServerCallsAnyMore(t *testing.T) {
	var uncalled atomic.Bool
	r := runServer(t, &Server{Handler: http.HandlerFunc(ok), Quiet: never, Longest: never, Uncalled: uncalled.Load})
	_, _, err := r.get("kube-apiserver")
	require.NoError(t, err)
	r.stop()
	var closed bool
	require.Eventually(t, func() bool {
		_, closed, err = r.get("kube-apiserver")
		return err == nil && closed
	}, time.Minute, time.Millisecond, "it drains, and answers")
	uncalled.Store(true)
	require.NoError(t, <-r.ended)
}

func TestProbesFailUntilAPIServersCanCall(t *testing.T) {
	var ready atomic.Bool
	r := runServer(t, &Server{Handler: http.HandlerFunc(ok), Quiet: time.Millisecond, Longest: never, Ready: func() error {
		if !ready.Load() {
			return errors.New("there is no CA bundle yet")
		}
		return nil
	}})
	for range 2 {
		status, _, err := r.get("kube-probe/1.36")
		require.NoError(t, err)
		require.Equal(t, http.StatusServiceUnavailable, status)
	}
	status, _, err := r.get("kube-apiserver")
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status, "a request that comes nevertheless is answered")
	ready.Store(true)
	for range 2 {
		status, _, err = r.get("kube-probe/1.36")
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, status)
	}
	require.Equal(t, 1, r.logged.FilterMessage("Not ready for requests").FilterField(zap.String("reason", "there is no CA bundle yet")).Len(), "a reason is one line")
	require.Equal(t, 1, r.logged.FilterMessage("Ready for requests").Len())
	r.stop()
	require.NoError(t, <-r.ended)
}

func TestARequestThatIsUnderWayIsAnsweredBeforeTheEnd(t *testing.T) {
	arrived, answer := make(chan struct{}), make(chan struct{})
	r := run(t, time.Millisecond, time.Millisecond, func(w http.ResponseWriter, _ *http.Request) {
		close(arrived)
		<-answer
		w.WriteHeader(http.StatusOK)
	})
	answered := make(chan error, 1)
	go func() {
		_, _, err := r.get("kube-apiserver")
		answered <- err
	}()
	<-arrived
	r.stop()
	require.Eventually(t, func() bool {
		connection, err := net.Dial("tcp", r.url[len("https://"):])
		if err == nil {
			_ = connection.Close()
		}
		return err != nil
	}, time.Minute, time.Millisecond, "nobody can connect any more")
	close(answer)
	require.NoError(t, <-answered)
	require.NoError(t, <-r.ended)
}

// All of it would be in the log.
func TestALongHeaderIsRefused(t *testing.T) {
	r := run(t, time.Millisecond, never, ok)
	for agent, want := range map[string]int{
		strings.Repeat("x", maxHeader/2): http.StatusOK,
		strings.Repeat("x", maxHeader*2): http.StatusRequestHeaderFieldsTooLarge,
	} {
		status, _, err := r.get(agent)
		require.NoError(t, err)
		require.Equal(t, want, status)
	}
}

func TestAClientThatSpeaksNoTLSIsNoError(t *testing.T) {
	r := run(t, time.Millisecond, never, ok)
	connection, err := net.Dial("tcp", r.url[len("https://"):])
	require.NoError(t, err)
	_, err = connection.Write([]byte("GET / HTTP/1.1\r\n\r\n"))
	require.NoError(t, err)
	_, _ = io.Copy(io.Discard, connection)
	require.NoError(t, connection.Close())
	r.stop()
	require.NoError(t, <-r.ended)
	require.Zero(t, r.logged.FilterLevelExact(zapcore.ErrorLevel).Len())
}

// API servers open a connection if none is free, and may use another one that has become free
// meanwhile. They keep the new one for 90 seconds, and don't repeat a request that meets its end.
func TestAConnectionIsServedForAsLongAsAnAPIServerKeepsItUnused(t *testing.T) {
	pair := selfSigned(t)
	synctest.Test(t, func(t *testing.T) {
		listener := make(connectionstest.Listener)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		server := &Server{
			TLS: &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13}, Logger: zap.NewNop().Sugar(),
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }), Quiet: time.Second, Longest: time.Second,
		}
		go func() { ended <- server.Run(ctx, listener) }()
		ours := listener.Dial()
		connection := tls.Client(ours, &tls.Config{InsecureSkipVerify: true})
		require.NoError(t, connection.Handshake())
		for range 2 { // before its first request and its next
			time.Sleep(90 * time.Second)
			request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://webhook/", strings.NewReader("review"))
			require.NoError(t, err)
			require.NoError(t, request.Write(connection))
			response, err := http.ReadResponse(bufio.NewReader(connection), request)
			require.NoError(t, err)
			answer, err := io.ReadAll(response.Body)
			require.NoError(t, errors.Join(err, response.Body.Close()))
			require.Equal(t, "review", string(answer))
		}

		// A body that doesn't come to its end is given up.
		_, err := io.WriteString(connection, "POST / HTTP/1.1\r\nHost: webhook\r\nContent-Length: 6\r\n\r\nrev")
		require.NoError(t, err)
		began := time.Now()
		_, _ = io.Copy(io.Discard, connection)
		require.LessOrEqual(t, time.Since(began), responseTimeout+time.Second)
		stop()
		require.NoError(t, <-ended)
	})
}
