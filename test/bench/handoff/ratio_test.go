// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/test/framework"
)

func TestAnIntervalHasTheTrueRatioAsOftenAsItSays(t *testing.T) {
	const tries, pairs, truth = 4000, 6, 1.2
	random, in := rand.New(rand.NewPCG(1, 2)), 0
	for range tries {
		var plain, wrapped []time.Duration
		for range pairs {
			// The machine slows both, and each has noise of its own.
			machine := math.Exp(random.NormFloat64() / 2)
			plain = append(plain, time.Duration(1e9*truth*machine*math.Exp(random.NormFloat64()/10)))
			wrapped = append(wrapped, time.Duration(1e9*machine*math.Exp(random.NormFloat64()/10)))
		}
		if r := ratioOf(plain, wrapped); r.from <= truth && truth <= r.to {
			in++
		}
	}
	require.InDelta(t, framework.Confidence, float64(in)/tries, 0.015)
}

func TestARatioIsWideWhileItLeavesOpenWhichSideIsFaster(t *testing.T) {
	for name, test := range map[string]struct {
		ratio ratio
		wide  bool
	}{
		"faster":              {ratio{1.2, 1.1, 1.3}, false},
		"slower":              {ratio{0.8, 0.7, 0.9}, false},
		"open":                {ratio{1.1, 0.9, 1.3}, true},
		"the same, certainly": {ratio{1, 0.96, 1.04}, false},
		"too few":             {ratioOf([]time.Duration{1}, []time.Duration{1}), true},
	} {
		require.Equal(t, test.wide, test.ratio.wide(), name)
	}
	require.Equal(t, "1.20× (1.10 to 1.30)", ratio{1.2, 1.1, 1.3}.String())
	require.Empty(t, ratioOf(nil, nil).String())
}
