// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Versitygw is an S3 server for tests, which keeps objects in a directory: Versity's
// gateway, with as little of it as takes PutObject, GetObject and listings.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/versity/versitygw/auth"
	"github.com/versity/versitygw/backend/meta"
	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/s3api"
	"github.com/versity/versitygw/s3api/middlewares"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "address to serve on")
	directory := flag.String("directory", "", "where the objects are kept, on a file system with extended attributes (required)")
	bucket := flag.String("bucket", "logs", "a bucket that there is from the beginning")
	access := flag.String("access", "access", "access key of the one user")
	secret := flag.String("secret", "secret", "the user's secret key")
	flag.Parse()
	if err := serve(*listen, *directory, *bucket, *access, *secret); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// atOnce is how many connections and requests are served at a time.
const atOnce = 1000

// region is what clients have to say, whatever it is.
const region = "us-east-1"

func serve(listen, directory, bucket, access, secret string) error {
	if err := os.MkdirAll(filepath.Join(directory, bucket), 0o700); err != nil {
		return fmt.Errorf("making bucket %q: %w", bucket, err)
	}
	backend, err := posix.New(directory, meta.XattrMeta{}, posix.PosixOpts{})
	if err != nil {
		return fmt.Errorf("serving directory %q: %w", directory, err)
	}
	defer backend.Shutdown()
	user := auth.Account{Access: access, Secret: secret, Role: auth.RoleAdmin}
	server, err := s3api.New(backend, middlewares.RootUserConfig{Access: access, Secret: secret}, region,
		auth.NewIAMServiceSingle(user), nil, nil, nil, nil, s3api.WithQuiet(), s3api.WithKeepAlive(), s3api.WithConcurrencyLimiter(atOnce, atOnce))
	if err != nil {
		return fmt.Errorf("making the S3 server: %w", err)
	}
	return server.ServeMultiPort([]string{listen})
}
