// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package stores

import (
	"errors"
	"fmt"
	"net"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/fsouza/fake-gcs-server/fakestorage"
	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/logs/api/apitest"
	"github.com/entrypointer/entrypointer/internal/logs/storage"
	"github.com/entrypointer/entrypointer/internal/logs/storage/storagetest"
)

// addresses are the servers', host and port.
var addresses = map[string]string{}

func TestMain(m *testing.M) {
	status, err := withServers(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(status)
}

func withServers(m *testing.M) (status int, err error) {
	directory, err := os.MkdirTemp("", "stores")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(directory)) }()
	stop, err := startS3(directory)
	if err != nil {
		return 0, err
	}
	defer stop()
	listening := httptest.NewUnstartedServer(nil)
	addresses["gs"] = listening.Listener.Addr().String()
	server, err := fakestorage.NewServerWithOptions(fakestorage.Options{NoListener: true, PublicHost: addresses["gs"]})
	if err != nil {
		return 0, fmt.Errorf("making a server of Google Cloud Storage: %w", err)
	}
	server.CreateBucketWithOpts(fakestorage.CreateBucketOpts{Name: bucket})
	listening.Config.Handler = server.HTTPHandler()
	listening.Start()
	defer listening.Close()
	return m.Run(), nil
}

const bucket, access, secret = "logs", "access", "secret"

// startLimit is what the S3 server may take to start.
const startLimit = 30 * time.Second

// startS3 compiles a server, which has a module of its own, and starts it.
func startS3(directory string) (stop func(), err error) {
	program := filepath.Join(directory, "versitygw")
	build := exec.Command("go", "build", "-C", "versitygw", "-o", program, ".")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("running %q: %w: %s", build.Args, err, out)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addresses["s3"] = listener.Addr().String()
	if err := listener.Close(); err != nil {
		return nil, err
	}
	server := exec.Command(program, "-listen", addresses["s3"], "-directory", filepath.Join(directory, "s3"), "-bucket", bucket, "-access", access, "-secret", secret)
	server.Stdout, server.Stderr = os.Stderr, os.Stderr
	server.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := server.Start(); err != nil {
		return nil, fmt.Errorf("running %q: %w", server.Args, err)
	}
	stop = func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	}
	for deadline := time.Now().Add(startLimit); ; time.Sleep(20 * time.Millisecond) {
		connection, err := net.Dial("tcp", addresses["s3"])
		if err == nil {
			return stop, connection.Close()
		}
		if time.Now().After(deadline) {
			stop()
			return nil, fmt.Errorf("waiting for the S3 server: %w", err)
		}
	}
}

// kinds are the stores that are tested.
var kinds = []string{"s3", "gs"}

// use has the stores' clients find the servers: one or what stands before it.
func use(t *testing.T, kind, address string) (location string) {
	t.Helper()
	if kind == "gs" {
		t.Setenv("STORAGE_EMULATOR_HOST", address)
		return "gs://" + bucket + "?anonymous=true"
	}
	t.Setenv("AWS_ACCESS_KEY_ID", access)
	t.Setenv("AWS_SECRET_ACCESS_KEY", secret)
	return "s3://" + bucket + "?" + url.Values{"region": {"us-east-1"}, "endpoint": {"http://" + address}, "use_path_style": {"true"}}.Encode()
}

var places atomic.Int32

// place is a prefix of its own in a bucket.
func place(t *testing.T, location string) storagetest.Place {
	t.Helper()
	prefix := fmt.Sprintf("place%d/", places.Add(1))
	return func(t *testing.T) storage.Bucket {
		t.Helper()
		store, err := storage.OpenObjectStore(t.Context(), location+"&prefix="+url.QueryEscape(prefix))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, store.Close()) })
		return store
	}
}

func TestObjectStoresAreBuckets(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			location := use(t, kind, addresses[kind])
			storagetest.Run(t, func(t *testing.T) storagetest.Place { return place(t, location) })
		})
	}
}

func TestReplicasAreAsOneOnObjectStores(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			location := use(t, kind, addresses[kind])
			apitest.Run(t, func(t *testing.T) storagetest.Place { return place(t, location) })
		})
	}
}
