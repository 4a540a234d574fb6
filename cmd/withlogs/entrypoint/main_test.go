// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/logs/api"
	"github.com/entrypointer/entrypointer/internal/logs/streams"
	"github.com/entrypointer/entrypointer/internal/logs/streams/streamstest"
	"github.com/entrypointer/entrypointer/internal/logs/times"
	"github.com/entrypointer/entrypointer/pkg/loglabels"
)

// The tests start the supervisor as a process, with a log service in this process, and
// compare the stored streams with the output of the command. A stand-in authenticates the
// pod in the place of the API server.

const (
	// deadline bounds steps that take milliseconds on an idle machine.
	deadline = 3 * time.Minute
	// patience is the -logs-flush of the tests: longer than the slowest delivery to a service
	// that is up. A container that ends earlier has waited for nothing.
	patience = 5 * time.Minute
)

var (
	built      = flag.String("entrypoint.bin", "", "`directory` of the program under test, if it is built already")
	entrypoint string
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir := *built
	if dir == "" {
		var err error
		if dir, err = os.MkdirTemp("", "entrypoint-test-"); err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", dir+"/", ".")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			panic(fmt.Sprintf("%v: %v\n%s", build, err, out))
		}
	}
	entrypoint = filepath.Join(dir, "entrypoint")
	manyAtOnce()
	return m.Run()
}

// manyAtOnce has more parallel tests run at once than there are processors, unless
// -parallel says how many: they mostly wait for processes.
func manyAtOnce() {
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		_ = flag.Set("test.parallel", "4")
	}
}

const podToken = "token-of-the-pod"

// onlyPod authenticates one pod by its token.
type onlyPod struct{}

var errNobodyReads = errors.New("these tests read the streams themselves")

func (onlyPod) Writer(_ context.Context, token string) (api.Pod, error) {
	if token != podToken {
		return api.Pod{}, api.ErrUnauthenticated
	}
	return api.Pod{Namespace: "tenant", Name: "pod", UID: "uid"}, nil
}

// Beginner implements api.Authenticator.
func (p onlyPod) Beginner(ctx context.Context, token string) (api.Pod, error) {
	return p.Writer(ctx, token)
}

func (onlyPod) Reader(context.Context, string) (api.User, error) { return api.User{}, errNobodyReads }

func (onlyPod) MayRead(context.Context, api.User, string, string) error { return errNobodyReads }

func (onlyPod) Namespace(context.Context, string) (api.Namespace, error) {
	return api.Namespace{}, errNobodyReads
}

// A service is a log service in a directory.
type service struct {
	t      *testing.T
	store  *streams.Store
	url    string
	pin    string // of its CA
	token  string // path of the pod's
	api    *api.Server
	handle http.Handler

	directory string

	mu      sync.Mutex
	between func(w http.ResponseWriter, r *http.Request) (done bool)
}

func serve(t *testing.T) *service {
	t.Helper()
	directory := t.TempDir()
	store := streamstest.Open(t, directory)
	s := &service{t: t, store: store, directory: directory, token: filepath.Join(t.TempDir(), "token")}
	require.NoError(t, os.WriteFile(s.token, []byte(podToken+"\n"), 0o600))
	s.api = api.New(store, onlyPod{}, slog.New(slog.DiscardHandler))
	s.handle = s.api.Handler()
	server := httptest.NewUnstartedServer(s)
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // of connections that are cut
	var certificate tls.Certificate
	certificate, s.pin = certify(t)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS13}
	server.StartTLS()
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

// nobodyKnows is a name of the service that DNS can't resolve (RFC 6761).
const nobodyKnows = "logs.invalid"

// certify returns a chain of certificates for this machine, and the pin of its CA.
func certify(t *testing.T) (tls.Certificate, string) {
	t.Helper()
	now := time.Now()
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, caKey.Public(), caKey)
	require.NoError(t, err)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), NotBefore: ca.NotBefore, NotAfter: ca.NotAfter, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost", nobodyKnows}}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, ca, key.Public(), caKey)
	require.NoError(t, err)
	parsed, err := x509.ParseCertificate(caDER)
	require.NoError(t, err)
	sum := sha256.Sum256(parsed.RawSubjectPublicKeyInfo)
	return tls.Certificate{Certificate: [][]byte{leafDER, caDER}, PrivateKey: key}, "sha256:" + hex.EncodeToString(sum[:])
}

// ServeHTTP implements http.Handler.
func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	between := s.between
	s.mu.Unlock()
	if between != nil && between(w, r) {
		return
	}
	s.handle.ServeHTTP(w, r)
}

// meet has a function handle each request first. If the function returns true, the
// service doesn't get the request.
func (s *service) meet(between func(w http.ResponseWriter, r *http.Request) (done bool)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.between = between
}

