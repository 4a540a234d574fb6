// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/test/framework"
)

func TestRender(t *testing.T) {
	bare, tini := &peer{name: bareName, replaced: true}, &peer{name: tiniName + " 0.19.0", size: 27792}
	ours, exec := &peer{name: "ours", size: 1720482}, &peer{name: "exec", size: 1720482, replaced: true}
	least := &peer{name: "least", size: 1e6, startOnly: true}
	same := func(d time.Duration) map[*peer][]time.Duration {
		return map[*peer][]time.Duration{bare: {d}, tini: {d}, ours: {d}, exec: {d}}
	}
	c := costs{
		turns: 3, idle: time.Minute,
		starts: map[*peer][]time.Duration{
			bare: {1e6, 1e6, 2e6}, tini: {1e6, 2e6, 4e6}, ours: {2e6, 3e6, 9e6}, exec: {1e6, 1.5e6, 2e6}, least: {2e6, 2e6, 2e6},
		},
		exits: same(250e3), signals: same(100e3),
		waits: map[*peer]framework.Usage{tini: {RSSAnon: 1e5, RSS: 1e6, Threads: 1, Wakeups: 60, CPU: 1e6}, ours: {RSSAnon: 7e5, RSS: 2e6, Threads: 4}, bare: {}, exec: {RSS: 1}},
	}
	table, _, _ := strings.Cut(render([]*peer{bare, ours, exec, least, tini}, []absence{{"other", "a | b"}}, c), "\n\n")
	rows := strings.Split(table, "\n")
	require.Equal(t, []string{
		"| bare |  | 1.00 ms |  | 1.00 ms |  |  |  |  | 0.25 ms | 0.10 ms |  |  |",
		"| ours | 1.72 MB | 3.00 ms | 2.00 ms | 8.00 ms | 2.00 | 0.70 MB | 2.00 MB | 4 | 0.25 ms | 0.10 ms | 0 | 0.00 ms |",
		"| exec | 1.72 MB | 1.50 ms | 0.50 ms | 1.00 ms | 0.50 |  |  |  | 0.25 ms | 0.10 ms |  |  |",
		"| least | 1.00 MB | 2.00 ms | 1.00 ms | 1.00 ms | 1.00 |  |  |  |  |  |  |  |",
		"| tini 0.19.0 | 0.03 MB | 2.00 ms | 1.00 ms | 3.00 ms | 1.00 | 0.10 MB | 1.00 MB | 1 | 0.25 ms | 0.10 ms | 60 | 1.00 ms |",
		`| other | not measured: a \| b | | | | | | | | | | | |`,
	}, rows[2:])
}

func TestRenderWithoutTini(t *testing.T) {
	bare, ours := &peer{name: bareName, replaced: true}, &peer{name: "ours"}
	require.Contains(t, render([]*peer{bare, ours}, nil, costs{}), "| ours | 0.00 MB | 0.00 ms | 0.00 ms | 0.00 ms |  | 0.00 MB |")
}

func TestLastLine(t *testing.T) {
	require.Equal(t, "because", lastLine(errors.New("running: exit status 1\nfirst\n  because")))
	require.Equal(t, "because", lastLine(errors.New("because")))
}
