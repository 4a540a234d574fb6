// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/entrypointer/entrypointer/test/loopback"
	"github.com/entrypointer/entrypointer/test/program"
)

const bucketName, accessKey, secretKey = "logs", "access", "secret"

// A store is an S3 server with a proxy before it. Its objects are files.
type store struct {
	directory string // of everything here
	server    *program.Process
	proxy     *proxy
}

func startStore(ctx context.Context, programs string, latency time.Duration) (_ *store, err error) {
	s := &store{}
	if s.directory, err = os.MkdirTemp("", "bench-bucket-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	address, err := loopback.FreeAddress(ctx)
	if err != nil {
		return nil, err
	}
	s.server, err = start(ctx, filepath.Join(s.directory, "versitygw.log"), nil, filepath.Join(programs, "versitygw"),
		"-listen", address, "-directory", filepath.Join(s.directory, "s3"), "-bucket", bucketName, "-access", accessKey, "-secret", secretKey)
	if err != nil {
		return nil, err
	}
	err = await(ctx, s.server, "the S3 server", func(ctx context.Context) error {
		connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err != nil {
			return err
		}
		return connection.Close()
	})
	if err != nil {
		return nil, err
	}
	s.proxy, err = startProxy(ctx, address, latency)
	return s, err
}

func (s *store) close() {
	if s.proxy != nil {
		s.proxy.close()
	}
	s.server.Kill()
	_ = os.RemoveAll(s.directory)
}

// each calls a function for the file of each object.
func (s *store) each(visit func(key, path string, info fs.FileInfo) error) error {
	bucket := filepath.Join(s.directory, "s3", bucketName)
	return filepath.WalkDir(bucket, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || entry.IsDir() {
			return err
		}
		key, err := filepath.Rel(bucket, path)
		if err != nil || strings.HasPrefix(key, ".") { // the server's own
			return err
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		return visit(filepath.ToSlash(key), path, info)
	})
}

// size returns how many objects there are, and how many bytes they have.
func (s *store) size() (objects, bytes int64, err error) {
	err = s.each(func(_, _ string, info fs.FileInfo) error {
		objects, bytes = objects+1, bytes+info.Size()
		return nil
	})
	return objects, bytes, err
}

// age makes objects older, as if that time had passed. The notes of sweeps stay: without
// them, the log service would doubt the clock. What it has noted of streams is deleted,
// because that has times in it; the service finds that again by a listing.
func (s *store) age(by time.Duration) error {
	err := s.each(func(key, path string, info fs.FileInfo) error {
		switch kind, _, _ := strings.Cut(key, "/"); kind {
		case "sweeps":
			return nil
		case "ledgers", "journal":
			return os.Remove(path)
		}
		at := info.ModTime().Add(-by)
		if err := os.Chtimes(path, at, at); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("making objects older: %w", err)
	}
	return nil
}

// streamObjects returns how many objects of streams there are: those that a stream or its
// entry in the index has.
func (s *store) streamObjects() (count int, err error) {
	err = s.each(func(key, _ string, _ fs.FileInfo) error {
		if strings.HasPrefix(key, "streams/") || strings.HasPrefix(key, "pods/") || strings.HasPrefix(key, "gone/") {
			count++
		}
		return nil
	})
	return count, err
}
