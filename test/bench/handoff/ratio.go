// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"math"
	"time"

	"github.com/entrypointer/entrypointer/test/framework"
)

// A ratio is how many times as fast wrapped TaskRuns are as those that aren't, and
// the interval in which that is, see [framework.Interval].
type ratio struct{ mean, from, to float64 }

// ratioOf compares TaskRuns that took turns, pair by pair: what the machine did
// meanwhile is in both. It is the geometric mean of the pairs' ratios. With fewer than two
// pairs, anything is possible.
func ratioOf(plain, wrapped []time.Duration) ratio {
	var logs []float64
	pairs := min(len(plain), len(wrapped))
	for i, took := range wrapped[:pairs] {
		if alone := plain[:pairs][i]; alone > 0 && took > 0 {
			logs = append(logs, math.Log(alone.Seconds()/took.Seconds()))
		}
	}
	mean, half := framework.Interval(logs)
	return ratio{math.Exp(mean), math.Exp(mean - half), math.Exp(mean + half)}
}

// wide says that the interval leaves open which side is faster, and isn't narrow either.
func (r ratio) wide() bool {
	const narrow = 0.05
	return r.from < 1 && r.to > 1 && (r.from < 1-narrow || r.to > 1+narrow)
}

// String is the mean with the interval: 1.10× (1.02 to 1.19).
func (r ratio) String() string {
	if math.IsInf(r.to, 1) {
		return ""
	}
	return fmt.Sprintf("%.2f× (%.2f to %.2f)", r.mean, r.from, r.to)
}
