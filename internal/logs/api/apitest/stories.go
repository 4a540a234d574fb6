// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/entrypointer/entrypointer/internal/logs/storage/storagetest"
)

// Run runs the conformance tests, each in a new place.
func Run(t *testing.T, place func(t *testing.T) storagetest.Place) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, storagetest.Place){
		"concurrent requests create one stream":              oneStream,
		"the RFC's examples work":                            rfc,
		"faults on the way lose no byte":                     faults,
		"concurrent appends lose no line":                    appends,
		"a stream can be followed at any replica":            follow,
		"one of two concurrent ends counts for all replicas": ends,
	} {
		t.Run(name, func(t *testing.T) { test(t, place(t)) })
	}
}

func oneStream(t *testing.T, place storagetest.Place) {
	s := serve(t, place, 3)
	var mu sync.Mutex
	paths := map[string]bool{}
	var group errgroup.Group
	for range 12 {
		group.Go(func() error {
			path, err := s.stream("stdout")
			mu.Lock()
			defer mu.Unlock()
			paths[path] = true
			return err
		})
	}
	require.NoError(t, group.Wait())
	require.Len(t, paths, 1)
}

func rfc(t *testing.T, place storagetest.Place) {
	for _, replicas := range []int{1, 3} {
		s := serve(t, place, replicas)
		stdout, err := s.stream(fmt.Sprint("stdout", replicas))
		require.NoError(t, err)
		stderr, err := s.stream(fmt.Sprint("stderr", replicas))
		require.NoError(t, err)
		require.NoError(t, s.send(http.MethodPost, stdout+"/data", "hello "))
		require.NoError(t, s.send(http.MethodPost, stdout+"/data", zipped("world\n"), "Content-Encoding", "gzip"))
		require.Equal(t, "hello world\n", s.read(stdout+"/data"))
		require.NoError(t, s.send(http.MethodPatch, stderr+"/data", "third", "Content-Range", "bytes 11-15/*"))
		require.NoError(t, s.send(http.MethodPatch, stderr+"/data", "first", "Content-Range", "bytes 0-4/*"))
		require.NoError(t, s.send(http.MethodPost, stderr+"/markers", `{"range":"bytes 5-10/*","markers":["dropped"]}`))
		require.Equal(t, "first\n[entrypointer: 6 bytes were dropped]\nthird", s.read(stderr+"/data"))
	}
}

// Each byte is sent twice, in ranges with different bounds, in parallel and in any order.
// Some replicas die after they have written, and before they respond.
func faults(t *testing.T, place storagetest.Place) {
	s := serve(t, place, 3)
	for seed := range uint64(3) {
		random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // the same each time
		path, err := s.stream(fmt.Sprint("stdout", seed))
		require.NoError(t, err)
		data := strings.Repeat("All work and no play makes Jack a dull boy.\n", 50)
		var sends []func() error
		for range 2 {
			for from := 0; from < len(data); {
				to := min(len(data), from+1+random.IntN(300))
				body, headers := data[from:to], []string{"Content-Range", fmt.Sprintf("bytes %d-%d/*", from, to-1)}
				if random.IntN(2) == 0 {
					body, headers = zipped(body), append(headers, "Content-Encoding", "gzip")
				}
				killed := random.IntN(8) == 0
				sends = append(sends, func() error {
					if killed {
						if _, _, err := s.request(http.MethodPatch, path+"/data", writer, body, append(headers, dies, "true")...); err == nil {
							return fmt.Errorf("a dead replica has responded")
						}
					}
					return s.send(http.MethodPatch, path+"/data", body, headers...)
				})
				from = to
			}
		}
		random.Shuffle(len(sends), func(i, j int) { sends[i], sends[j] = sends[j], sends[i] })
		var group errgroup.Group
		group.SetLimit(6)
		for _, send := range sends {
			group.Go(send)
		}
		require.NoError(t, group.Wait())
		require.NoError(t, s.send(http.MethodPatch, path+"/data", "", "Content-Range", fmt.Sprintf("bytes */%d", len(data))))
		require.Equal(t, data, s.read(path+"/data"))
		var state struct {
			Stored, Dropped, Missing []string
			Complete                 bool
		}
		require.NoError(t, json.Unmarshal([]byte(s.read(path)), &state))
		require.Equal(t, []string{fmt.Sprintf("0-%d", len(data)-1)}, state.Stored)
		require.Empty(t, append(state.Dropped, state.Missing...))
		require.True(t, state.Complete)
	}
}

func appends(t *testing.T, place storagetest.Place) {
	s := serve(t, place, 3)
	path, err := s.stream("stdout")
	require.NoError(t, err)
	const clients, lines = 4, 10
	var group errgroup.Group
	for client := range clients {
		group.Go(func() error {
			for line := range lines {
				if err := s.send(http.MethodPost, path+"/data", fmt.Sprintf("client %d line %d\n", client, line)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	require.NoError(t, group.Wait())
	text := s.read(path + "/data")
	require.Len(t, strings.Split(strings.TrimSuffix(text, "\n"), "\n"), clients*lines)
	for client := range clients {
		at := -1
		for line := range lines {
			next := strings.Index(text, fmt.Sprintf("client %d line %d\n", client, line))
			require.Greater(t, next, at, "line %[2]d of client %[1]d comes after the line before it", client, line)
			at = next
		}
	}
}

func follow(t *testing.T, place storagetest.Place) {
	s := serve(t, place, 3)
	path, err := s.stream("stdout")
	require.NoError(t, err)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.server.URL+path+"/data?follow=true", nil)
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+reader)
	response, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer response.Body.Close()
	for i := range 5 {
		require.NoError(t, s.send(http.MethodPatch, path+"/data", fmt.Sprint(i), "Content-Range", fmt.Sprintf("bytes %d-%d/*", i, i)))
		got := make([]byte, 1)
		_, err := io.ReadFull(response.Body, got)
		require.NoError(t, err)
		require.Equal(t, fmt.Sprint(i), string(got))
	}
	require.NoError(t, s.send(http.MethodPatch, path+"/data", "", "Content-Range", "bytes */5"))
	rest, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Empty(t, rest)
}

func ends(t *testing.T, place storagetest.Place) {
	s := serve(t, place, 3)
	path, err := s.stream("stdout")
	require.NoError(t, err)
	statuses := make([]int, 6)
	var group errgroup.Group
	for i := range statuses {
		group.Go(func() (err error) {
			statuses[i], _, err = s.request(http.MethodPatch, path+"/data", writer, "", "Content-Range", fmt.Sprintf("bytes */%d", i%2))
			return err
		})
	}
	require.NoError(t, group.Wait())
	accepted := map[int]bool{}
	for i, status := range statuses {
		require.Contains(t, []int{http.StatusAccepted, http.StatusConflict}, status)
		accepted[i%2] = accepted[i%2] || status == http.StatusAccepted
	}
	require.NotEqual(t, accepted[0], accepted[1], "only one of the lengths is accepted")
}