// command returns the supervisor with flags, and with the command behind --.
func (s *service) command(args ...string) *exec.Cmd {
	flags := []string{"-logs=stream", "-logs-flush=" + patience.String(), "-logs-to=" + s.url, "-logs-ca=" + s.pin, "-logs-token=" + s.token, "-logs-container=main", "-logs-label=tekton.dev/taskRun=build", "-logs-label=tekton.dev/pipelineRun=a"}
	cmd := exec.CommandContext(s.t.Context(), entrypoint, append(flags, args...)...)
	cmd.WaitDelay = deadline
	return cmd
}

// staying returns a command of the shell that starts a process in a session of its own,
// which stays until the test is over.
func (s *service) staying() string {
	return "setsid sh -c 'while [ -d " + s.t.TempDir() + " ]; do sleep 1; done' &"
}

// A result is how a container has ended.
type result struct {
	code           int
	stdout, stderr string // what went to the container's own
	pointer        string // the first line of stderr, if it says where the output is
	took           time.Duration
}

func (s *service) run(cmd *exec.Cmd) result {
	s.t.Helper()
	return s.start(cmd)()
}

// start starts a container, and returns a function that waits for its end.
func (s *service) start(cmd *exec.Cmd) (wait func() result) {
	s.t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	began := time.Now()
	require.NoError(s.t, cmd.Start())
	return func() result {
		s.t.Helper()
		err := cmd.Wait()
		if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || !exit.Exited()) {
			require.NoError(s.t, err, stderr.String())
		}
		got := result{code: cmd.ProcessState.ExitCode(), stdout: stdout.String(), stderr: stderr.String(), took: time.Since(began)}
		if first, rest, _ := strings.Cut(got.stderr, "\n"); strings.HasPrefix(first, "entrypointer: the output is at the log service: ") {
			got.pointer, got.stderr = first, rest
		}
		return got
	}
}

// A stream is what the service has stored of a stream.
type stream struct {
	data             []byte // with zeros where it is dropped or missing
	dropped, missing int64
	complete         bool
}

// stream reads a stream of the container. There must be only one start.
func (s *service) stream(name string) stream {
	s.t.Helper()
	return s.streamOf("main", name)
}

// streamOf reads a stream of a container by its name.
func (s *service) streamOf(container, name string) stream {
	s.t.Helper()
	id := s.idOf(container, name)
	require.NotEmpty(s.t, id, "no stream %s was made", name)
	state, err := s.store.State(s.t.Context(), id)
	require.NoError(s.t, err)
	got := stream{complete: state.Complete, dropped: state.Dropped.Len(), missing: state.Missing.Len()}
	for _, part := range s.partsOf(id) {
		if part.Data == nil {
			part.Data = make([]byte, part.Len())
		}
		got.data = append(got.data, part.Data...)
	}
	return got
}

// parts returns the parts of a stream of the container.
func (s *service) parts(name string) (all []streams.Part) {
	s.t.Helper()
	return s.partsOf(s.id(name))
}

func (s *service) partsOf(id string) (all []streams.Part) {
	s.t.Helper()
	reader := s.store.Reader(id, 0)
	for {
		part, err := reader.Next(s.t.Context())
		if errors.Is(err, io.EOF) || errors.Is(err, streams.ErrNotYet) {
			return all
		}
		require.NoError(s.t, err)
		all = append(all, part)
	}
}

// came returns the time of a byte of a stream.
func (s *service) came(name string, at int64) time.Time {
	s.t.Helper()
	for _, part := range s.parts(name) {
		if marks := times.Cut(part.Times, at, part.To); at >= part.From && len(marks) > 0 {
			return time.UnixMilli(marks[0].Time)
		}
	}
	require.Fail(s.t, "it never came", "byte %d of %s", at, name)
	return time.Time{}
}

// id returns the ID of a stream, "" if it doesn't exist.
func (s *service) id(name string) (found string) {
	s.t.Helper()
	return s.idOf("main", name)
}

func (s *service) idOf(container, name string) (found string) {
	s.t.Helper()
	all, err := filepath.Glob(filepath.Join(s.directory, "streams", "*"))
	require.NoError(s.t, err)
	for _, path := range all {
		id := filepath.Base(path)
		source, err := s.store.Source(s.t.Context(), id)
		if errors.Is(err, streams.ErrNoStream) {
			continue // it is just being made
		}
		require.NoError(s.t, err)
		require.NotEmpty(s.t, source.Start)
		given := maps.Clone(source.Labels)
		delete(given, loglabels.TraceParent) // trace_test.go
		require.Equal(s.t, map[string]string{"tekton.dev/taskRun": "build", "tekton.dev/pipelineRun": "a"}, given)
		if source.Container == container && source.Name == name {
			require.Empty(s.t, found, "there are two streams %s", name)
			found = id
		}
	}
	return found
}
