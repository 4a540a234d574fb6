// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// profilesVariable is the environment variable with the directory in which profiles for
// "go tool pprof" are kept. Without it, none are made.
const profilesVariable = "SCALE_PROFILES"

// keepHeap keeps a profile of the injector's heap.
func keepHeap(ctx context.Context, name string) error {
	return keepProfile(ctx, http.DefaultClient, profiles+"heap?gc=1", name)
}

// keepCPU begins to profile the processor time of the injector and of the API server. The
// function that it returns waits until the profiles are kept.
func (w *world) keepCPU(ctx context.Context, name string, lasts time.Duration) (wait func()) {
	var group sync.WaitGroup
	query := fmt.Sprintf("profile?seconds=%d", max(1, int(lasts.Seconds())))
	for program, keep := range map[string]func(name string) error{
		"injector": func(name string) error { return keepProfile(ctx, http.DefaultClient, profiles+query, name) },
		"apiserver": func(name string) error {
			return keepProfile(ctx, w.patient(lasts), apiServerURL+"/debug/pprof/"+query, name)
		},
	} {
		group.Go(func() {
			if err := keep(name + "-" + program); err != nil {
				log.Printf("profiling: %v", err)
			}
		})
	}
	return group.Wait
}

// patient returns the administrator's client, for a request that lasts for a time.
func (w *world) patient(lasts time.Duration) *http.Client {
	return &http.Client{Transport: w.admin.Transport, Timeout: w.admin.Timeout + lasts}
}

func keepProfile(ctx context.Context, client *http.Client, url, name string) error {
	directory := os.Getenv(profilesVariable)
	if directory == "" {
		return nil
	}
	r, err := get(url)(ctx)
	if err != nil {
		return err
	}
	response, err := client.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s: %.200q", url, response.Status, text)
	}
	return os.WriteFile(filepath.Join(directory, name+".pb.gz"), text, 0o600)
}
