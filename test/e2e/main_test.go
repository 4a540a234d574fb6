// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

// Package e2e tests the product on a real cluster, any that KUBECONFIG names:
//
//	go test -tags e2e -count 1 -timeout 2h ./test/e2e
//
// Tests that take the injector down or reinstall it run first, one at a time;
// after them, all others run in parallel. Each makes its own namespaces, and
// deletes them. The environment that it reads is described in package framework.
package e2e

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/entrypointer/entrypointer/test/framework"
)

// atOnce is how many tests run in parallel, unless -parallel says otherwise.
// They mostly wait, so it has little to do with the number of CPUs.
const atOnce = "5"

var cluster *framework.Cluster

func TestMain(m *testing.M) {
	if err := prepare(); err != nil {
		fmt.Fprintf(os.Stderr, "e2e: %v\n", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// prepare looks whether everything is there that the tests need.
func prepare() (err error) {
	// The flags aren't parsed yet, so the command line has the last word.
	if err := flag.Set("test.parallel", atOnce); err != nil {
		return err
	}
	if cluster, err = framework.Connect(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if err := cluster.Preflight(ctx); err != nil {
		return err
	}
	return cluster.WaitForInjector(ctx)
}

// eventually tries until it succeeds, and ends the test if it doesn't in time.
func eventually(t *testing.T, within time.Duration, what string, try func() error) {
	t.Helper()
	if err := framework.Eventually(t.Context(), within, what, func(context.Context) error { return try() }); err != nil {
		t.Fatal(err)
	}
}

// image is what to write into a pod for a reference as a user writes it.
func image(t *testing.T, reference string) string {
	t.Helper()
	resolved, err := framework.Image(t.Context(), reference)
	if err != nil {
		t.Fatal(err)
	}
	return resolved
}
