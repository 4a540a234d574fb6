// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package connections

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A server is an HTTPS server whose connections are bounded.
type server struct {
	t       *testing.T
	address string
}

func serve(t *testing.T, limiter *Limiter, handler http.HandlerFunc) server {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &http.Server{Handler: handler, ErrorLog: log.New(io.Discard, "", 0), TLSConfig: &tls.Config{
		ClientAuth: tls.RequestClientCert, Certificates: []tls.Certificate{selfSigned(t)},
	}}
	serving := Bind(s, listener, limiter, Timeouts{Header: 10 * time.Second})
	ended := make(chan error, 1)
	go func() { ended <- serving() }()
	t.Cleanup(func() {
		require.NoError(t, s.Close())
		require.ErrorIs(t, <-ended, http.ErrServerClosed)
	})
	return server{t, listener.Addr().String()}
}

// selfSigned returns a certificate.
func selfSigned(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key}
}

func ok(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }

// dialFrom connects from an address of the loopback range.
func (s server) dialFrom(address string) net.Conn {
	s.t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}, Timeout: time.Minute}
	connection, err := dialer.DialContext(s.t.Context(), "tcp", s.address)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = connection.Close() })
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
	s := serve(t, New(30, 20), ok)
	modest := encrypted(s.dialFrom("127.0.0.2"))
	status, err := request(t, modest)
	require.NoError(t, err)
	require.Equal(t, "200", status)

	var greedy []net.Conn
	for range 100 {
		greedy = append(greedy, s.dialFrom("127.0.0.66"))
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
	s := serve(t, New(30, 20), ok)
	for i := range 90 {
		s.dialFrom(fmt.Sprint("127.0.1.", 1+i%3))
	}
	for i := range 5 {
		status, err := request(t, encrypted(s.dialFrom(fmt.Sprint("127.0.2.", 1+i))))
		require.NoError(t, err)
		require.Equal(t, "200", status)
	}
}

// active opens connections from an address, each in the middle of a request.
func (s server) active(address string, count int) {
	s.t.Helper()
	for range count {
		connection := encrypted(s.dialFrom(address))
		_, err := io.WriteString(connection, "POST / HTTP/1.1\r\nHost: webhook\r\nContent-Length: 100\r\n\r\nx")
		require.NoError(s.t, err)
	}
}

// As two attackers do, both within their bounds.
func TestAnAddressThatHasFewConnectionsKeepsThemAndGetsMore(t *testing.T) {
	limiter := New(12, 6)
	reading := make(chan struct{}, 12)
	s := serve(t, limiter, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			reading <- struct{}{}
		}
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusOK)
	})
	modest := encrypted(s.dialFrom("127.0.0.2"))
	status, err := request(t, modest)
	require.NoError(t, err)
	require.Equal(t, "200", status)
	s.active("127.0.0.66", 6)
	s.active("127.0.0.67", 5)
	for range 11 {
		<-reading
	}
	for range 20 { // closed, because others have fewer
		require.Eventually(t, func() bool { return isClosed(s.dialFrom("127.0.0.67")) }, time.Minute, time.Millisecond)
	}
	status, err = request(t, modest)
	require.NoError(t, err, "its connection stays")
	require.Equal(t, "200", status)
	for range 2 {
		status, err = request(t, encrypted(s.dialFrom("127.0.0.2")))
		require.NoError(t, err, "there is room for another")
		require.Equal(t, "200", status)
	}
	require.Equal(t, 12, limiter.Open())
}

// Parsed, such a certificate takes twenty times its length for as long as the connection
// lives.
func TestAClientWithALongCertificateIsCutOff(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	for usages, accepted := range map[int]bool{1000: true, 30_000: false} {
		template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
		for range usages {
			template.UnknownExtKeyUsage = append(template.UnknownExtKeyUsage, asn1.ObjectIdentifier{1, 2})
		}
		raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
		require.NoError(t, err)
		s := serve(t, New(2, 2), ok)
		connection := tls.Client(s.dialFrom("127.0.0.2"), &tls.Config{
			InsecureSkipVerify: true, Certificates: []tls.Certificate{{Certificate: [][]byte{raw}, PrivateKey: key}},
		})
		_, err = request(t, connection)
		require.Equal(t, accepted, err == nil, "%d bytes: %v", len(raw), err)
	}
}

func TestAConnectionInTheMiddleOfARequestStays(t *testing.T) {
	arrived, answer := make(chan struct{}, 2), make(chan struct{})
	limiter := New(2, 2)
	s := serve(t, limiter, func(w http.ResponseWriter, _ *http.Request) {
		arrived <- struct{}{}
		<-answer
		w.WriteHeader(http.StatusOK)
	})
	statuses := make(chan string, 2)
	for i := range 2 {
		go func() {
			status, err := request(t, encrypted(s.dialFrom(fmt.Sprint("127.0.0.", 2+i))))
			if err != nil {
				status = err.Error()
			}
			statuses <- status
		}()
		<-arrived
	}
	require.Eventually(t, func() bool { return isClosed(s.dialFrom("127.0.0.66")) }, time.Minute, time.Millisecond, "there is no room for a third")
	require.Equal(t, 2, limiter.Open())
	require.Positive(t, limiter.Closed())
	close(answer)
	require.Equal(t, "200", <-statuses)
	require.Equal(t, "200", <-statuses)
	status, err := request(t, encrypted(s.dialFrom("127.0.0.66")))
	require.NoError(t, err)
	require.Equal(t, "200", status)
}

func TestClosedConnectionsAreForgotten(t *testing.T) {
	limiter := New(1000, 1000)
	s := serve(t, limiter, ok)
	for range 50 {
		connection := encrypted(s.dialFrom("127.0.0.2"))
		_, err := request(t, connection)
		require.NoError(t, err)
		require.NoError(t, connection.Close())
	}
	require.Eventually(t, func() bool {
		limiter.mu.Lock()
		defer limiter.mu.Unlock()
		return limiter.count == 0 && len(limiter.addresses) == 0
	}, time.Minute, time.Millisecond)
}
